#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "hyper_parallel/core/mesh.h"

namespace hyper_parallel::torch_layer {

/// The checking mode (`settings().checking`): a plain tensor that enters an op beside DTensors is
/// compared (shape, dtype, hash of its values) over the ranks of the mesh. Costs one small
/// all-gather a tensor.
/// Throws UsageError naming op, ranks and shapes if the ranks hold different tensors.
void check_equal_on_ranks(const std::string& op, const at::Tensor& plain, const Mesh* mesh);

}  // namespace hyper_parallel::torch_layer
