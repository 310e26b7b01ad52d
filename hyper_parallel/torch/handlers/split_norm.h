#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "hyper_parallel/core/mesh.h"

namespace hyper_parallel::torch_layer {

/// One tensor of which a p-norm over `dims` is wanted.
struct NormOperand {
  at::Tensor x;
  std::vector<std::int64_t> dims;  // non-negative
};

/// The p-norms of tensors whose dims are cut by `axes`, dims kept, f32 for half types: R over
/// `axes`. All tensors have one element type. Differentiable, with torch's gradients where the norm
/// has none (0 at 0, shared by equal extremes for p = inf).
///
/// One collective for all of them: an all-reduce of the powers, for p = inf an all-gather of the
/// extremes (a reduction may drop nan).
std::vector<at::Tensor> split_norms(const std::vector<NormOperand>& operands, double p,
                                    const Mesh* mesh, const std::vector<int>& axes);

/// The p-th root, with gradient 0 (not inf) at 0.
at::Tensor safe_root(const at::Tensor& t, double p);

}  // namespace hyper_parallel::torch_layer
