#pragma once

#include <span>
#include <vector>

#include "hyper_parallel/core/layout.h"

/// Which indices of a global tensor a rank holds.
namespace hyper_parallel {

/// For each tensor dim ascending, disjoint intervals.
using Region = std::vector<std::vector<Interval>>;

/// What the rank at `coordinate` holds, as global indices. Neighbours are joined.
Region region_of(const Layout* layout, const Shape& sizes, std::span<const int> coordinate);

/// The indices that are in both.
Region intersect(const Region& a, const Region& b);

/// `part`, a subset of `whole` in global indices, as places in the tensor that holds `whole`.
Region places(const Region& part, const Region& whole);

/// The sizes of the tensor that holds a region, and the number of its elements.
Shape shape_of(const Region& region);
std::int64_t numel_of(const Region& region);

}  // namespace hyper_parallel
