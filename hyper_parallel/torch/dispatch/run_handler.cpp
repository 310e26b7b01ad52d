#include "hyper_parallel/torch/base/cause.h"
#include "hyper_parallel/torch/dispatch/handler_call.h"
#include "hyper_parallel/torch/dispatch/local_call.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer {

void run(const RunHandler& how, Frame& f, const OpPlan& plan, Operands& operands) {
  LocalCall call(f, plan, operands);
  call.enter();
  {
    const CauseGuard guard(f.info.name, how.reason);
    HandlerCall handled(f.op, plan, how, f.stack);
    how.run(handled);
  }
  call.leave(nullptr, [](const LocalCall::Written& w, const LocalCall::Value& value) {
    if (value.local.is_same(w.local)) {
      refresh(w.wrapper, value.local, value.layout, value.sizes);
      return;
    }
    // The handler made the value elsewhere.
    at::Tensor target = local_for_use(w.wrapper);
    target.copy_(value.local);
    refresh(w.wrapper, target, impl_of(w.wrapper)->layout(), w.wrapper.sizes());
  });
}

}  // namespace hyper_parallel::torch_layer
