#include "hyper_parallel/torch/comm/pieces.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>
#include <numeric>

namespace hyper_parallel::torch_layer {
namespace {

bool is_box(const Region& region) {
  return std::all_of(region.begin(), region.end(), [](const auto& r) { return r.size() == 1; });
}

/// True if the pieces in order, empty ones left out, cover `dim` from 0 to its end and every
/// other dim whole.
bool side_by_side(const Pieces& pieces, std::size_t dim) {
  std::int64_t next = 0;
  for (std::size_t k = 0; k < pieces.places.size(); ++k) {
    if (product(pieces.shapes[k]) == 0) continue;
    const Region& r = pieces.places[k];
    for (std::size_t d = 0; d < r.size(); ++d) {
      if (r[d].size() != 1) return false;
      if (d != dim && r[d][0] != Interval{0, pieces.tensor[d]}) return false;
    }
    if (r[dim][0].begin != next) return false;
    next = r[dim][0].end;
  }
  return next == pieces.tensor[dim];
}

std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& permutation) {
  std::vector<std::int64_t> out(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    out[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  }
  return out;
}

at::Tensor view(const at::Tensor& x, const Shape& shape) {
  return x.sizes() == c10::IntArrayRef(shape) ? x : x.view(shape);
}

std::optional<Grid> grid_of(const Pieces& pieces, const std::vector<std::int64_t>& group_sizes,
                            const std::vector<std::vector<int>>& split_axes) {
  const Shape& block = pieces.largest;
  std::size_t used = 0;
  for (std::size_t d = 0; d < block.size(); ++d) {
    std::int64_t ways = 1;
    for (int g : split_axes[d]) ways *= group_sizes[static_cast<std::size_t>(g)];
    if (block[d] * ways != pieces.tensor[d]) return std::nullopt;
    used += split_axes[d].size();
  }
  if (used != group_sizes.size()) return std::nullopt;
  for (std::size_t k = 0; k < pieces.places.size(); ++k) {
    std::vector<std::int64_t> at(group_sizes.size());
    auto rest = static_cast<std::int64_t>(k);
    for (std::size_t g = group_sizes.size(); g-- > 0;) {
      at[g] = rest % group_sizes[g];
      rest /= group_sizes[g];
    }
    for (std::size_t d = 0; d < block.size(); ++d) {
      std::int64_t index = 0;
      for (int g : split_axes[d]) {
        index = index * group_sizes[static_cast<std::size_t>(g)] + at[static_cast<std::size_t>(g)];
      }
      const std::vector<Interval>& r = pieces.places[k][d];
      if (r.size() != 1 || r[0] != Interval{index * block[d], (index + 1) * block[d]}) {
        return std::nullopt;
      }
    }
  }
  Grid grid{.tensor = pieces.tensor, .buffer = block};
  const auto ranks = static_cast<std::int64_t>(pieces.places.size());
  if (!grid.buffer.empty()) grid.buffer[0] *= ranks;
  grid.buffer_axes = group_sizes;
  grid.buffer_axes.insert(grid.buffer_axes.end(), block.begin(), block.end());
  for (std::size_t d = 0; d < block.size(); ++d) {
    for (int g : split_axes[d]) grid.to_tensor.push_back(g);
    grid.to_tensor.push_back(static_cast<std::int64_t>(group_sizes.size() + d));
  }
  grid.to_buffer = inverse(grid.to_tensor);
  std::int64_t last = -1;
  grid.same_memory = true;
  for (std::int64_t axis : grid.to_tensor) {
    const std::int64_t size = grid.buffer_axes[static_cast<std::size_t>(axis)];
    grid.tensor_axes.push_back(size);
    if (size == 1) continue;
    grid.same_memory &= axis > last;
    last = axis;
  }
  return grid;
}

}  // namespace

at::Tensor take(const at::Tensor& x, const Region& places) {
  at::Tensor out = x;
  for (std::size_t d = 0; d < places.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    if (places[d].size() == 1) {
      const Interval& i = places[d][0];
      if (i.size() != out.size(dim)) out = out.narrow(dim, i.begin, i.size());
      continue;
    }
    std::vector<at::Tensor> parts;
    for (const Interval& i : places[d]) parts.push_back(out.narrow(dim, i.begin, i.size()));
    out = at::cat(parts, dim);
  }
  return out;
}

void put(at::Tensor& x, const Region& places, const at::Tensor& value) {
  if (value.numel() == 0) return;
  if (is_box(places)) {
    take(x, places).copy_(value);
    return;
  }
  for (std::size_t d = 0; d < places.size(); ++d) {
    if (places[d].size() == 1) continue;
    // One interval of this dim at a time.
    std::int64_t start = 0;
    for (const Interval& i : places[d]) {
      Region one = places;
      one[d] = {i};
      put(x, one, value.narrow(static_cast<std::int64_t>(d), start, i.size()));
      start += i.size();
    }
    return;
  }
}

at::Tensor pad_to(const at::Tensor& x, const Shape& shape) {
  if (x.sizes() == c10::IntArrayRef(shape)) return x;
  std::vector<std::int64_t> amounts;  // the last dim first
  for (std::size_t d = shape.size(); d-- > 0;) {
    amounts.push_back(0);
    amounts.push_back(shape[d] - x.size(static_cast<std::int64_t>(d)));
  }
  return at::constant_pad_nd(x, amounts, 0);
}

Pieces pieces_of(Shape tensor, std::vector<Region> places,
                 const std::vector<std::int64_t>& group_sizes,
                 const std::vector<std::vector<int>>& split_axes) {
  Pieces out{.tensor = std::move(tensor), .places = std::move(places)};
  out.largest.assign(out.tensor.size(), 0);
  for (const Region& r : out.places) {
    out.shapes.push_back(shape_of(r));
    for (std::size_t d = 0; d < r.size(); ++d) {
      out.largest[d] = std::max(out.largest[d], out.shapes.back()[d]);
    }
  }
  for (std::size_t d = 0; d < out.tensor.size() && out.along < 0; ++d) {
    if (side_by_side(out, d)) out.along = static_cast<int>(d);
  }
  out.rows = out.along == 0;
  out.grid = grid_of(out, group_sizes, split_axes);
  return out;
}

bool is_tail_padded(const Pieces& p) {
  if (!p.rows) return false;
  std::int64_t left = p.tensor[0];
  for (const Shape& shape : p.shapes) {
    const std::int64_t expected = std::min(left, p.largest[0]);
    if ((product(shape) == 0 ? 0 : shape[0]) != expected) return false;
    left -= expected;
  }
  return left == 0;
}

at::Tensor to_buffer(const at::Tensor& x, const Grid& grid) {
  if (grid.same_memory) return view(x.contiguous(), grid.buffer);
  return x.view(grid.tensor_axes).permute(grid.to_buffer).reshape(grid.buffer);
}

at::Tensor to_tensor(const at::Tensor& buffer, const Grid& grid) {
  if (grid.same_memory) return view(buffer, grid.tensor);
  // With dims of length 1 reshape may leave a view whose strides are not those of the global
  // tensor.
  return buffer.view(grid.buffer_axes).permute(grid.to_tensor).reshape(grid.tensor).contiguous();
}

}  // namespace hyper_parallel::torch_layer
