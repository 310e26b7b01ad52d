// Writing by index along cut dims: each rank writes what falls into its part. Indices of other
// ranks point to a spare row behind the local ones, which is dropped afterwards.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "hyper_parallel/torch/handlers/internal.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

at::Tensor with_spare(const at::Tensor& t, std::int64_t dim) {
  auto sizes = t.sizes().vec();
  sizes[static_cast<std::size_t>(dim)] = 1;
  return at::cat({t, at::zeros(sizes, t.options())}, dim);
}

// Positions along the local dim. An index that is no index of the global dim stays out of range.
at::Tensor rows(const at::Tensor& index, const LocalDim& d, std::int64_t local_size) {
  const LocalIndex i = to_local_index(index, d);
  const at::Tensor spare = at::where(i.position.eq(d.size), d.size + 1, local_size);
  return at::where(i.mine, i.position, spare.to(i.position.scalar_type()));
}

at::Tensor from_the_end(const at::Tensor& index, const LocalDim& d) {
  return at::where(index.lt(0), index + d.size, index);
}

// self[indices] = values
void put(HandlerCall& c) {
  const at::Tensor self = c.tensor("self");
  at::Tensor spared = self;
  c10::List<std::optional<at::Tensor>> indices;
  std::vector<std::int64_t> cut;
  for (const c10::IValue& v : c.find("indices")->toListRef()) {
    std::optional<at::Tensor> index;
    if (v.isTensor() && v.toTensor().defined()) index = v.toTensor();
    const auto dim = static_cast<std::int64_t>(indices.size());
    const LocalDim d = c.dim_of("self", static_cast<int>(dim));
    if (index && !d.is_whole()) {
      index = rows(from_the_end(*index, d), d, self.size(dim));
      spared = with_spare(spared, dim);
      cut.push_back(dim);
    }
    indices.push_back(index);
  }
  c.set("self", spared);
  c.set("indices", std::move(indices));
  c.call();
  at::Tensor out = c.result();
  for (std::int64_t dim : cut) out = out.narrow(dim, 0, self.size(dim));
  c.finish({out});
}

// scatter_nd_add: column d of the index is a place along dim d.
void put_columns(HandlerCall& c) {
  const at::Tensor self = c.tensor("self");
  at::Tensor spared = self;
  std::vector<at::Tensor> columns = c.tensor("index").unbind(-1);
  std::vector<std::int64_t> cut;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto dim = static_cast<std::int64_t>(i);
    const LocalDim d = c.dim_of("self", static_cast<int>(dim));
    if (d.is_whole()) continue;
    columns[i] = rows(from_the_end(columns[i], d), d, self.size(dim));
    spared = with_spare(spared, dim);
    cut.push_back(dim);
  }
  c.set("self", spared);
  c.set("index", at::stack(columns, -1));
  c.call();
  at::Tensor out = c.result();
  for (std::int64_t dim : cut) out = out.narrow(dim, 0, self.size(dim));
  c.finish({out});
}

// self [*a d *b], index [*a k *b] or [k] -> self; d is cut.
// Along one dim. `from_end`: a negative index counts from the end.
void write_dim(HandlerCall& c, bool from_end) {
  const at::Tensor self = c.tensor("self");
  const std::int64_t dim = c.dims(static_cast<int>(self.dim()))[0];
  const LocalDim d = c.dim_of("self", static_cast<int>(dim));
  if (d.is_whole()) return c.call();
  at::Tensor index = c.tensor("index");
  if (from_end) index = from_the_end(index, d);
  c.set("index", rows(index, d, self.size(dim)));
  c.set("self", with_spare(self, dim));
  c.call();
  c.finish({c.result().narrow(dim, 0, self.size(dim))});
}

void index_write(HandlerCall& c) {
  if (c.find("indices") != nullptr) return put(c);
  if (c.find("updates") != nullptr) return put_columns(c);
  write_dim(c, false);
}

void index_fill(HandlerCall& c) { write_dim(c, true); }

constexpr HandlerEntry kWrite[] = {
    {"index_fill", index_fill},
    {"index_write", index_write},
};

}  // namespace

std::span<const HandlerEntry> write_entries() { return kWrite; }

}  // namespace hyper_parallel::torch_layer::handlers
