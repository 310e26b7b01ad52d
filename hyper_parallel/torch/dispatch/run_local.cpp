#include "hyper_parallel/torch/dispatch/local_call.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer {

void run(const RunLocal&, Frame& f, const OpPlan& plan, Operands& operands) {
  LocalCall call(f, plan, operands);
  call.enter();
  f.op.callBoxed(f.stack);
  call.leave(nullptr, [](const LocalCall::Written& w, const LocalCall::Value& value) {
    refresh(w.wrapper, value.local, value.layout, value.sizes);
  });
}

}  // namespace hyper_parallel::torch_layer
