#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hyper_parallel {

/// Ranks arranged in a grid with named axes. Immutable and interned: two equal meshes are one
/// object, compared by pointer, alive until the process ends.
///
/// Identity is the sizes, the names and the whole rank list. `ranks` is row-major: the last
/// axis varies fastest. Text form: `dp=2 tp=4`, and `dp=2 tp=4 ranks=[0, 2, ...]` when the
/// ranks are not 0, 1, 2, ...
class Mesh {
 public:
  /// Intern a mesh. `ranks` empty means 0 .. product of sizes - 1.
  /// Throws UsageError: no axis, a size below 1, names empty, repeated or "None", a count of
  /// names or ranks that does not fit, a rank listed twice or negative, over 2^20 ranks.
  static const Mesh* get(const std::vector<int>& sizes, const std::vector<std::string>& names,
                         const std::vector<int>& ranks = {});

  int ndim() const { return static_cast<int>(sizes_.size()); }
  int size() const { return static_cast<int>(ranks_.size()); }
  int size(int axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  /// The number of ranks that differ along `axes` only: the product of their sizes.
  int size(const std::vector<int>& axes) const;
  const std::vector<int>& sizes() const { return sizes_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::string& name(int axis) const { return names_[static_cast<std::size_t>(axis)]; }
  const std::vector<int>& ranks() const { return ranks_; }

  /// The number of the axis `name`. Throws UsageError that lists the axes.
  int axis(std::string_view name) const;

  /// The place of `rank` in the grid, one number an axis; nothing if it is not a member.
  std::optional<std::vector<int>> coordinate(int rank) const;

  /// The ranks that `rank` reaches by moving along `axes` only, in row-major order over `axes`
  /// as listed (the first is the major one). Throws UsageError if `rank` is not a member.
  std::vector<int> group(const std::vector<int>& axes, int rank) const;

  /// The sub-mesh of the axes `names`, in that order, that holds `rank`.
  const Mesh* sub_mesh(const std::vector<std::string>& names, int rank) const;

  /// The mesh in which the axes `names`, adjacent and in order, are merged into one axis `name`
  /// (default: the names joined by "_").
  const Mesh* flatten(const std::vector<std::string>& names, std::string name = {}) const;

  std::string to_string() const;
  std::size_t hash() const { return hash_; }

  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

 private:
  Mesh(std::vector<int> sizes, std::vector<std::string> names, std::vector<int> ranks);

  std::vector<int> sizes_;
  std::vector<std::string> names_;
  std::vector<int> ranks_;
  std::size_t hash_;
};

}  // namespace hyper_parallel
