#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/dispatch/local_call.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer {

// A plain tensor is written with DTensor values (`zeros.scatter_add_(0, i, x)`): the operands
// cross the border whole, the plain tensor stays plain and equal on all ranks.
void run(const RunPlain&, Frame& f, const OpPlan&, Operands&) {
  replace_tensors(f, [&](const at::Tensor& t, const OpInfo::Argument& a) {
    if (!is_dtensor(t)) return t;
    if (a.written) {
      throw UsageError(
          Message("HP-D013", f.info.name + ": plain and distributed tensors written together")
              .fact("tensor", describe(t)));
    }
    return to_local_as(t, Layout::replicated(impl_of(t)->layout()->mesh()));
  });
  f.op.callBoxed(f.stack);
}

}  // namespace hyper_parallel::torch_layer
