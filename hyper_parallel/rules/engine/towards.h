#pragma once

#include <span>

#include "hyper_parallel/rules/rule.h"

namespace hyper_parallel::rules {

/// Joint inference: the strategy that moves the fewest bytes in all, where `wanted` names the
/// layouts that the results shall have next (one a result; null: any). Counted are the operands'
/// redistributions, the handler, and the results' redistributions to `wanted`, each as
/// `plan::redistribute` makes it.
///
/// Unlike `infer_forward` it may split along an axis that splits no operand yet. At equal cost the
/// strategy whose results need no change is taken, then the one that moves less before the op.
/// Cost: an exact search over all sets of choices; tens of microseconds a set.
///
/// Throws UsageError HP-S033: more layouts than results. UnsupportedError: HP-S035 an op on lists,
/// HP-S034 no strategy leads there.
Inference infer_towards(const ConcreteRule& rule, const Call& call,
                        std::span<const Layout* const> wanted);

}  // namespace hyper_parallel::rules
