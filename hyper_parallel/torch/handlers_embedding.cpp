// Look-ups in a table whose rows are cut, and of bags of rows.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/zeros.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/bridge.h"
#include "hyper_parallel/torch/handlers_internal.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

/// The indices of own bags, one bag after the other.
struct Bags {
  at::Tensor indices;
  at::Tensor offsets;  // where each bag begins; behind them the end, if `ends`
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

// The number of the bag of each index.
at::Tensor bag_of_index(const Bags& b, bool ends) {
  const auto options = b.offsets.options();
  at::Tensor bounds = b.offsets;
  if (!ends) bounds = at::cat({bounds, at::full({1}, b.indices.size(0), options)});
  return at::repeat_interleave(bounds.diff());
}

constexpr std::int64_t kSum = 0;
constexpr std::int64_t kMean = 1;
constexpr std::int64_t kMax = 2;

}  // namespace

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

// A bag's mean, and rows that others hold, are weights of the indices in a sum.
void embedding_bag(HandlerCall& c) {
  const LocalDim rows = c.dim_of("weight", 0);
  const std::int64_t mode = c.integer("mode", kSum);
  const bool ends = c.boolean("include_last_offset", false);
  Bags bags = own_bags(c);
  at::Tensor weight = c.tensor("weight");
  std::int64_t padding = c.integer("padding_idx", -1);
  if (c.op_name() == "aten::embedding_bag" && c.find("padding_idx") != nullptr && padding < 0) {
    padding += rows.size;
  }
  if (!rows.is_whole()) {
    const at::Tensor used = bags.indices.ne(padding);
    const LocalIndex ids = to_local_index(bags.indices, rows);
    const at::Tensor dropped = ids.mine.logical_and(used).logical_not();
    at::Tensor share = bags.weights;
    if (!share.defined())
      share = at::ones(bags.indices.sizes(), weight.options().requires_grad(false));
    if (mode == kMean) {
      const at::Tensor bag = bag_of_index(bags, ends);
      const std::int64_t count = bags.offsets.size(0) - (ends ? 1 : 0);
      const at::Tensor counts =
          at::zeros({count}, share.options()).index_add_(0, bag, used.to(share.scalar_type()));
      share = share / counts.clamp_min_(1).index_select(0, bag);
    }
    bags.weights = share.masked_fill(dropped, 0);
    bags.indices = ids.position.to(bags.indices.scalar_type());
    if (weight.size(0) == 0)
      c.set("sparse", false);  // the row that is added has no sparse gradient
    weight = nonempty(weight, 0);
    padding = -1;
    c.set("mode", kSum);
  }
  c.set("weight", weight);
  c.set("indices", bags.indices);
  c.set("offsets", bags.offsets);
  if (bags.weights.defined()) c.set("per_sample_weights", bags.weights);
  if (c.find("padding_idx") != nullptr) {
    const bool none = padding < 0 && c.op_name() == "aten::embedding_bag";
    c.set("padding_idx", none ? c10::IValue() : c10::IValue(padding));
  }
  c.call();
  const at::Tensor places = mode == kMax ? c.result(3) : at::Tensor();
  c.finish({c.result(), at::Tensor(), at::Tensor(), places});
}

}  // namespace hyper_parallel::torch_layer::handlers
