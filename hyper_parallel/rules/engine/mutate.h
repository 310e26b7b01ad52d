#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hyper_parallel/rules/rule.h"

namespace hyper_parallel::rules {

/// A rule with one letter or mark changed.
struct Mutation {
  std::string what;  // "result 0 loses k", "k passes instead of being summed"
  std::function<void(ConcreteRule&)> change;
};

/// All mutations of a rule that change what it says: a verifier worth its name finds each. Letters
/// of size 1 and operands that are absent are left alone, for they say nothing; list ops have none.
///
/// - a letter is taken from a result, or from an operand
/// - two letters of a tensor trade places, where their sizes agree
/// - a letter that is summed passes, and the other way round; the kind of the sum changes
/// - a letter that must be whole may be split; one that the op splits as it is must be whole
/// - a handler is forgotten
/// - an operand becomes linear, or no longer is; a mark `+` or `#` is forgotten
/// - other kinds of partial pass
/// - an attribute is no longer rewritten, a block forgotten, random numbers drawn anew on each rank
std::vector<Mutation> mutations(const ConcreteRule& rule);

}  // namespace hyper_parallel::rules
