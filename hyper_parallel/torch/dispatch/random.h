#pragma once

#include "hyper_parallel/torch/dispatch/frame.h"

/// Random numbers: what one device would draw.
///
/// Every rank draws the whole result from its own stream (rank_stream.h) and keeps its part, so
/// replicas agree and the layout does not matter.
namespace hyper_parallel::torch_layer {

/// Run an op whose plan says `random`.
void run_random(Frame& frame, const OpPlan& plan, Operands& operands);

}  // namespace hyper_parallel::torch_layer
