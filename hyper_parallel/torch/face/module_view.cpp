#include "hyper_parallel/torch/face/module_view.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <unordered_map>

#include "hyper_parallel/core/error.h"
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

class NnView : public ModuleView {
 public:
  explicit NnView(nn::Module& module) : module_(module) {}

  std::vector<HeldTensor> held() override {
    held_.clear();
    handles_.clear();
    places_.clear();
    collect(module_, "");
    return held_;
  }

  void replace(const HeldTensor& old, const at::Tensor& made, const at::Tensor& gradient) override {
    const bool wrapped = torch_layer::is_dtensor(old.tensor);
    if (!wrapped) made.set_requires_grad(old.tensor.requires_grad());
    for (at::Tensor* handle : handles_[places_.at(old.tensor.unsafeGetTensorImpl())]) {
      if (wrapped) {  // its owner keeps it: only the value changes
        handle->set_data(made);
      } else {
        *handle = made;
      }
      if (gradient.defined()) handle->mutable_grad() = gradient;
    }
  }

 private:
  void collect(nn::Module& module, const std::string& prefix) {
    for (auto& item : Lists::parameters(module)) {
      if (!item.value().defined()) continue;
      const std::string name = prefix + item.key();
      at::Tensor* member = find_member(module, item.key());
      if (member == nullptr && !torch_layer::is_dtensor(item.value())) {
        throw UsageError(
            Message("HP-P031",
                    "shard_parameters: \"" + name + "\" is held by a layer of an unknown kind")
                .fact("parameter", torch_layer::describe(item.value()))
                .hint("register_parameter(name, distribute_tensor(value, layout)) in that layer"));
      }
      add(name, item.value());
      // The two hold different tensors after `head->weight = embed->weight`.
      if (member != nullptr) add(name, *member);
    }
    for (auto& child : module.named_children()) {
      collect(*child.value(), prefix + child.key() + ".");
    }
  }

  void add(const std::string& name, at::Tensor& handle) {
    const auto [it, fresh] = places_.emplace(handle.unsafeGetTensorImpl(), held_.size());
    if (fresh) {
      held_.push_back({.tensor = handle});
      handles_.emplace_back();
    }
    handles_[it->second].push_back(&handle);
    auto& names = held_[it->second].names;
    if (names.empty() || names.back() != name) names.push_back(name);
  }

  nn::Module& module_;
  std::vector<HeldTensor> held_;                   // alive, so that addresses stay unique
  std::vector<std::vector<at::Tensor*>> handles_;  // beside held_
  std::unordered_map<c10::TensorImpl*, std::size_t> places_;
};

}  // namespace

std::unique_ptr<ModuleView> view_of(nn::Module& module) { return std::make_unique<NnView>(module); }

}  // namespace hyper_parallel
