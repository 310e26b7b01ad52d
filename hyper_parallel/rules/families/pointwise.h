// Internal: rules of elementwise ops, for families whose ops are elementwise but for a detail.
#pragma once

#include "hyper_parallel/rules/build/make.h"

namespace hyper_parallel::rules {

/// Operands broadcast, one factor a dim of the result, no partial passes.
ConcreteRule pointwise_rule(const Call& call);

/// The same over some of the operands; the dims of the others are whole.
ConcreteRule pointwise_rule(const Call& call, std::span<const std::size_t> operands);

}  // namespace hyper_parallel::rules
