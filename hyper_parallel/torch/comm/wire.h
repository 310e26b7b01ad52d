#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/SymInt.h>

#include <cstdint>
#include <vector>

#include "hyper_parallel/core/mesh.h"
#include "hyper_parallel/core/placement.h"

namespace hyper_parallel::torch_layer {

/// A group of ranks as the calling rank knows it. Made per rank: never share one between threads.
struct Group {
  c10::IValue name;  // for functional collectives; none for a group of one rank
  std::int64_t size = 0;
  const Mesh* mesh = nullptr;
  std::vector<int> axes;  // major to minor
  int index = 0;          // this rank's place, row-major over `axes`
};

/// The group that the calling rank reaches along `axes`, major to minor.
/// Throws UsageError if this rank is not in the mesh.
Group group_along(const Mesh* mesh, const std::vector<int>& axes);

/// This rank's place in the flattened group of `axes`, row-major.
int group_index(const Mesh* mesh, const std::vector<int>& axes);

/// Collectives as they go over the wire: `_c10d_functional` dispatcher ops, so that tracing sees
/// them. They know no autograd: call them below it. Bool and complex tensors are sent as the
/// numbers they consist of. Groups have two ranks or more.
namespace wire {

/// A collective that was issued.
class Sent {
 public:
  /// The result, usable on the current stream. Once.
  at::Tensor wait();

 private:
  friend struct Sender;
  enum class Numbers : std::uint8_t { own, pairs, bytes };  // pairs of complex, bytes of bool
  Sent(at::Tensor raw, Numbers numbers) : raw_(std::move(raw)), numbers_(numbers) {}

  at::Tensor raw_;
  Numbers numbers_;
};

/// `op` over the ranks. Same shape on all.
Sent all_reduce(const at::Tensor& x, ReduceOp op, const Group& group);

/// The same in the memory of `x`, which must be contiguous, where its numbers are sent as they are.
Sent all_reduce_in_place(at::Tensor x, ReduceOp op, const Group& group);

/// The parts of all ranks, which have one shape, one after the other along dim 0.
Sent all_gather(const at::Tensor& x, const Group& group);

/// Part `index` of `op` over the ranks; dim 0 is divisible by the group's size.
Sent reduce_scatter(const at::Tensor& x, ReduceOp op, const Group& group);

/// `sent[i]` rows of `x`, in order, to rank i; `received[i]` rows from it.
Sent all_to_all(const at::Tensor& x, const std::vector<c10::SymInt>& received,
                const std::vector<c10::SymInt>& sent, const Group& group);

/// The tensor of the rank at place `source`. Same shape on all.
Sent broadcast(const at::Tensor& x, int source, const Group& group);

}  // namespace wire
}  // namespace hyper_parallel::torch_layer
