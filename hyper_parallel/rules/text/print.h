#pragma once

#include <string>
#include <string_view>

#include "hyper_parallel/rules/rule.h"

namespace hyper_parallel::rules {

/// The rule of one call in the notation of docs/notation.md ("The rule of one call"), whatever
/// made it:
///
///     *m k, *k n -> m n {m=8, k=16, n=32}
///     d0 d1~softmax -> d0 d1 {d0=8, d1=16}
///     *d0 ci h~halo=16, *co ci _=3, +co -> d0 co h=14 {d0=8, ci=4 nonempty, ...}
///
/// Several factors of one name are told apart by numbers. An op on lists gives one line a part.
std::string to_string(const ConcreteRule& rule);

/// The reverse: `parse_rule(to_string(rule)) == rule`, but for ops on lists.
/// Throws UsageError HP-S050: text, place, what was expected.
ConcreteRule parse_rule(std::string_view text);

}  // namespace hyper_parallel::rules
