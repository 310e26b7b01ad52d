#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>

#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/torch/tensor/dtensor.h"

namespace hyper_parallel::torch_layer {

/// The local of `t` after `plan`, for an op that reads it. Differentiable.
///
/// Several ops that need the same redistribution of one tensor (q, k, v projections) share it: one
/// gather forward, and autograd sums their cotangents before the one reduction backward.
///
/// Whether a move is shared decides what this rank communicates, so it may depend on the program
/// alone, the same on all ranks, and on nothing that this rank happens to keep alive. The wrapper
/// owns its last move. It is found again
///
/// - while it is among the last `kKept` moves of the rank that were kept, which also bounds memory;
/// - for the same layout, version of the memory, place in the graph, grad and inference mode;
/// - unless `t` is a leaf used in grad mode (the graph of the move would own the leaf, which owns
///   the move) or an inference tensor (whose writes nobody counts): these move each time.
at::Tensor moved(const at::Tensor& t, const std::shared_ptr<const plan::Plan>& plan);

/// What the wrapper keeps of it.
struct DTensorImpl::Moved {
  at::Tensor tensor;
  const Layout* layout = nullptr;  // of `tensor`
  c10::intrusive_ptr<Node> node;   // of the source: owned, so that its address is not used again
  std::uint64_t number = 0;        // among the moves of the rank
  std::uint32_t version = 0;       // of the memory of the source
  std::uint32_t own_version = 0;   // of the memory of `tensor`
  bool grad_mode = false;
  bool inference = false;
};

}  // namespace hyper_parallel::torch_layer
