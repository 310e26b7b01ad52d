#pragma once

#include <string>

namespace hyper_parallel::torch_layer {

/// What running collectives are for; shown by reports. Null outside of ops.
struct Cause {
  const std::string* op = nullptr;
  const std::string* reason = nullptr;
};

/// The cause on the calling thread.
const Cause& current_cause();

/// Sets the cause of the calling thread for its life. The strings must outlive it.
class CauseGuard {
 public:
  CauseGuard(const std::string& op, const std::string& reason);
  ~CauseGuard();
  CauseGuard(const CauseGuard&) = delete;
  CauseGuard& operator=(const CauseGuard&) = delete;

 private:
  Cause before_;
};

}  // namespace hyper_parallel::torch_layer
