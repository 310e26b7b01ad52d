#include "hyper_parallel/torch/base/cause.h"

namespace hyper_parallel::torch_layer {
namespace {

thread_local Cause cause;

}  // namespace

const Cause& current_cause() { return cause; }

CauseGuard::CauseGuard(const std::string& op, const std::string& reason) : before_(cause) {
  cause = {&op, &reason};
}

CauseGuard::~CauseGuard() { cause = before_; }

}  // namespace hyper_parallel::torch_layer
