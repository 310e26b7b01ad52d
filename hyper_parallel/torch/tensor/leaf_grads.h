#pragma once

#include <ATen/core/Tensor.h>

namespace hyper_parallel::torch_layer {

/// Finish the gradients of leaf DTensors at the end of each backward pass: pending sums (P) of all
/// leaves are done in one coalesced collective per (axes, dtype), so that `leaf.grad` has the
/// leaf's own layout. Called by the up node of a leaf, inside a backward pass.
void expect_leaf_grad(const at::Tensor& leaf);

/// While false (this rank), gradients stay typed P and are added up; the next backward pass
/// outside finishes them.
bool grad_sync_enabled();
void set_grad_sync_enabled(bool enabled);

}  // namespace hyper_parallel::torch_layer
