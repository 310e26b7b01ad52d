// Look-ups in a table whose rows are cut, and of bags of rows.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/handlers/internal.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

/// The indices of own bags, one bag after the other.
struct Bags {
  at::Tensor indices;
  at::Tensor offsets;  // where each bag begins
  at::Tensor weights;  // of the indices; undefined: all 1
};

Bags own_bags(const HandlerCall& c) {
  Bags out{c.tensor("indices"), c.tensor("offsets"), c.tensor("per_sample_weights")};
  const LocalDim bags = c.dim_of("offsets", 0);
  if (bags.is_whole()) return out;
  const at::Tensor all =
      move(out.offsets, c.layout("offsets"), Layout::replicated(c.mesh()), c.sizes("offsets"));
  const auto begin_of = [&](std::int64_t bag) {
    return bag < bags.size ? all[bag].item<std::int64_t>() : out.indices.size(0);
  };
  std::vector<at::Tensor> indices;
  std::vector<at::Tensor> offsets;
  std::vector<at::Tensor> weights;
  std::int64_t before = 0;
  for (const Interval& i : bags.intervals) {
    const std::int64_t begin = begin_of(i.begin);
    const std::int64_t count = begin_of(i.end) - begin;
    indices.push_back(out.indices.narrow(0, begin, count));
    offsets.push_back(all.narrow(0, i.begin, i.size()) - (begin - before));
    if (out.weights.defined()) weights.push_back(out.weights.narrow(0, begin, count));
    before += count;
  }
  if (indices.empty()) {
    indices.push_back(out.indices.narrow(0, 0, 0));
    offsets.push_back(all.narrow(0, 0, 0));
    if (out.weights.defined()) weights.push_back(out.weights.narrow(0, 0, 0));
  }
  out.indices = at::cat(indices);
  out.offsets = at::cat(offsets);
  if (out.weights.defined()) out.weights = at::cat(weights);
  return out;
}

// How many are true before each place, and in all: int64[n + 1].
at::Tensor count_before(const at::Tensor& mask) {
  return at::cat({at::zeros({1}, mask.options().dtype(at::kLong)), mask.cumsum(0)});
}

constexpr std::int64_t kSum = 0;
constexpr std::int64_t kMean = 1;
constexpr std::int64_t kMax = 2;

// weight [r e], indices [*n] -> [*n e], P(sum) where r is cut.
void embedding(HandlerCall& c) {
  const LocalDim rows = c.dim_of("weight", 0);
  if (rows.is_whole()) return c.call();
  if (c.boolean("scale_grad_by_freq", false)) {
    throw UnsupportedError(
        Message("HP-D030", "aten::embedding: scale_grad_by_freq with a split vocabulary")
            .fact("weight", c.layout("weight")->to_string())
            .hint("split the embedding dim instead, S(1), or leave scale_grad_by_freq out"));
  }
  const at::Tensor weight = c.tensor("weight");
  const LocalIndex ids = to_local_index(c.tensor("indices"), rows);
  std::int64_t padding = -1;
  if (const std::int64_t row = c.integer("padding_idx", -1); row >= 0) {
    std::int64_t start = 0;
    for (const Interval& i : rows.intervals) {
      if (row >= i.begin && row < i.end) padding = start + row - i.begin;
      start += i.size();
    }
  }
  at::Tensor out = at::embedding(nonempty(weight, 0), ids.position, padding, false,
                                 c.boolean("sparse", false) && weight.size(0) != 0);
  c.finish({out.masked_fill_(ids.mine.logical_not().unsqueeze_(-1), 0)});
}

// weight [r e], indices [i], offsets [b] -> [b e]; r or b is cut.
// Of split rows a rank adds up those that it holds. A mean is over the indices of all ranks.
void embedding_bag(HandlerCall& c) {
  const LocalDim rows = c.dim_of("weight", 0);
  const std::int64_t mode = c.integer("mode", kSum);
  Bags bags = own_bags(c);
  std::int64_t padding = c.integer("padding_idx", -1);
  const bool optional = c.may_be_none("padding_idx");  // then -1 is the last row
  if (optional && c.find("padding_idx") != nullptr && padding < 0) padding += rows.size;
  at::Tensor counts;
  if (!rows.is_whole()) {
    const at::Tensor weight = c.tensor("weight");
    const LocalIndex ids = to_local_index(bags.indices, rows);
    const at::Tensor used = padding < 0 ? at::ones_like(ids.mine) : bags.indices.ne(padding);
    // An index outside the table stays, for torch to refuse.
    const at::Tensor kept = ids.position.ge(rows.size).logical_or_(ids.mine).logical_and_(used);
    if (mode == kMean) {
      at::Tensor ends = bags.offsets;
      if (!c.boolean("include_last_offset", false)) {
        ends = at::cat({ends, at::full({1}, bags.indices.size(0), ends.options())});
      }
      counts = count_before(used).index_select(0, ends).diff().clamp_min_(1).unsqueeze_(1);
    }
    const at::Tensor places = kept.nonzero().squeeze(1);
    const auto type = bags.indices.scalar_type();
    bags.offsets = count_before(kept).index_select(0, bags.offsets).to(type);
    bags.indices = ids.position.index_select(0, places).to(type);
    if (bags.weights.defined()) bags.weights = bags.weights.index_select(0, places);
    // The row that is added to none has no sparse gradient.
    if (weight.size(0) == 0) c.set("sparse", false);
    c.set("weight", nonempty(weight, 0));
    padding = -1;
    if (mode == kMean) c.set("mode", kSum);
  }
  c.set("indices", bags.indices);
  c.set("offsets", bags.offsets);
  if (bags.weights.defined()) c.set("per_sample_weights", bags.weights);
  if (c.find("padding_idx") != nullptr) {
    c.set("padding_idx", optional && padding < 0 ? c10::IValue() : c10::IValue(padding));
  }
  c.call();
  at::Tensor out = c.result();
  if (counts.defined()) out = (widened(out) / counts).to(out.scalar_type());
  c.finish({out, at::Tensor(), at::Tensor(), mode == kMax ? c.result(3) : at::Tensor()});
}

constexpr HandlerEntry kEmbedding[] = {
    {"embedding", embedding},
    {"embedding_bag", embedding_bag},
};

}  // namespace

std::span<const HandlerEntry> embedding_entries() { return kEmbedding; }

}  // namespace hyper_parallel::torch_layer::handlers
