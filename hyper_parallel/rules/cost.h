#pragma once

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/core/tensor_meta.h"
#include "hyper_parallel/plan/topology.h"

namespace hyper_parallel::rules {

struct Call;
struct ConcreteRule;

/// The price of something that communicates. Infinite where it cannot be done.
struct Price {
  double bytes = 0;  // that one rank sends or receives
  double cost = 0;   // the same, each byte times how much slower its link is than the fastest one

  Price& operator+=(const Price& other) {
    bytes += other.bytes;
    cost += other.cost;
    return *this;
  }
};

/// What communication costs: one answer for all who ask, in front of a choice (inference forward
/// and towards results, search over programs) and behind it (what the planner makes of a change,
/// what a handler moves). On a topology of one kind of link cost and bytes are the same number.
///
///     CostModel model;                            // "uniform"
///     CostModel model(plan::topology("h100"));    // axes between hosts cost nine times as much
class CostModel {
 public:
  explicit CostModel(const plan::Topology& topology = plan::default_topology())
      : topology_(&topology) {}

  const plan::Topology& topology() const { return *topology_; }

  /// A change of the layout of one tensor: the plan that `plan::redistribute` makes. Infinite for
  /// what the planner refuses and for sizes that are known after a run only.
  /// Cost: a look-up; what was never asked: a search of some microseconds.
  Price change(const Layout* from, const Layout* to, const TensorMeta& meta) const;

  /// What the handler of `factor` moves where the factor is split along `axes` of the call's mesh;
  /// 0 if it has none. `share`: the part of the operand that a rank has by its other splits.
  Price handler(const ConcreteRule& rule, const Call& call, int factor,
                const std::vector<int>& axes, double share = 1) const;

  /// `bytes` that travel over the flattened group of some axes.
  Price over(const Mesh* mesh, const std::vector<int>& axes, double bytes) const;

 private:
  double slowdown(const Mesh* mesh, const std::vector<int>& axes) const;

  const plan::Topology* topology_;
};

}  // namespace hyper_parallel::rules
