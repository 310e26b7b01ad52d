#include "hyper_parallel/torch/tensor/bridge.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/torch/base/graph_node.h"
#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/tensor/border.h"
#include "hyper_parallel/torch/tensor/down_node.h"
#include "hyper_parallel/torch/tensor/grad_finish.h"

namespace hyper_parallel::torch_layer {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;
namespace impl = torch::autograd::impl;

Shape shape_of(c10::IntArrayRef sizes) { return {sizes.begin(), sizes.end()}; }

at::Tensor lock(const DTensorImpl::WeakImpl& weak) {
  auto strong = weak.lock();
  return strong.defined() ? at::Tensor(std::move(strong)) : at::Tensor();
}

/// Wrapper gradient -> local cotangent.
struct DownNode final : GraphNode {
  DownNode(const Layout* layout, const at::Tensor& local)
      : layout(layout), local(local.getIntrusivePtr()) {}

  variable_list backward(variable_list&& grads) override {
    const at::Tensor& g = grads[0];
    if (!g.defined()) return {at::Tensor()};
    check_fresh();
    const auto sizes = C10_AS_INTARRAYREF_SLOW(input_metadata(0).shape_as_dim_vector());
    return {local_cotangent(g, layout, sizes)};
  }

  // A write through a view rebases the local's history without the wrapper knowing.
  void check_fresh() const {
    if (superseded) return;
    const at::Tensor now = lock(local);
    if (!now.defined()) return;
    if (impl::gradient_edge(now).function != next_edge(0).function) {
      throw UsageError(
          Message("HP-G002", "this DTensor was written through a view after its graph was made")
              .fact("layout", layout->to_string())
              .hint("call backward() on a result computed after the write"));
    }
  }

  std::string name() const override { return "WrapperToLocal"; }

  const Layout* layout;
  DTensorImpl::WeakImpl local;
  bool superseded = false;
};

/// Local cotangent -> wrapper gradient.
struct UpNode final : GraphNode {
  UpNode(const Layout* layout, Shape sizes, DTensorImpl::WeakImpl leaf)
      : layout(layout), sizes(std::move(sizes)), leaf(std::move(leaf)) {}

  variable_list backward(variable_list&& grads) override {
    if (!grads[0].defined()) return {at::Tensor()};
    // Parts of DTensors are dense, also those of the gradient that a sparse embedding gives.
    const bool dense = grads[0].layout() == at::kStrided;
    at::Tensor local = dense ? grads[0] : grads[0].to_dense();
    if (const double factor = gradient_factor(layout); factor != 1) local = at::mul(local, factor);
    at::Tensor out = wrap(local, layout->dual(), sizes);
    const at::Tensor target = lock(leaf);
    if (target.defined()) expect_gradient(target);
    return {out};
  }

  std::string name() const override { return "LocalToWrapper"; }

  const Layout* layout;
  Shape sizes;
  // Empty unless the wrapper is a leaf, which the node behind this one then keeps alive.
  DTensorImpl::WeakImpl leaf;
};

void attach_down(const at::Tensor& t, const at::Tensor& local) {
  auto node = c10::make_intrusive<DownNode>(impl_of(t)->layout(), local);
  node->add_next_edge(impl::gradient_edge(local));
  node->add_input_metadata(t);
  impl_of(t)->set_down_node(node);
  impl::set_gradient_edge(t, Edge(std::move(node), 0));
}

bool needs_graph(const at::Tensor& t) { return at::GradMode::is_enabled() && t.requires_grad(); }

}  // namespace

const std::type_info& down_node_type() { return typeid(DownNode); }

const Layout* layout_of_down_node(const Node& node) {
  const auto* down = dynamic_cast<const DownNode*>(&node);
  return down == nullptr ? nullptr : down->layout;
}

bool has_own_graph(const at::Tensor& t) {
  auto* meta = static_cast<torch::autograd::AutogradMeta*>(impl_of(t)->autograd_meta());
  if (meta == nullptr) return false;
  return meta->grad_fn_ ? !impl_of(t)->is_down_node(meta->grad_fn_.get()) : meta->requires_grad_;
}

at::Tensor wrap(at::Tensor local, const Layout* layout, c10::IntArrayRef sizes) {
  if (!local.requires_grad()) {
    at::Tensor t = make_wrapper(std::move(local), layout, sizes);
    show_to_python(t);
    return t;
  }
  if (local.is_leaf()) {  // a factory with requires_grad=true
    at::Tensor t = make_wrapper(local.detach(), layout, sizes);
    t.set_requires_grad(true);
    show_to_python(t);
    return t;
  }
  at::Tensor t = make_wrapper(local, layout, sizes);
  attach_down(t, local);
  show_to_python(t);
  return t;
}

at::Tensor local_for_use(const at::Tensor& t) {
  DTensorImpl* d = impl_of(t);
  if (d->autograd_meta() == nullptr || !at::GradMode::is_enabled() || !has_own_graph(t)) {
    return d->local();
  }
  const Edge edge = impl::gradient_edge(t);
  at::Tensor view = d->local().detach();
  DTensorImpl::WeakImpl leaf{c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()};
  if (t.is_leaf()) {
    leaf = DTensorImpl::WeakImpl(t.getIntrusivePtr());
    tell_when_ready(t, *edge.function);
  }
  auto node = c10::make_intrusive<UpNode>(d->layout(), shape_of(t.sizes()), std::move(leaf));
  node->add_next_edge(edge);
  node->add_input_metadata(view);
  impl::set_gradient_edge(view, Edge(std::move(node), 0));
  return view;
}

void refresh(const at::Tensor& t, at::Tensor local, const Layout* layout, c10::IntArrayRef sizes) {
  DTensorImpl* d = impl_of(t);
  if (const auto node = d->down_node()) static_cast<DownNode&>(*node).superseded = true;
  d->set(local, layout, sizes);
  d->bump_version();
  if (local.requires_grad() && !local.is_leaf()) attach_down(t, local);
}

at::Tensor move(const at::Tensor& local, const Layout* from, const Layout* to,
                c10::IntArrayRef sizes) {
  if (from == to) return local;
  return redistribute(
      plan::redistribute(from, to, {shape_of(sizes), dtype_of(local.scalar_type())}), local);
}

at::Tensor from_local(const at::Tensor& local, const Layout* layout, c10::IntArrayRef sizes,
                      const Layout* grad_layout) {
  if (!needs_graph(local)) return wrap(local.detach(), layout, sizes);
  if (grad_layout == nullptr) grad_layout = whole_gradient(layout);
  return wrap(run(border_way_in(layout, grad_layout, shape_of(sizes)), local), layout, sizes);
}

at::Tensor to_local_as(const at::Tensor& t, const Layout* target, const Layout* grad_layout) {
  const Layout* from = impl_of(t)->layout();
  if (target == nullptr) target = from;
  const at::Tensor local = local_for_use(t);
  if (!needs_graph(local)) {
    const at::Tensor out = move(local, from, target, t.sizes());
    return out.is_same(local) ? out.alias() : out;
  }
  if (grad_layout == nullptr) grad_layout = whole_gradient(target);
  return run(border_way_out(from, target, grad_layout, shape_of(t.sizes())), local);
}

at::Tensor border_in(const at::Tensor& plain, const Mesh* mesh) {
  if (!needs_graph(plain)) return plain;
  const Layout* whole = Layout::replicated(mesh);
  return run(border_way_in(whole, whole, shape_of(plain.sizes())), plain);
}

}  // namespace hyper_parallel::torch_layer
