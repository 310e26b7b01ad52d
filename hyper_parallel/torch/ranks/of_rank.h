#pragma once

#include "hyper_parallel/torch/ranks/ranks.h"

namespace hyper_parallel::torch_layer {

/// A value of the calling rank: of its thread inside `run_local`, elsewhere of the process, so that
/// the threads on which the engine runs backward passes of a device see it too.
template <class T, class Tag>
T& of_rank() {
  static T* const process = new T{};
  thread_local T thread{};
  return inside_run_local() ? thread : *process;
}

}  // namespace hyper_parallel::torch_layer
