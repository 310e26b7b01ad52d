#pragma once

#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <utility>

#include "hyper_parallel/core/error.h"

namespace hyper_parallel::torch_layer {

/// The base of the library's nodes in torch's graph. Errors of the library that leave a backward
/// pass keep their class and code in Python: the engine itself would make a `RuntimeError` of them.
class GraphNode : public torch::autograd::Node {
 public:
  using variable_list = torch::autograd::variable_list;

  variable_list apply(variable_list&& grads) final {
    return at_border([&] {
      if (std::any_of(grads.begin(), grads.end(), &is_batched)) throw_batched();
      return backward(std::move(grads));
    });
  }

 private:
  /// The gradients of the inputs from those of the outputs, undefined where there are none.
  virtual variable_list backward(variable_list&& grads) = 0;

  // Several gradients in one, as `is_grads_batched` gives them: no collective knows these.
  static bool is_batched(const at::Tensor& t) {
    if (!t.defined()) return false;
    const c10::DispatchKeySet keys = t.key_set();
    return keys.has(c10::DispatchKey::Batched) || keys.has(c10::DispatchKey::FuncTorchBatched);
  }
  [[noreturn]] static void throw_batched() {
    throw UnsupportedError(
        Message("HP-D017", "a batch of gradients (is_grads_batched, vectorize=True) at a DTensor")
            .hint("one backward pass for each gradient"));
  }
};

}  // namespace hyper_parallel::torch_layer
