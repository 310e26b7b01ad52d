#include "hyper_parallel/torch/local_region.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

namespace hyper_parallel::torch_layer {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;
namespace impl = torch::autograd::impl;

// Nodes of one thread run in the reverse of the order in which they were made, so those of a region
// run between its leave node and its enter node.
thread_local std::vector<const Mesh*> running;

bool needs_graph(const at::Tensor& t) {
  return t.defined() && t.requires_grad() && at::GradMode::is_enabled();
}

struct EnterNode final : Node {
  explicit EnterNode(const Mesh* mesh) : mesh(mesh) {}
  variable_list apply(variable_list&& grads) override {
    if (!running.empty() && running.back() == mesh) running.pop_back();
    variable_list out = std::move(grads);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!out[i].defined()) out[i] = input_metadata(i).zeros_like();
    }
    return out;
  }
  std::string name() const override { return "EnterLocalCode"; }
  const Mesh* mesh;
};

struct AnchorNode final : Node {
  variable_list apply(variable_list&&) override { return variable_list(num_outputs()); }
  std::string name() const override { return "LocalCodeAnchor"; }
};

struct LeaveNode final : Node {
  explicit LeaveNode(const Mesh* mesh) : mesh(mesh) {}
  variable_list apply(variable_list&& grads) override {
    running.push_back(mesh);
    variable_list out = std::move(grads);
    out.resize(num_outputs());
    return out;
  }
  std::string name() const override { return "LeaveLocalCode"; }
  const Mesh* mesh;
};

// The same values behind output `nr` of `node`. Not a view for autograd: it may be written to.
at::Tensor behind(const at::Tensor& t, const c10::intrusive_ptr<Node>& node) {
  at::Tensor out = t.detach();
  const auto nr = node->add_input_metadata(out);
  impl::set_gradient_edge(out, Edge(node, nr));
  return out;
}

}  // namespace

std::vector<at::Tensor> enter_region(const std::vector<at::Tensor>& locals, const Mesh* mesh) {
  std::vector<at::Tensor> out = locals;
  c10::intrusive_ptr<Node> node;
  for (at::Tensor& t : out) {
    if (!needs_graph(t)) continue;
    if (!node) node = c10::make_intrusive<EnterNode>(mesh);
    node->add_next_edge(impl::gradient_edge(t));
    t = behind(t, node);
  }
  return out;
}

at::Tensor region_anchor(const std::vector<at::Tensor>& entered) {
  c10::intrusive_ptr<Node> node;
  for (const at::Tensor& t : entered) {
    if (!needs_graph(t)) continue;
    if (!node) node = c10::make_intrusive<AnchorNode>();
    node->add_next_edge(impl::gradient_edge(t));
  }
  if (!node) return {};
  return behind(at::empty({0}), node);
}

std::vector<at::Tensor> leave_region(const std::vector<at::Tensor>& results,
                                     const std::vector<at::Tensor>& ties, bool forced,
                                     const Mesh* mesh) {
  std::vector<at::Tensor> out = results;
  if (!at::GradMode::is_enabled()) return out;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool number = out[i].is_floating_point() || out[i].is_complex();
    if (out[i].requires_grad() || (forced && number && !ties.empty())) places.push_back(i);
  }
  if (places.empty()) return out;
  c10::intrusive_ptr<Node> node = c10::make_intrusive<LeaveNode>(mesh);
  for (std::size_t i : places) node->add_next_edge(impl::gradient_edge(out[i]));
  for (const at::Tensor& tie : ties) node->add_next_edge(impl::gradient_edge(tie));
  for (std::size_t i : places) out[i] = behind(out[i], node);
  return out;
}

const Mesh* backward_mesh() {
  if (torch::autograd::get_current_graph_task_id() < 0) {
    running.clear();  // what a pass that failed left behind
    return nullptr;
  }
  return running.empty() ? nullptr : running.back();
}

}  // namespace hyper_parallel::torch_layer
