// Internal to the engine: what a choice only puts off.
#pragma once

#include <span>
#include <vector>

#include "hyper_parallel/rules/cost.h"
#include "hyper_parallel/rules/engine/state.h"

namespace hyper_parallel::rules {

/// The cost that falls due after the op, because of the choices: some strategies move nothing only
/// because what must move is left to the result. Counted is what the planner would do to make a
/// result whole along an axis
///
///     P -> R    where a partial operand passes, a handler leaves the result P(sum) (a masked
///               look-up), or an operand is cut anew for a sum over a split factor
///     S -> R    where a split that only vectors have spreads to a larger operand
///
/// Without it a weight would be gathered to keep an activation partial, a small table looked up in
/// parts, and an activation split because a bias is. `outputs` are the layouts of the results; null
/// for those whose next layout is known: what they will cost is known too, and is no guess.
double deferred(const ConcreteRule& rule, const Call& call, const std::vector<OperandState>& states,
                std::span<const AxisChoice> choices, std::span<const Layout* const> outputs,
                const CostModel& model);

}  // namespace hyper_parallel::rules
