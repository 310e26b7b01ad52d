#pragma once

#include <functional>
#include <vector>

#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/plan/states_internal.h"

namespace hyper_parallel::plan {

/// A step of the search. `free` if local tensors stay the same: it takes no step at all.
struct Move {
  StepKind kind = StepKind::cut;
  AxisList axes = {};
  bool free = false;
  double bytes = 0;
  double seconds = 0;
  State after = {};

  bool is_reduction() const {
    return kind == StepKind::all_reduce || kind == StepKind::reduce_scatter;
  }
};

/// Finds the single steps from one state to others:
///
///     cut             some R axes, in any order, below the cuts of any dims
///     all_gather      the minor axes of any dims, on one flattened group
///     all_reduce      some pending axes
///     reduce_scatter  some pending axes, in any order, below the cuts of any dims
///     all_to_all      the minor axes of any dims, to new places below the cuts of any dims
///     permute         axes of equal size exchange their places, R axes among them
///
/// Where many axes change, a plan has one all_to_all or permute at most; `State::phase` is 1
/// behind it.
class Moves {
 public:
  /// True if a step to `after` of `seconds` at least is worth pricing.
  using Filter = std::function<bool(const State& after, double seconds)>;
  using Emit = std::function<void(const Move&)>;

  /// The functions must outlive this.
  Moves(States& states, const Filter& filter, const Emit& emit);

  /// Call `emit` with the steps from `s`, in a fixed order.
  void from(const State& s);

 private:
  template <class Visit>
  void place(State& s, std::uint32_t left, AxisList& placed, std::size_t first_dim,
             const Visit& visit);
  template <class Visit>
  void take_away(State& rest, AxisList& taken, std::size_t dim, const Visit& visit);

  void cuts();
  void all_gathers();
  void all_reduces();
  void reduce_scatters();
  void exchanges();
  void permutes();
  void permute(const std::vector<std::size_t>& image, std::uint32_t whole);
  void add(StepKind kind, const AxisList& axes, const State& after, double bytes);
  void add_exchange(StepKind kind, const AxisList& axes, State after);

  States& states_;
  const Filter& filter_;
  const Emit& emit_;
  std::size_t dims_;
  State s_;
  double local_bytes_ = 0;
};

}  // namespace hyper_parallel::plan
