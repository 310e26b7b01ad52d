#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/core/tensor_meta.h"
#include "hyper_parallel/plan/topology.h"

namespace hyper_parallel::plan {

/// One way to cut one dim: axes major to minor, and a style (block and segments).
struct Cut {
  std::vector<int> axes = {};
  int style = 0;                      // index into Dim::styles; meaningless if `axes` is empty
  std::int64_t largest = 0;           // length of the longest piece
  std::vector<Interval> pieces = {};  // by row-major coordinate over `axes`, `parts` for each
  std::size_t parts = 1;
};

/// A tensor dim that takes part.
struct Dim {
  int dim = 0;
  std::int64_t size = 0;
  std::size_t fixed = 0;              // the first axes of every cut, which stay
  std::vector<Split> styles = {};     // block and segments that occur; axes unused
  std::vector<Cut> cuts = {};         // those met so far
};

/// A point of the search: for each dim one of its cuts, and the axes that are still partial.
struct State {
  std::vector<std::int16_t> cuts;
  std::uint32_t pending = 0;  // bit a: mesh axis a
  friend auto operator<=>(const State&, const State&) = default;
};

/// What changes hands when all ranks go from one state to another.
struct Exchange {
  double received_bytes = 0;  // the largest over ranks
  double sent_bytes = 0;      // likewise, if every index has one holder before and after
  bool identical = false;     // local tensors are the same, shapes included
};

/// The states between two layouts on one mesh. Dims and axes on which the layouts agree are left
/// out: they stay as they are. Axes that neither layout cuts are left out too, unless pending.
///
/// Pending ops must be one op (P(avg) was scaled before); see `prepare` in redistribute.cpp.
class Space {
 public:
  Space(const Layout* from, const Layout* to, const TensorMeta& meta, const Topology& topology);

  const Mesh* mesh() const { return mesh_; }
  const Topology& topology() const { return topology_; }
  const State& start() const { return start_; }
  const State& goal() const { return goal_; }
  const std::vector<Dim>& dims() const { return dims_; }
  const std::vector<int>& axes() const { return axes_; }  // that may change
  ReduceOp op() const { return op_; }                      // of pending axes

  const Cut& cut(const State& s, std::size_t dim) const;
  /// The cut `axes` in `style` of a dim, added if new.
  std::int16_t cut(std::size_t dim, const std::vector<int>& axes, int style);

  /// Largest local bytes over ranks.
  double local_bytes(const State& s) const;
  Exchange exchange(const State& before, const State& after);
  /// Bytes that some rank must still receive to reach the goal.
  double needed_bytes(const State& s);
  /// See Plan::lower_bound.
  double lower_bound();

  const Layout* layout(const State& s) const;
  int ranks(const std::vector<int>& axes) const;
  const Link& link(const std::vector<int>& axes);
  /// Axes that take part and are R in `s`.
  std::vector<int> whole_axes(const State& s) const;
  std::vector<int> pending_axes(const State& s) const;

 private:
  struct Sums;  // over all ranks
  Sums sums(const State& before, const State& after);
  void fill_pieces(Dim& dim, Cut& cut) const;

  const Mesh* mesh_;
  const Layout* from_;
  const Topology& topology_;
  double unit_bytes_ = 0;  // of one index of each dim that takes part: all that lies under it
  std::vector<int> axes_;
  std::vector<Dim> dims_;
  ReduceOp op_ = ReduceOp::sum;
  State start_;
  State goal_;
  std::map<std::vector<int>, const Link*> links_;
};

}  // namespace hyper_parallel::plan
