#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace hyper_parallel {

/// A tensor of a model with the names that hold it: several where it is tied.
struct HeldTensor {
  std::vector<std::string> names = {};  // dotted, in the order of the model
  at::Tensor tensor = {};
  bool buffer = false;
};

/// A model by the names of its tensors, so that what lays models out need not know their language:
/// `torch::nn::Module` here, `nn.Module` in python/src/torch/modules.cpp.
class ModuleView {
 public:
  virtual ~ModuleView() = default;

  /// Each tensor once: parameters, then buffers, in the order of their first names, which is the
  /// same on all ranks. Throws UsageError for a parameter that could not be replaced.
  virtual std::vector<HeldTensor> held() = 0;

  /// Put `made` in all places that hold `old.tensor`, one of `held()`. It trains if the old one
  /// did. `gradient` becomes its gradient; undefined: none.
  virtual void replace(const HeldTensor& old, const at::Tensor& made,
                       const at::Tensor& gradient) = 0;
};

/// The view of a C++ module, which must outlive it. Buffers are not seen. Throws HP-P031 from
/// `held` where a plain parameter is held by a layer of an unknown kind.
std::unique_ptr<ModuleView> view_of(torch::nn::Module& module);

}  // namespace hyper_parallel
