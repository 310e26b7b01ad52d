#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/dispatch/local_call.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer {

void run(const RunWhole&, Frame& f, const OpPlan& plan, Operands& operands) {
  const Layout* whole = Layout::replicated(plan.mesh);
  LocalCall call(f, plan, operands);
  call.enter();
  f.op.callBoxed(f.stack);
  call.leave(whole, [&](const LocalCall::Written& w, const LocalCall::Value& value) {
    if (plan.inputs[w.operand].plan == nullptr) {
      refresh(w.wrapper, value.local, whole, value.sizes);
      return;
    }
    // The op wrote a whole copy: the own part of it goes back.
    const Layout* layout = impl_of(w.wrapper)->layout();
    at::Tensor target = local_for_use(w.wrapper);
    target.copy_(move(value.local, whole, layout, w.wrapper.sizes()));
    refresh(w.wrapper, target, layout, w.wrapper.sizes());
  });
}

}  // namespace hyper_parallel::torch_layer
