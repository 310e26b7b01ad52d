#include "hyper_parallel/torch/face/module.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <unordered_map>
#include <utility>
#include <vector>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/path_pattern.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/face/api.h"
#include "hyper_parallel/torch/tensor/dtensor.h"

namespace hyper_parallel {
namespace {

namespace nn = torch::nn;

// A module keeps each parameter twice: in a list of its base class, which is protected, and in a
// member of its own.
struct Lists : nn::Module {
  static auto& parameters(nn::Module& module) { return module.*(&Lists::parameters_); }
};

template <class Layer>
at::Tensor* member_of(nn::Module& module, const std::string& name) {
  auto* layer = dynamic_cast<Layer*>(&module);
  if (layer == nullptr) return nullptr;
  if (name == "weight") return &layer->weight;
  if constexpr (requires { layer->bias; }) {
    if (name == "bias") return &layer->bias;
  }
  return nullptr;
}

template <class... Layers>
at::Tensor* first_member(nn::Module& module, const std::string& name) {
  at::Tensor* found = nullptr;
  (void)(((found = member_of<Layers>(module, name)) != nullptr) || ...);
  return found;
}

at::Tensor* find_member(nn::Module& module, const std::string& name) {
  return first_member<nn::LinearImpl, nn::BilinearImpl, nn::EmbeddingImpl, nn::EmbeddingBagImpl,
                      nn::LayerNormImpl, nn::GroupNormImpl, nn::BatchNorm1dImpl,
                      nn::BatchNorm2dImpl, nn::BatchNorm3dImpl, nn::InstanceNorm1dImpl,
                      nn::InstanceNorm2dImpl, nn::InstanceNorm3dImpl, nn::Conv1dImpl,
                      nn::Conv2dImpl, nn::Conv3dImpl, nn::ConvTranspose1dImpl,
                      nn::ConvTranspose2dImpl, nn::ConvTranspose3dImpl, nn::PReLUImpl>(module,
                                                                                       name);
}

/// A name of a parameter, and where its tensor is kept.
struct Place {
  std::string name;
  at::Tensor* listed = nullptr;
  at::Tensor* member = nullptr;  // null: we do not know it
};

void collect(nn::Module& module, const std::string& prefix, std::vector<Place>& places) {
  for (auto& item : Lists::parameters(module)) {
    if (!item.value().defined()) continue;
    places.push_back({prefix + item.key(), &item.value(), find_member(module, item.key())});
  }
  for (auto& child : module.named_children()) {
    collect(*child.value(), prefix + child.key() + ".", places);
  }
}

// The two hold different tensors after `head->weight = embed->weight`.
std::vector<at::Tensor*> handles(const Place& place) {
  if (place.member == nullptr) return {place.listed};
  return {place.listed, place.member};
}

void check_place(const Place& place, const Mesh* mesh, const Layout* layout) {
  if (layout != nullptr && layout->mesh() != mesh) {
    throw UsageError(Message("HP-P030", "shard_parameters: the layout of \"" + place.name +
                                            "\" lies on another mesh")
                         .fact("mesh", mesh->to_string())
                         .fact("layout", to_string_with_mesh(layout)));
  }
  if (!torch_layer::is_dtensor(*place.listed) && place.member == nullptr) {
    throw UsageError(
        Message("HP-P031",
                "shard_parameters: \"" + place.name + "\" is held by a layer of an unknown kind")
            .fact("parameter", torch_layer::describe(*place.listed))
            .hint("register_parameter(name, distribute_tensor(value, layout)) in that layer"));
  }
}

}  // namespace

void shard_parameters(nn::Module& module, const Mesh* mesh, const ParameterPlan& plan,
                      std::optional<int> source_rank) {
  std::vector<Place> places;
  collect(module, "", places);
  std::vector<std::string> names;
  std::vector<std::string> patterns;
  std::vector<const Layout*> layouts;
  for (const Place& place : places) names.push_back(place.name);
  for (const auto& [pattern, layout] : plan) {
    patterns.push_back(pattern);
    layouts.push_back(layout);
  }
  const std::vector<int> chosen = closest_patterns(patterns, names, "parameter");

  // Tied parameters are one tensor under several names: a plan may name any of them.
  struct Target {
    const Layout* layout = nullptr;
    const std::string* name = nullptr;
    at::Tensor before;  // alive to the end, so that its address stays unique
    at::Tensor after;
  };
  std::unordered_map<c10::TensorImpl*, Target> targets;
  std::vector<std::pair<at::Tensor*, Target*>> moves;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Layout* layout = chosen[i] < 0 ? nullptr : layouts[static_cast<std::size_t>(chosen[i])];
    check_place(places[i], mesh, layout);
    for (at::Tensor* handle : handles(places[i])) {
      Target& target = targets[handle->unsafeGetTensorImpl()];
      target.before = *handle;
      moves.emplace_back(handle, &target);
      if (layout == nullptr || layout == target.layout) continue;
      if (target.layout != nullptr) {
        throw UsageError(Message("HP-P021", "shard_parameters: tied parameters with two layouts")
                             .fact(*target.name, target.layout->to_string())
                             .fact(places[i].name, layout->to_string())
                             .hint("name one of them only"));
      }
      target.layout = layout;
      target.name = &places[i].name;
    }
  }
  // In the order of the names: all ranks must broadcast alike.
  for (const auto& [handle, target] : moves) {
    if (target->after.defined()) continue;
    const bool wrapped = torch_layer::is_dtensor(target->before);
    if (target->layout == nullptr) {
      target->layout = wrapped ? layout_of(target->before) : Layout::replicated(mesh);
    }
    target->after = distribute_tensor(wrapped ? target->before.detach() : target->before,
                                      target->layout, source_rank);
  }
  for (const auto& [handle, target] : moves) {
    if (torch_layer::is_dtensor(target->before)) {  // its owner keeps it: only the value changes
      handle->set_data(target->after);
    } else {
      *handle = target->after;
    }
  }
}

}  // namespace hyper_parallel
