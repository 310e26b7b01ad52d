#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "hyper_parallel/rules/rule.h"

namespace hyper_parallel::rules {

/// How one factor is cut; the same on every tensor that holds it. Fields as in `Split`.
struct FactorSplit {
  std::vector<int> axes = {};
  std::int64_t block = 1;
  std::vector<std::int64_t> segments = {};
  friend bool operator==(const FactorSplit&, const FactorSplit&) = default;
};

/// The cut of dim `dim` of a tensor, given the cuts of all factors. A whole dim has no axes.
/// Nothing if there is no layout for it:
///   - two factors of the dim are cut, and the major one not down to single indices,
///   - the factor is cut inside more than `kMaxSegments` copies (a whole major factor),
///   - a row of parts whose factor is cut in blocks,
///   - the factor that stands for the whole dim is cut, and one of the others too,
///   - a factor with a part is not cut in segments, or one of them lies across the part's bounds.
/// Blocks and segments that change nothing for these sizes are dropped.
std::optional<Split> compose(const ConcreteRule& rule, const TensorMap& map, int dim,
                             const std::vector<FactorSplit>& cuts, const Mesh* mesh);

/// A cut of a minor factor that would need more segments than this is not made.
constexpr std::int64_t kMaxSegments = 256;

/// What the cut of one dim means for the factors that make the dim.
struct Reading {
  std::vector<std::pair<int, FactorSplit>> cuts;  // factor and its cut
  bool exact = true;  // false: chunk boundaries miss the factors', the operand must be cut anew
};

/// The reverse of `compose`. No cuts: no factor of the rule can be meant.
Reading decompose(const ConcreteRule& rule, const TensorMap& map, const Split& split,
                  const Mesh* mesh);

/// True if both cuts give every rank the same indices of a dim of length `size`.
bool same_cut(const Split& a, const Split& b, const Mesh* mesh, std::int64_t size);

/// True if both layouts give every rank the same part of a tensor of these sizes.
bool equivalent(const Layout* a, const Layout* b, std::span<const std::int64_t> sizes);

/// True if some rank gets nothing of a factor of length `size` under `cut`.
bool leaves_empty(const FactorSplit& cut, const Mesh* mesh, std::int64_t size);

}  // namespace hyper_parallel::rules
