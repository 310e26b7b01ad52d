#pragma once

#include <ATen/core/Tensor.h>

namespace hyper_parallel::torch_layer {

/// The dispatch key of the wrapper. It sits above autocast and autograd, so one boxed fallback sees
/// each op as the caller wrote it. `check_dispatch_key()` runs at start-up.
#ifndef HP_DISPATCH_KEY
#define HP_DISPATCH_KEY TESTING_ONLY_GenericWrapper
#endif
inline constexpr c10::DispatchKey kDTensorKey = c10::DispatchKey::HP_DISPATCH_KEY;

/// Throws InternalError if this build of torch ranks the key below autograd or autocast.
void check_dispatch_key();

/// True for a distributed tensor; false for a plain or undefined one.
inline bool is_dtensor(const at::Tensor& t) {
  return t.defined() && t.unsafeGetTensorImpl()->key_set().has(kDTensorKey);
}

}  // namespace hyper_parallel::torch_layer
