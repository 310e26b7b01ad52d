#pragma once

#include <ATen/core/stack.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "hyper_parallel/core/mesh.h"

/// The verifier: are the strategies of a rule true? A strategy is run rank by rank on real tensors,
/// its results are joined as their layouts say and compared with the unsplit op, and so are the
/// gradients of a random projection of the results. Nothing here knows any op.
namespace hyper_parallel::torch_layer {

/// One call of an op on plain tensors.
struct VerifyCase {
  std::string op;                         // "aten::mm"
  std::string label;                      // shown in findings
  torch::jit::Stack arguments;            // one for each argument of the schema
  std::vector<torch::jit::Stack> others;  // the same call with other values: what holds for one
                                          // set of values by luck does not for another
  std::string spec;                       // a rule to check in place of the op's own; or empty
  bool values = true;                     // false: results are arbitrary (empty, random draws)
  bool grad = true;                       // false: forward only
  bool missing = true;                    // false: do not look for missing strategies
  std::string mutation;                   // change the rule so first: see rules/engine/mutate.h
};

/// What to run, and how much of it.
struct VerifyOptions {
  bool strategies = true;  // every strategy on every axis of the mesh, forced
  bool dispatch = true;    // DTensors in many layouts through the ordinary dispatch
  bool missing = true;     // one axis of two ranks: what holds by brute force
  int most_choices = 200;  // sets of choices of one case; more are drawn at random
  int most_layouts = 40;   // sets of layouts given to the dispatch
  int most_trials = 3000;  // sets of placements tried by brute force
  std::uint64_t seed = 0;
  std::chrono::milliseconds timeout = std::chrono::seconds(20);
};

/// One thing that is not as a rule says.
struct Finding {
  std::size_t which = 0;  // the case
  std::string kind;       // see verify()
  std::string line;       // "S(0) R -> S(0)"
  std::string detail;
};

/// What a run of the verifier did and found.
struct VerifyReport {
  /// Counts for each case.
  struct Counts {
    int forced = 0;      // sets of choices run
    int refused = 0;     // sets of choices without layouts (a nonempty factor, orders that clash)
    int dispatched = 0;  // sets of layouts run through the dispatch
    int backward = 0;    // runs of both kinds whose gradients were compared
    int trials = 0;      // sets of placements tried by brute force
    bool drawn = false;  // some set was drawn at random instead of complete
    double error = 0;    // the largest distance that passed
    std::vector<std::string> table;      // the strategies of one axis as text
    std::vector<std::string> mutations;  // that the rule has
  };
  std::vector<Counts> counts;
  std::vector<Finding> findings;
};

/// Check `cases` on a mesh of these sizes, with ranks as threads (`run_local`).
///
/// Kinds of findings: `forward`, `backward` (wrong values), `layout` (results are not what the rule
/// says), `gradient layout` (infer_grad is not the dual), `error` (a strategy that throws), `hang`,
/// `case` (the case itself does not run), and `missing` (holds, but the rule lacks it; only on a
/// mesh of one axis of two ranks).
VerifyReport verify(const std::vector<VerifyCase>& cases, const std::vector<int>& sizes,
                    const VerifyOptions& options = {});

}  // namespace hyper_parallel::torch_layer
