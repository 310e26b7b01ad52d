#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/SymInt.h>

#include <vector>

#include "hyper_parallel/core/mesh.h"
#include "hyper_parallel/core/placement.h"

namespace hyper_parallel::torch_layer {

/// A group of ranks as the calling rank knows it. Made per rank: never share one between threads.
struct Group {
  c10::IValue name;  // for functional collectives
  std::int64_t size = 0;
};

/// The group that the calling rank reaches along `axes`, major to minor.
/// Throws UsageError if this rank is not in the mesh.
Group group_along(const Mesh* mesh, const std::vector<int>& axes);

/// Collectives as `_c10d_functional` dispatcher ops, so that tracing sees them. Each waits for its
/// result on the current stream. They know no autograd: call them below it. Bool and complex
/// tensors are sent as the numbers they consist of.

/// `op` over the ranks. Same shape on all.
at::Tensor all_reduce(const at::Tensor& x, ReduceOp op, const Group& group);

/// The same in the memory of `x`, which must be contiguous.
void all_reduce_in_place(at::Tensor& x, ReduceOp op, const Group& group);

/// The parts of all ranks, which have one shape, one after the other along dim 0.
at::Tensor all_gather(const at::Tensor& x, const Group& group);

/// Part `index` of `op` over the ranks; dim 0 is divisible by the group's size.
at::Tensor reduce_scatter(const at::Tensor& x, ReduceOp op, const Group& group);

/// `sent[i]` rows of `x`, in order, to rank i; `received[i]` rows from it.
at::Tensor all_to_all(const at::Tensor& x, const std::vector<c10::SymInt>& received,
                      const std::vector<c10::SymInt>& sent, const Group& group);

}  // namespace hyper_parallel::torch_layer
