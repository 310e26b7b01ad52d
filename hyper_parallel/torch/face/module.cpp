#include "hyper_parallel/torch/face/module.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/path_pattern.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/face/api.h"
#include "hyper_parallel/torch/tensor/dtensor.h"

namespace hyper_parallel {
namespace {

void check_mesh(const char* code, const std::string& first_line, const Mesh* mesh,
                const Layout* layout) {
  if (layout->mesh() == mesh) return;
  throw UsageError(Message(code, "sharding plan: " + first_line)
                       .fact("mesh of the plan", mesh->to_string())
                       .fact("layout", to_string_with_mesh(layout)));
}

}  // namespace

ParameterMoves::ParameterMoves(std::shared_ptr<ModuleView> view, const Mesh* mesh,
                               const std::vector<std::string>& keys, const LayoutOf& layout_of_key)
    : view_(std::move(view)) {
  std::vector<HeldTensor> held = view_->held();
  std::vector<std::string> names;
  for (const HeldTensor& h : held) names.insert(names.end(), h.names.begin(), h.names.end());
  const std::vector<int> chosen = closest_patterns(keys, names, "parameter");
  std::size_t next = 0;
  for (HeldTensor& h : held) {
    Move move;
    std::string first;  // the key that asked first
    for (const std::string& name : h.names) {
      const int key = chosen[next++];
      if (key < 0) continue;
      const auto number = static_cast<std::size_t>(key);
      const Layout* layout = layout_of_key(number, h, name);
      check_mesh("HP-P030", "the layout of \"" + name + "\" lies on another mesh", mesh, layout);
      if (move.layout != nullptr && move.layout != layout) {
        throw UsageError(Message("HP-P021", "sharding plan: tied parameter " +
                                                join(h.names, " = ") + " has two layouts")
                             .fact("first", "\"" + first + "\": " + move.layout->to_string())
                             .fact("second", "\"" + keys[number] + "\": " + layout->to_string())
                             .hint("name one of them only"));
      }
      if (move.layout == nullptr) first = keys[number];
      move.layout = layout;
    }
    if (torch_layer::is_dtensor(h.tensor)) {
      const Layout* own = layout_of(h.tensor);
      if (move.layout != nullptr || !h.buffer) {
        check_mesh("HP-P023",
                   "parameter \"" + h.names.front() + "\" is sharded already, on another mesh",
                   mesh, own);
      }
      if (move.layout == own) continue;
    } else if (move.layout == nullptr && !h.buffer) {
      move.layout = Layout::replicated(mesh);
    }
    if (move.layout == nullptr) continue;
    move.layout->check_dims(h.tensor.dim());
    move.held = std::move(h);
    moves_.push_back(std::move(move));
  }
}

void ParameterMoves::run(std::optional<int> source_rank) {
  const at::NoGradGuard no_grad;
  for (const auto& [held, layout] : moves_) {
    const at::Tensor& old = held.tensor;
    const at::Tensor made = distribute_tensor(old.detach(), layout, source_rank);
    at::Tensor gradient;
    if (old.is_leaf() && old.grad().defined()) {
      gradient = distribute_tensor(old.grad(), layout, source_rank);
    }
    view_->replace(held, made, gradient);
  }
}

void shard_parameters(torch::nn::Module& module, const Mesh* mesh, const ParameterLayouts& layouts,
                      std::optional<int> source_rank) {
  std::vector<std::string> keys;
  std::vector<const Layout*> values;
  for (const auto& [key, layout] : layouts) {
    keys.push_back(key);
    values.push_back(layout);
  }
  ParameterMoves(
      view_of(module), mesh, keys,
      [&](std::size_t key, const HeldTensor&, const std::string&) { return values[key]; })
      .run(source_rank);
}

}  // namespace hyper_parallel
