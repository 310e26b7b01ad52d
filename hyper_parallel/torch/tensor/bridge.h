#pragma once

#include <ATen/core/Tensor.h>

#include "hyper_parallel/torch/tensor/border.h"
#include "hyper_parallel/torch/tensor/dtensor.h"

/// The two graphs and how they meet.
///
/// Local tensors carry the autograd graph. A wrapper whose local has a graph gets a *down* node as
/// its grad_fn (wrapper gradient -> local cotangent). A wrapper with a graph of its own (a leaf
/// parameter, the output of a Python autograd.Function) gives its users a local view behind an
/// *up* node (local cotangent -> wrapper gradient, a DTensor).
///
/// Cotangents are in the dual layout: the cotangent of an R value is P(sum) (each rank holds its
/// own contribution), of P(sum) it is R, of S it is S. Source: research notes, section 2: the
/// gradient of the loss is E^T Phi'^T D^T for any correct forward Phi.
namespace hyper_parallel::torch_layer {

/// Wrap the local result of an op. Takes the graph of `local` along.
at::Tensor wrap(at::Tensor local, const Layout* layout, c10::IntArrayRef sizes);

/// The local tensor that an op on `t` should use: its local, or a view behind an up node, one for
/// each use: were it shared while somebody holds it, the order in which a backward pass reaches
/// leaves would depend on what this rank keeps alive.
at::Tensor local_for_use(const at::Tensor& t);

/// Make the wrapper's edge, geometry and dtype fit its local tensor after a write.
/// `layout` and `sizes` are those after the write.
void refresh(const at::Tensor& t, at::Tensor local, const Layout* layout, c10::IntArrayRef sizes);

/// True if `t` has a graph of its own (a leaf that requires grad, or a foreign grad_fn).
bool has_own_graph(const at::Tensor& t);

/// From local values to a DTensor, differentiable. The gradient that flows out to `local` is whole
/// (R inputs get their all-reduce here) unless `grad_layout` says otherwise.
at::Tensor from_local(const at::Tensor& local, const Layout* layout, c10::IntArrayRef sizes,
                      const Layout* grad_layout = nullptr);

/// From a DTensor to local values in `target` layout (null: its own), differentiable, in one step:
/// the user's gradient is taken as whole (or as `grad_layout`).
at::Tensor to_local_as(const at::Tensor& t, const Layout* target,
                       const Layout* grad_layout = nullptr);

/// A plain tensor entering an op beside DTensors: the same value on every rank. If it requires
/// grad, its gradient is summed over the mesh.
at::Tensor border_in(const at::Tensor& plain, const Mesh* mesh);

/// Run a redistribution of a local tensor, differentiable with the true transposes.
at::Tensor move(const at::Tensor& local, const Layout* from, const Layout* to,
                c10::IntArrayRef sizes);

}  // namespace hyper_parallel::torch_layer
