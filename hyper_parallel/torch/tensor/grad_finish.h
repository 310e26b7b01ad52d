#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "hyper_parallel/torch/tensor/dtensor.h"

namespace torch::autograd {
struct Node;
}

namespace hyper_parallel::torch_layer {

/// Brings the gradients of leaf DTensors from the layout in which a backward pass makes them
/// (`layout->dual()`: pending sums where the leaf is whole) to the layout of the leaf.
///
/// The default does so at the end of each pass, in one coalesced collective for each set of axes
/// and element type. A finisher of its own, given to the leaves of a unit, may finish them as soon
/// as they are ready, while the pass goes on. All calls come from inside a backward pass, on the
/// thread that runs it, in an order that is the same on all ranks.
class GradFinisher {
 public:
  virtual ~GradFinisher() = default;

  /// A contribution to the gradient of `leaf` comes next. Called once a use of the leaf.
  virtual void expect(const at::Tensor& leaf) = 0;

  /// `leaf.grad` holds all that this pass adds to it. Once a pass.
  virtual void ready(const at::Tensor& leaf) = 0;

  /// The pass is over. Once for each pass that expected a leaf.
  virtual void finish() = 0;
};

/// Let `finisher` finish the gradient of `leaf` from the next forward pass on; null: the default
/// again. `settings().grad_sync` is for the finisher to obey.
/// Throws InternalError: `leaf` is no leaf DTensor.
void set_grad_finisher(const at::Tensor& leaf, std::shared_ptr<GradFinisher> finisher);

/// Bring what `leaves` have in `.grad` to the layouts of the leaves, in one collective for each set
/// of axes and element type. What is none or plain stays.
void finish_gradients(const std::vector<at::Tensor>& leaves);

/// The up node of `leaf` calls this when a gradient for it comes.
void expect_gradient(const at::Tensor& leaf);

/// `accumulate` is the node that adds to the gradient of `leaf`: its finisher is to be told.
void tell_when_ready(const at::Tensor& leaf, torch::autograd::Node& accumulate);

}  // namespace hyper_parallel::torch_layer
