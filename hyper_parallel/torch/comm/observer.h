#pragma once

#include "hyper_parallel/torch/comm/redistribute.h"

namespace hyper_parallel::torch_layer {

/// The observer of this rank, null for none.
const CommObserver*& comm_observer();

/// Tell the observer, if there is one.
inline void observe(const plan::Step& step, const TensorMeta& meta, bool backward, int joined = 0) {
  if (const CommObserver* observer = comm_observer()) (*observer)(step, meta, backward, joined);
}

/// A number, not 0, for the next collective of this thread that is made of several steps.
int next_joined();

}  // namespace hyper_parallel::torch_layer
