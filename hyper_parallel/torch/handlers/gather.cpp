// Reading by index along a cut dim: each rank reads what it holds, and zero for the rest.

#include <ATen/TensorOperators.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/where.h>

#include <algorithm>

#include "hyper_parallel/torch/handlers/internal.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

// self [*a d *b], index [*a k *b] -> [*a k *b], P(sum); d is cut.
void gather(HandlerCall& c) {
  const at::Tensor x = c.tensor("self");
  const std::int64_t dim = c.dims(static_cast<int>(x.dim()))[0];
  const LocalDim d = c.dim_of("self", static_cast<int>(dim));
  if (d.is_whole()) return c.call();
  c.finish({gather_mine(x, dim, c.tensor("index"), d)});
}

// self [*a d *b], index [k] -> [*a k *b], P(sum); d is cut.
void index_select(HandlerCall& c) {
  const at::Tensor x = c.tensor("self");
  const std::int64_t dim = c.dims(static_cast<int>(x.dim()))[0];
  const LocalDim d = c.dim_of("self", static_cast<int>(dim));
  if (d.is_whole()) return c.call();
  const LocalIndex i = to_local_index(c.tensor("index"), d);
  Shape shape(static_cast<std::size_t>(x.dim()), 1);
  shape[static_cast<std::size_t>(dim)] = i.mine.numel();
  c.finish({at::index_select(nonempty(x, dim), dim, i.position)
                .masked_fill_(i.mine.logical_not().reshape(shape), 0)});
}

// self[:, index]: one index tensor, of numbers; its dims stand where it stands.
void index(HandlerCall& c) {
  const at::Tensor x = c.tensor("self");
  const auto given = c.find("indices")->toListRef();
  const auto is_index = [](const c10::IValue& v) { return v.isTensor() && v.toTensor().defined(); };
  const auto dim = std::find_if(given.begin(), given.end(), is_index) - given.begin();
  const LocalDim d = c.dim_of("self", static_cast<int>(dim));
  if (d.is_whole()) return c.call();
  const at::Tensor wanted = given[static_cast<std::size_t>(dim)].toTensor();
  const LocalIndex i = to_local_index(at::where(wanted.lt(0), wanted + d.size, wanted), d);
  c10::List<std::optional<at::Tensor>> indices;
  indices.resize(static_cast<std::size_t>(dim), std::nullopt);
  indices.push_back(i.position);
  Shape shape(static_cast<std::size_t>(x.dim() - 1 + wanted.dim()), 1);
  std::copy(wanted.sizes().begin(), wanted.sizes().end(), shape.begin() + dim);
  c.finish(
      {at::index(nonempty(x, dim), indices).masked_fill_(i.mine.logical_not().view(shape), 0)});
}

constexpr HandlerEntry kGather[] = {
    {"gather", gather},
    {"index", index},
    {"index_select", index_select},
};

}  // namespace

std::span<const HandlerEntry> gather_entries() { return kGather; }

}  // namespace hyper_parallel::torch_layer::handlers
