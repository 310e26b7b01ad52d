#pragma once

#include <vector>

#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/plan/space_internal.h"

namespace hyper_parallel::plan {

/// A step of the search. `free` if local tensors stay the same: it takes no step at all.
struct Move {
  StepKind kind = StepKind::cut;
  std::vector<int> axes = {};
  int from_dim = -1;
  int to_dim = -1;
  bool free = false;
  double bytes = 0;
  double seconds = 0;
  State after = {};

  bool is_reduction() const {
    return kind == StepKind::all_reduce || kind == StepKind::reduce_scatter;
  }
};

/// All single steps from `s`, in a fixed order:
///
///     cut             some R axes, in any order, below the cuts of any dims
///     all_gather      the minor axes of any dims, on one flattened group
///     all_reduce      some pending axes
///     reduce_scatter  some pending axes, in any order, below the cuts of any dims
///     all_to_all      the minor axes of any dims, to new places below the cuts of any dims
///     permute         axes of equal size exchange their places, R axes among them
std::vector<Move> moves(Space& space, const State& s);

}  // namespace hyper_parallel::plan
