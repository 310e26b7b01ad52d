// Internal: the rule of a reshape, for families that reshape among other things.
#pragma once

#include "hyper_parallel/rules/build/make.h"

namespace hyper_parallel::rules {

/// The first operand with other sizes of the same product.
ConcreteRule view_rule(const Call& call, Shape sizes);

}  // namespace hyper_parallel::rules
