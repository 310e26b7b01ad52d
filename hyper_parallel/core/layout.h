#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hyper_parallel/core/mesh.h"
#include "hyper_parallel/core/placement.h"

namespace hyper_parallel {

/// Sizes of a tensor, one a dim.
using Shape = std::vector<std::int64_t>;

/// The number of elements: 1 for no dims.
std::int64_t product(std::span<const std::int64_t> sizes);

/// A half-open range of indices along one tensor dim.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// How one tensor dim is cut.
///
/// `axes` are the mesh axes that cut it, major to minor: the first cuts the dim, the next cuts
/// each chunk again. Chunk i of n of a range of length L is the i-th piece of ceil(L / n)
/// (torch's chunk rule), so later chunks may be shorter or empty. With `block` b > 1 lengths
/// are counted in blocks of b indices (the last block may be short): boundaries fall on
/// multiples of b only. With `segments` the dim is a row of parts of these sizes (their sum is
/// the dim's size), and each part is cut on its own: a rank holds its piece of every part, in
/// order, as for a fused q|k|v or gate|up weight.
struct Split {
  int dim = 0;
  std::vector<int> axes = {};
  std::int64_t block = 1;
  std::vector<std::int64_t> segments = {};
  friend bool operator==(const Split&, const Split&) = default;
};

/// How one tensor lies over a mesh. Immutable and interned: equal layouts are one object,
/// compared by pointer, alive until the process ends. Independent of the tensor's sizes (but
/// for `segments`).
///
/// Invariants
///   - an axis cuts at most one dim, and is not partial then
///   - an axis of size 1 is always R: cutting over one rank, or summing over it, changes nothing
///   - splits are ordered by dim, each with at least one axis
class Layout {
 public:
  /// Everything replicated.
  static const Layout* replicated(const Mesh* mesh);

  /// One placement an axis. Axes on one dim are ordered as the mesh has them (major first).
  /// Throws UsageError: wrong number of placements, negative dim (normalise first).
  static const Layout* get(const Mesh* mesh, std::span<const Placement> placements);

  /// The full form. `partials` has one entry an axis; entries of axes that cut a dim are ignored.
  /// A block below 1 counts as 1; one segment is the same as none.
  /// Throws UsageError if an axis is used twice or is unknown, a dim is listed twice or negative, a
  /// segment is negative.
  static const Layout* get(const Mesh* mesh, std::vector<Split> splits,
                           const std::vector<std::optional<ReduceOp>>& partials = {});

  /// The seeds' form: for each tensor dim the names of the axes that cut it, major to minor;
  /// empty or "None" for none. Throws UsageError: unknown axis, axis used twice.
  static const Layout* from_names(const Mesh* mesh,
                                  const std::vector<std::vector<std::string>>& dims);

  const Mesh* mesh() const { return mesh_; }
  Placement placement(int axis) const { return placements_[static_cast<std::size_t>(axis)]; }
  const std::vector<Placement>& placements() const { return placements_; }
  const std::vector<Split>& splits() const { return splits_; }

  /// The cut of `dim`, or null if it is whole.
  const Split* split(int dim) const;

  /// Its axes, empty if the dim is whole.
  const std::vector<int>& axes(int dim) const;

  bool is_replicated() const { return splits_.empty() && !has_partial_; }
  bool has_partial() const { return has_partial_; }

  /// The largest dim that is cut, -1 if none.
  /// Throws UsageError HP-L005 if a dim that a tensor of `ndim` dims lacks is split.
  void check_dims(std::int64_t ndim) const;
  int max_dim() const { return splits_.empty() ? -1 : splits_.back().dim; }

  /// The number of ranks that hold copies: product of the sizes of the axes that are R.
  int replicas() const;

  /// This layout with `axis` changed. A shard becomes the minor cut of its dim.
  const Layout* with(int axis, Placement placement) const;

  /// The layout of the cotangent: R <-> P(sum), S stays. `P(avg)` has dual R; the factor 1 / n
  /// is the caller's. Throws UnsupportedError for P(max), P(min), P(prod).
  const Layout* dual() const;

  /// All partial axes made R.
  const Layout* reduced() const;

  std::size_t hash() const { return hash_; }

  /// `S(0) R`: one placement an axis. The order of several axes on one dim is shown where it is
  /// not the mesh's, as the place in the order (0 is major): `S(0, 1) S(0, 0)`; block and segments
  /// stand on the major axis: `S(0; block=64)`, `S(0; segments=64|32|32)`.
  std::string to_string() const;

  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

 private:
  Layout(const Mesh* mesh, std::vector<Split> splits, std::vector<Placement> placements);

  const Mesh* mesh_;
  std::vector<Split> splits_;
  std::vector<Placement> placements_;
  bool has_partial_ = false;
  std::size_t hash_ = 0;
};

/// Check `placements` against a tensor of `ndim` dims and make negative dims positive.
/// Throws UsageError: wrong number of placements, shard dim out of range.
std::vector<Placement> normalize(const Mesh* mesh, std::span<const Placement> placements, int ndim);

/// The indices of `dim` (of global length `size`) that the rank at `coordinate` holds, in the
/// order in which they lie in its local tensor: one interval, or one a segment. Empty
/// intervals are kept, so the count is the same on all ranks.
std::vector<Interval> local_intervals(const Layout* layout, int dim, std::int64_t size,
                                      std::span<const int> coordinate);

/// The same for one cut on its own, on the axes of `mesh`.
/// Throws UsageError if the segments do not sum to `size`.
std::vector<Interval> local_intervals(const Split& split, const Mesh* mesh, std::int64_t size,
                                      std::span<const int> coordinate);

/// The length of `dim` on that rank.
std::int64_t local_size(const Layout* layout, int dim, std::int64_t size,
                        std::span<const int> coordinate);

/// The shape of the local tensor at `coordinate` of a tensor of global shape `sizes`.
Shape local_shape(const Layout* layout, std::span<const std::int64_t> sizes,
                  std::span<const int> coordinate);

/// True if all ranks hold pieces of equal length along `dim`.
bool is_even(const Layout* layout, int dim, std::int64_t size);

}  // namespace hyper_parallel
