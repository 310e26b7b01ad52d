// Internal: calls of Paddle that differ from ours in more than names. What each changes stands at
// its definition.
#pragma once

#include "hyper_parallel/rules/query/paddle.h"

namespace hyper_parallel::rules {

inline constexpr std::string_view kWindow = "stride=strides padding=paddings dilation=dilations";

namespace named {

ConcreteRule attention(Adapter& call);
ConcreteRule batch_norm(Adapter& call);
ConcreteRule channels_second(Adapter& call);
ConcreteRule convolution(Adapter& call);
ConcreteRule embedding(Adapter& call);
ConcreteRule expand_as(Adapter& call);
ConcreteRule layer_norm(Adapter& call);
ConcreteRule matmul(Adapter& call);
ConcreteRule p_norm(Adapter& call);
ConcreteRule pad(Adapter& call);
ConcreteRule pick(Adapter& call);
ConcreteRule put_along_axis(Adapter& call);
ConcreteRule reshape(Adapter& call);
ConcreteRule rms_norm(Adapter& call);
ConcreteRule scan(Adapter& call);
ConcreteRule scatter(Adapter& call);
ConcreteRule tile(Adapter& call);
ConcreteRule unsqueeze(Adapter& call);

}  // namespace named
}  // namespace hyper_parallel::rules
