#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/torch/dtensor.h"

/// The C++ face on tensors. Python has the same names.
namespace hyper_parallel {

/// Cut `tensor`, the same global value on every rank, to this rank's part of `layout`.
///
/// With `source_rank` the value of that rank (a member of the mesh) is broadcast first; without,
/// every rank is trusted to hold the same value. A leaf that requires grad gives a new leaf; a
/// tensor with a graph stays in it.
/// Throws UsageError: dim out of range, rank not in the mesh.
at::Tensor distribute_tensor(const at::Tensor& tensor, const Layout* layout,
                             std::optional<int> source_rank = 0);

/// Wrap this rank's part. `sizes` is the global shape; without it, it is found by one small
/// all-gather a split dim where ranks may differ.
/// Throws UsageError if the local shape does not fit the chunk rule for `sizes`.
at::Tensor from_local(const at::Tensor& local, const Layout* layout,
                      std::optional<Shape> sizes = std::nullopt,
                      const Layout* grad_layout = nullptr);

/// This rank's part as a plain tensor. Its gradient is taken as whole on every rank (as torch's
/// DTensor does), or in `grad_layout`.
at::Tensor to_local(const at::Tensor& t, const Layout* grad_layout = nullptr);

/// The whole value as a plain tensor on every rank.
at::Tensor full_tensor(const at::Tensor& t, const Layout* grad_layout = nullptr);

/// Move to `layout`: value kept. `t` itself if nothing changes.
at::Tensor redistribute(const at::Tensor& t, const Layout* layout);

/// All pending reductions done.
at::Tensor reduce_partial(const at::Tensor& t);

/// The layout of a DTensor. Throws UsageError for a plain tensor.
const Layout* layout_of(const at::Tensor& t);

}  // namespace hyper_parallel
