#pragma once

#include <string_view>

#include "hyper_parallel/torch/dispatch/call_plan.h"

namespace hyper_parallel::torch_layer {

/// How an op draws; `op` without its overload: "aten::uniform_".
Draw find_draw(std::string_view op);

}  // namespace hyper_parallel::torch_layer
