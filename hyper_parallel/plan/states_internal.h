#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/core/tensor_meta.h"
#include "hyper_parallel/plan/topology.h"

namespace hyper_parallel::plan {

/// One way to cut one dim. The cuts of a dim form a tree: the root is the whole dim, a child cuts
/// each piece of its parent along one more axis.
struct DimSplit {
  std::vector<int> axes = {};  // from the root
  std::int16_t parent = -1;
  std::int16_t style = 0;                   // index into Dim::styles; of the root: meaningless
  bool even = true;                         // all pieces are equally long
  std::int64_t largest = 0;                 // length of the longest piece
  std::vector<std::int16_t> children = {};  // by style and axis, -1: not met yet
  std::vector<Interval> pieces = {};        // by row-major coordinate over `axes`; made when needed
  std::size_t parts = 1;                    // intervals of a piece

  std::size_t depth() const { return axes.size(); }
};

/// A tensor dim that takes part.
struct Dim {
  int dim = 0;
  std::int64_t size = 0;
  std::size_t fixed = 0;            // the first axes of every cut, which stay
  std::vector<Split> styles = {};   // block and segments that occur; axes unused
  std::vector<DimSplit> cuts = {};  // the root first
};

/// A point of the search: for each dim one of its cuts, and the axes that are still partial.
struct State {
  static constexpr std::size_t kMostDims = 8;
  std::array<std::int16_t, kMostDims> cuts = {};
  std::uint32_t pending = 0;  // bit a: mesh axis a
  std::uint32_t phase = 0;    // see moves_internal.h
  friend bool operator==(const State&, const State&) = default;

  bool same_layout(const State& other) const {
    return cuts == other.cuts && pending == other.pending;
  }
};

/// Axes of a mesh in some order.
struct AxisList {
  std::array<std::int8_t, 32> at = {};
  std::int8_t count = 0;

  void push(int axis) { at[static_cast<std::size_t>(count++)] = static_cast<std::int8_t>(axis); }
  void pop() { --count; }
  const std::int8_t* begin() const { return at.data(); }
  const std::int8_t* end() const { return at.data() + count; }
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
/// Pending ops must be one op (P(avg) was scaled before); see redistribute.cpp.
class States {
 public:
  States(const Layout* from, const Layout* to, const TensorMeta& meta, const Topology& topology);

  const Mesh* mesh() const { return mesh_; }
  const Topology& topology() const { return topology_; }
  const State& start() const { return start_; }
  const State& goal() const { return goal_; }
  const std::vector<Dim>& dims() const { return dims_; }
  const std::vector<int>& axes() const { return axes_; }  // that may change
  ReduceOp op() const { return op_; }                     // of pending axes

  /// False if there are more dims than a state holds.
  bool fits() const { return dims_.size() <= State::kMostDims; }

  const DimSplit& cut(const State& s, std::size_t dim) const {
    return dims_[dim].cuts[static_cast<std::size_t>(s.cuts[dim])];
  }
  /// The child of a cut of `dim`. `style` counts at the root only.
  std::int16_t append(std::size_t dim, std::int16_t cut, int axis, int style);

  /// Largest local bytes over ranks.
  double local_bytes(const State& s) const;
  Exchange exchange(const State& before, const State& after);
  /// Bytes that some rank must still send or receive to reach the goal, at least.
  double needed_bytes(const State& s);

  const Layout* layout(const State& s) const;
  int ranks(const AxisList& axes) const;
  const Link& link(const AxisList& axes);
  /// Axes that take part and are R in `s`, as bits.
  std::uint32_t whole_axes(const State& s) const;

 private:
  struct Sums;  // over all ranks
  Sums sums(const State& before, const State& after);
  bool even_sums(const State& before, const State& after, Sums& out) const;
  void fill_pieces(const Dim& dim, DimSplit& cut) const;

  const Mesh* mesh_;
  const Layout* from_;
  const Topology& topology_;
  double unit_bytes_ = 0;  // of one index of each dim that takes part: all that lies under it
  std::vector<int> axes_;
  std::vector<int> rank_axes_;  // on which pieces depend: axes_ and the fixed ones
  std::vector<Dim> dims_;
  ReduceOp op_ = ReduceOp::sum;
  State start_;
  State goal_;
  std::map<std::uint32_t, const Link*> links_;
};

}  // namespace hyper_parallel::plan
