#pragma once

#include <string>

#include "hyper_parallel/torch/dispatch/plan_cache.h"

namespace hyper_parallel::torch_layer {

/// The composite handlers: what is run instead of an op whose rule says `~name`.
///
/// A handler gets local inputs in the layouts `plan.inputs[i].layout` and leaves local results in
/// the layouts `plan.outputs`. It is written as local ops and differentiable collectives
/// (collective_ops.h), so it needs no backward of its own; where a hand-made backward moves less
/// (cross entropy) it says so. Names, collectives and bytes: rules/handlers.h.
///
/// Throws InternalError for an unknown name.
Handler find_handler(const std::string& name);

}  // namespace hyper_parallel::torch_layer
