// Internal to the engine: the ways in which partial operands pass through an op.
#pragma once

#include <vector>

#include "hyper_parallel/rules/engine/state.h"

namespace hyper_parallel::rules {

/// True if the rule lets this kind pass at all.
bool passes(const ConcreteRule& rule, ReduceOp op);

/// The kinds that the rule lets pass, the usual one first.
std::vector<ReduceOp> passing_kinds(const ConcreteRule& rule);

/// All sets of operands that may stay partial on `axis`, given what they have. Beside an operand
/// that is written in place and must stay P(sum), whole ones may become P(sum): one rank keeps the
/// value.
std::vector<AxisChoice> partial_choices(const ConcreteRule& rule, const Call& call,
                                        const std::vector<OperandState>& states, int axis);

/// All sets of operands that may be partial of kind `op`, one operand a term.
std::vector<AxisChoice> all_partial_choices(const ConcreteRule& rule, ReduceOp op);

}  // namespace hyper_parallel::rules
