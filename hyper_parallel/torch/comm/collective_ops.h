#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "hyper_parallel/core/mesh.h"
#include "hyper_parallel/core/placement.h"
#include "hyper_parallel/torch/comm/wire.h"

/// Collectives on local tensors along mesh axes, for handlers and the library itself (code on local
/// tensors has hyper_parallel::all_reduce and others, torch/face/collectives.h). All ranks of the
/// mesh must call them in the same order.
namespace hyper_parallel::torch_layer {

/// P(op) -> R over `axes` (one collective on the flattened group). For sum: differentiable, and
/// its transpose is itself (P -> R again). For max, min, prod: no gradient flows.
at::Tensor all_reduce(const at::Tensor& local, const Mesh* mesh, const std::vector<int>& axes,
                      ReduceOp op = ReduceOp::sum);

/// Parts of equal shape from all ranks of `axes`, stacked on a new first dim in group order
/// (row-major over `axes`): [n, ...]. No gradient.
at::Tensor all_gather_stack(const at::Tensor& local, const Mesh* mesh,
                            const std::vector<int>& axes);

/// The value that world rank `source_rank` holds, on every rank of the mesh. No gradient.
at::Tensor broadcast(const at::Tensor& value, const Mesh* mesh, int source_rank);

/// Sum of a host number over the ranks along `axes`. Blocks on the host.
std::int64_t sum_over_axes(std::int64_t value, const Mesh* mesh, const std::vector<int>& axes);

}  // namespace hyper_parallel::torch_layer
