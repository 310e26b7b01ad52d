#pragma once

#include "hyper_parallel/torch/dispatch/call_plan.h"

namespace hyper_parallel::torch_layer {

/// How ops whose row says `kind` draw (torch/draws).
Draw find_draw(rules::RowOptions::Draw kind);

}  // namespace hyper_parallel::torch_layer
