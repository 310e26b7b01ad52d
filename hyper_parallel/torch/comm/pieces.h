#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "hyper_parallel/core/region.h"

/// Moving pieces in and out of tensors.
namespace hyper_parallel::torch_layer {

/// Copy-free where each dim has one interval.
at::Tensor take(const at::Tensor& x, const Region& places);

/// Write `value` into `x` at `places`.
void put(at::Tensor& x, const Region& places, const at::Tensor& value);

/// Zeros behind `x` in each dim up to `shape`; `x` itself if it has that shape.
at::Tensor pad_to(const at::Tensor& x, const Shape& shape);

/// Equal pieces that form a grid in a tensor, and the same pieces one after another in a buffer.
/// Three local steps turn one into the other: view each dim as (place in the grid, inside a piece),
/// permute so that the places come first, view as the buffer.
struct Grid {
  Shape tensor = {};                           // its shape
  Shape buffer = {};                           // pieces one after another along dim 0
  std::vector<std::int64_t> tensor_axes = {};  // the tensor with each dim split
  std::vector<std::int64_t> buffer_axes = {};  // the buffer with dim 0 split
  std::vector<std::int64_t> to_tensor = {};    // permutations
  std::vector<std::int64_t> to_buffer = {};
  bool same_memory = false;  // both lie alike
};

/// All pieces of one tensor, one a rank of a group.
struct Pieces {
  Shape tensor = {};                // the tensor's shape
  std::vector<Region> places = {};  // in the tensor, by rank
  std::vector<Shape> shapes = {};
  Shape largest = {};  // over ranks, by dim
  bool rows = false;   // the pieces in order are the tensor, cut along dim 0
  int along = -1;      // the pieces are one interval each, side by side in this dim
  std::optional<Grid> grid = std::nullopt;  // if they are equal and form a grid
};

/// `split_axes[d]` are the places in `group_sizes` of the axes that cut dim d, major to minor.
Pieces pieces_of(Shape tensor, std::vector<Region> places,
                 const std::vector<std::int64_t>& group_sizes,
                 const std::vector<std::vector<int>>& split_axes);

/// Pieces are rows, and all are as long as the largest until the tensor ends.
bool is_tail_padded(const Pieces& p);

/// Copy (or view) the pieces of a tensor one after another into a buffer, and back.
at::Tensor to_buffer(const at::Tensor& x, const Grid& grid);
at::Tensor to_tensor(const at::Tensor& buffer, const Grid& grid);

}  // namespace hyper_parallel::torch_layer
