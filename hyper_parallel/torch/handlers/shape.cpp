// Ops that look at sizes or positions, which are others in a part: a local dim may have length 1
// where the global one does not.

#include <ATen/ops/squeeze.h>

#include <algorithm>

#include "hyper_parallel/torch/handlers/internal.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

void slice(HandlerCall& c) {
  const auto ndim = static_cast<std::int64_t>(c.sizes("self").size());
  const std::int64_t given = c.integer("dim", 0);
  const auto dim = static_cast<int>(given < 0 ? given + ndim : given);
  const LocalDim d = c.dim_of("self", dim);
  const auto place = [&](const char* name, std::int64_t otherwise) {
    std::int64_t global = c.integer(name, otherwise);
    global = std::clamp<std::int64_t>(global < 0 ? global + d.size : global, 0, d.size);
    std::int64_t local = 0;
    for (const Interval& i : d.intervals) local += std::clamp(global, i.begin, i.end) - i.begin;
    return local;
  };
  const std::int64_t start = place("start", 0);
  const std::int64_t end = place("end", d.size);
  c.set("start", start);
  c.set("end", end);
  c.call();
}

void squeeze(HandlerCall& c) {
  const at::Tensor x = c.tensor("self");
  const Shape& sizes = c.sizes("self");
  std::vector<std::int64_t> dims;
  for (std::int64_t d : c.dims(static_cast<int>(x.dim()))) {
    if (sizes[static_cast<std::size_t>(d)] == 1) dims.push_back(d);
  }
  c.finish({c.writes() ? x.squeeze_(dims) : at::squeeze(x, dims)});
}

constexpr HandlerEntry kShape[] = {
    {"slice", slice},
    {"squeeze", squeeze},
};

}  // namespace

std::span<const HandlerEntry> shape_entries() { return kShape; }

}  // namespace hyper_parallel::torch_layer::handlers
