// Squeeze looks at sizes, and a local dim may have length 1 where the global one does not.

#include <ATen/ops/squeeze.h>

#include "hyper_parallel/torch/handlers_internal.h"

namespace hyper_parallel::torch_layer::handlers {

void squeeze(HandlerCall& c) {
  const at::Tensor x = c.tensor("self");
  const Shape& sizes = c.sizes("self");
  std::vector<std::int64_t> dims;
  for (std::int64_t d : c.dims(static_cast<int>(x.dim()))) {
    if (sizes[static_cast<std::size_t>(d)] == 1) dims.push_back(d);
  }
  c.finish({c.writes() ? x.squeeze_(dims) : at::squeeze(x, dims)});
}

}  // namespace hyper_parallel::torch_layer::handlers
