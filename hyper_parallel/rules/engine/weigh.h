// Internal to the engine: from choices to layouts with their price, and from these to an answer.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hyper_parallel/rules/cost.h"
#include "hyper_parallel/rules/engine/state.h"

namespace hyper_parallel::rules {

/// The layouts of a set of choices, with what they cost.
struct Weighed {
  Assembled layouts;
  std::vector<Price> changes;  // of the operands
  Price handler;
  Price results;        // from the layouts of the results to those that are wanted
  double deferred = 0;  // see deferred.h; of results that nothing is known of
  int changed = 0;      // wanted results that the op does not give as they are

  double before() const;  // cost of operands and handler
  double total() const { return before() + results.cost + deferred; }
};

/// True if `a` is the better one: in total, then fewer wanted results that change, then (where
/// results are wanted) less before the op. Equal costs are equal in spite of rounding.
bool better(const Weighed& a, const Weighed& b);

/// All that a price depends on.
struct Question {
  const ConcreteRule& rule;
  const Call& call;
  const CostModel& model;
  std::vector<OperandState> states;
  std::span<const Layout* const> wanted = {};  // of results, null: any; may be shorter
  std::vector<std::pair<int, FactorSplit>> wanted_cuts = {};  // their factors
};

Question ask(const ConcreteRule& rule, const Call& call, const CostModel& model,
             std::span<const Layout* const> wanted = {});

/// The cheapest layouts for one choice an axis, over all ways to cut factors in blocks, segments
/// and orders of axes. `fixed` (one a factor, or empty) decides these for factors that it cuts
/// along as many axes. Nothing, and `why`, as `assemble`.
std::optional<Weighed> weigh(const Question& q, std::span<const AxisChoice> choices,
                             const std::vector<FactorSplit>& fixed = {},
                             std::string* why = nullptr);

/// True if the factor that `choice` splits is run by a handler.
bool has_handler(const ConcreteRule& rule, const AxisChoice& choice);

/// The full answer: sizes, changes with reasons, bytes. Throws what the planner says of a change
/// that it refuses.
Inference finish(const Question& q, std::span<const AxisChoice> choices, Weighed weighed);

}  // namespace hyper_parallel::rules
