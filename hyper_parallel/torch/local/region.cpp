#include "hyper_parallel/torch/local/region.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "hyper_parallel/torch/base/graph_node.h"

namespace hyper_parallel::torch_layer {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;
namespace impl = torch::autograd::impl;

// Nodes of one thread run in the reverse of the order in which they were made, so those of a region
// run between its leave node and its enter node. A pass that fails, and a region without inputs
// that require grad, leave their mark behind: it is of no use to other passes.
struct Running {
  int pass;
  const Mesh* mesh;
};
thread_local std::vector<Running> running;
constexpr std::size_t kMostRunning = 64;

void begin(const Mesh* mesh) {
  if (running.size() >= kMostRunning) running.erase(running.begin());
  running.push_back({torch::autograd::get_current_graph_task_id(), mesh});
}

void end(const Mesh* mesh) {
  const int pass = torch::autograd::get_current_graph_task_id();
  const auto it = std::find_if(running.rbegin(), running.rend(),
                               [&](const Running& r) { return r.pass == pass && r.mesh == mesh; });
  if (it != running.rend()) running.erase(std::next(it).base());
}

bool needs_graph(const at::Tensor& t) {
  return t.defined() && t.requires_grad() && at::GradMode::is_enabled();
}

struct EnterNode final : GraphNode {
  explicit EnterNode(const Mesh* mesh) : mesh(mesh) {}
  variable_list backward(variable_list&& grads) override {
    end(mesh);
    variable_list out = std::move(grads);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!out[i].defined()) out[i] = input_metadata(i).zeros_like();
    }
    return out;
  }
  std::string name() const override { return "EnterLocalCode"; }
  const Mesh* mesh;
};

struct AnchorNode final : GraphNode {
  variable_list backward(variable_list&&) override { return variable_list(num_outputs()); }
  std::string name() const override { return "LocalCodeAnchor"; }
};

struct LeaveNode final : GraphNode {
  explicit LeaveNode(const Mesh* mesh) : mesh(mesh) {}
  variable_list backward(variable_list&& grads) override {
    begin(mesh);
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

std::uint64_t graph_mark() { return at::sequence_number::peek(); }

bool reaches_outside(const std::vector<at::Tensor>& tensors, std::uint64_t since) {
  std::vector<const Node*> open;
  std::unordered_set<const Node*> seen;
  const auto visit = [&](const Edge& edge) {
    if (edge.is_valid() && seen.insert(edge.function.get()).second) {
      open.push_back(edge.function.get());
    }
  };
  for (const at::Tensor& t : tensors) {
    if (t.requires_grad()) visit(impl::gradient_edge(t));
  }
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (dynamic_cast<const EnterNode*>(node) != nullptr ||
        dynamic_cast<const AnchorNode*>(node) != nullptr) {
      continue;
    }
    // Nodes of leaves have the largest number of all.
    if (node->sequence_nr() < since || node->sequence_nr() == UINT64_MAX) return true;
    for (const Edge& edge : node->next_edges()) visit(edge);
  }
  return false;
}

LocalRegion::LocalRegion(const Mesh* mesh, bool joined)
    : mesh_(mesh), joined_(joined), since_(graph_mark()) {}

std::vector<at::Tensor> LocalRegion::enter(const std::vector<at::Tensor>& locals) {
  std::vector<at::Tensor> out = enter_region(locals, mesh_);
  for (const at::Tensor& t : out) {
    if (t.requires_grad()) entered_.push_back(t);
  }
  return out;
}

at::Tensor LocalRegion::anchor() {
  if (!joined_ || entered_.empty() || !at::GradMode::is_enabled()) return {};
  if (!anchor_.defined()) anchor_ = region_anchor(entered_);
  return anchor_;
}

bool LocalRegion::reaches_outside(const std::vector<at::Tensor>& results) const {
  if (!at::GradMode::is_enabled()) return false;
  std::vector<at::Tensor> all = results;
  all.insert(all.end(), ties_.begin(), ties_.end());
  return torch_layer::reaches_outside(all, since_);
}

std::vector<at::Tensor> LocalRegion::leave(const std::vector<at::Tensor>& results) {
  std::vector<at::Tensor> ties;
  if (const at::Tensor first = anchor(); first.defined()) ties.push_back(first);
  ties.insert(ties.end(), ties_.begin(), ties_.end());
  return leave_region(results, ties, joined_, mesh_);
}

namespace {

thread_local LocalRegion* current = nullptr;

}  // namespace

LocalRegion* current_region() { return current; }

LocalRegion* set_current_region(LocalRegion* region) { return std::exchange(current, region); }

RegionGuard::RegionGuard(LocalRegion* region) : before_(set_current_region(region)) {}
RegionGuard::~RegionGuard() { set_current_region(before_); }

const Mesh* backward_mesh() {
  const int pass = torch::autograd::get_current_graph_task_id();
  if (pass < 0 || running.empty() || running.back().pass != pass) return nullptr;
  return running.back().mesh;
}

}  // namespace hyper_parallel::torch_layer
