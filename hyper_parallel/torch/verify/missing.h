// Internal to the verifier: what a rule could say and does not.
#pragma once

#include <string>
#include <vector>

#include "hyper_parallel/torch/verify/case.h"

namespace hyper_parallel::torch_layer {

/// A strategy on one axis, as layouts of operands and results.
struct KnownLine {
  std::vector<const Layout*> inputs;
  std::vector<const Layout*> outputs;
};

/// What the search by brute force found.
struct MissingResult {
  std::vector<std::string> lines;  // "S(0) R -> S(0)"
  int trials = 0;
  bool drawn = false;  // there were more sets of placements than `most_trials`
};

/// Try every placement (R, S(d), P(sum)) of every operand on one axis of two ranks: run the op
/// itself on both parts and see what the results are. What holds, for the case and for the same
/// call with other values, and is not among `known`, is missing. `any`: operands whose layout does
/// not matter to the rule. Only the op as it is: nothing is rewritten, no handler runs.
MissingResult find_missing(const c10::OperatorHandle& op, const OpInfo& info, const VerifyCase& c,
                           const Reference& reference, const Mesh* mesh,
                           const std::vector<KnownLine>& known, const std::vector<char>& any,
                           int most_trials, at::Generator& random);

}  // namespace hyper_parallel::torch_layer
