#include "hyper_parallel/torch/base/key.h"

#include <string>

#include "hyper_parallel/core/error.h"

namespace hyper_parallel::torch_layer {

void check_dispatch_key() {
  const auto rank = [](c10::DispatchKey key) {
    return c10::DispatchKeySet(key).highestPriorityTypeId();
  };
  for (c10::DispatchKey below : {c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA,
                                 c10::DispatchKey::AutogradFunctionality}) {
    const c10::DispatchKeySet both = c10::DispatchKeySet(kDTensorKey) | c10::DispatchKeySet(below);
    check_internal(both.highestPriorityTypeId() == rank(kDTensorKey),
                   "this torch ranks the dispatch key " + std::string(c10::toString(kDTensorKey)) +
                       " below " + c10::toString(below));
  }
}

}  // namespace hyper_parallel::torch_layer
