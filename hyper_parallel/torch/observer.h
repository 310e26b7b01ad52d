#pragma once

#include "hyper_parallel/torch/redistribute.h"

namespace hyper_parallel::torch_layer {

/// The observer of this thread, null for none.
const CommObserver*& comm_observer();

/// Tell the observer, if there is one.
inline void observe(const plan::Step& step, const TensorMeta& meta, bool backward) {
  if (const CommObserver* observer = comm_observer()) (*observer)(step, meta, backward);
}

}  // namespace hyper_parallel::torch_layer
