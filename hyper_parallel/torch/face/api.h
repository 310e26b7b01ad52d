#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/torch/tensor/dtensor.h"

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

/// A function of this rank's parts, one result or more.
using LocalFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// Run code that is written for the parts of tensors, and may communicate itself
/// (torch/face/collectives.h). `inputs` are moved to `in_layouts` first (empty: each keeps its
/// own; null for a plain tensor, which counts as the same value on every rank); results are taken
/// as parts in `out_layouts`. Without any DTensor it is a plain call.
///
///     custom_shard([](const auto& t) { return std::vector{all_reduce(t[0].mm(t[1]), "tp")}; },
///                  {x, w}, {rows}, {cut, rows_of_w});
///
/// Gradients are the true adjoint of what `fn` computes on all ranks. If an input requires grad,
/// all floating-point results do.
/// What ranks do with the results of collectives may differ: the graph has all collectives on every
/// rank.
/// Throws UsageError: a wrong number of layouts, a layout for a plain tensor, another mesh, results
/// of other shapes than their layouts say, a closure over what requires grad, P(max) of it.
/// Cost: redistributions of inputs, and one all-gather of sizes if some result is cut.
std::vector<at::Tensor> custom_shard(const LocalFunction& fn, const std::vector<at::Tensor>& inputs,
                                     const std::vector<const Layout*>& out_layouts,
                                     const std::vector<const Layout*>& in_layouts = {});

/// Check that each of `weights` is a leaf that requires grad. Throws UsageError: one that is not.
void check_weights(const std::vector<at::Tensor>& weights);

/// The gradients of `weights`, each in the layout of its weight (plain for a plain one), zeros for
/// one without influence. They are those that one device would get: what an output starts with is
/// cut as the output is, and divided by the number of ranks that hold copies. `.grad` of the
/// weights and of other leaves is not touched.
///
/// `outputs`: an undefined tensor stands for what is no tensor. One that is no scalar counts by its
/// sum. `sens`: the weight of each output; without, 1 for the first and 0 for the rest. `single`:
/// the program gave one output as such, not a list. Throws UsageError: `sens` for a single output
/// or of another length than the outputs, an output of weight other than 0 that has no graph. Cost:
/// the sums of replicated weights are one collective for each set of axes and element type.
std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& outputs,
                                  const std::vector<at::Tensor>& weights,
                                  const std::optional<std::vector<double>>& sens = std::nullopt,
                                  bool single = false);

/// Run `fn` with gradients enabled and give its value beside the gradients of `weights`.
struct ValueAndGrad {
  at::Tensor value;
  std::vector<at::Tensor> grads;
};
ValueAndGrad value_and_grad(const std::function<at::Tensor()>& fn,
                            const std::vector<at::Tensor>& weights);

/// The same for several outputs, `sens` the weight of each.
struct ValuesAndGrad {
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> grads;
};
ValuesAndGrad value_and_grad(const std::function<std::vector<at::Tensor>()>& fn,
                             const std::vector<at::Tensor>& weights,
                             const std::optional<std::vector<double>>& sens = std::nullopt);

}  // namespace hyper_parallel
