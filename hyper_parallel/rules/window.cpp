#include "hyper_parallel/rules/window.h"

#include <algorithm>

namespace hyper_parallel::rules {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// What of `read` the operand has, or an empty part of the block.
Interval part_inside(Interval read, Interval block, std::int64_t size) {
  const Interval out = {std::max<std::int64_t>(read.begin, 0), std::min(read.end, size)};
  return out.size() > 0 ? out : Interval{block.begin, block.begin};
}

}  // namespace

bool Window::is_identity() const {
  return operand == result && kernel == 1 && stride == 1 && padding == 0;
}

WindowRows rows_for(const Window& w, Interval piece) {
  if (piece.size() == 0) return {.block = {0, w.transposed ? 1 : w.extent()}, .inside = {0, 0}};
  const std::int64_t last = piece.end - 1;
  if (!w.transposed) {
    const Interval block = {piece.begin * w.stride - w.padding,
                            last * w.stride - w.padding + w.extent()};
    return {.block = block, .inside = part_inside(block, block, w.operand)};
  }
  // Index o is written from i where i * stride is in [o + padding - extent + 1, o + padding].
  const std::int64_t reach = w.extent() - 1;
  const Interval read = {floor_div(piece.begin + w.padding - reach + w.stride - 1, w.stride),
                         floor_div(last + w.padding, w.stride) + 1};
  // Where the stride is longer than the window some indices are written from nowhere: the block
  // begins and ends so that it covers them too.
  const Interval block = {
      std::min(read.begin, floor_div(piece.begin + w.padding, w.stride)),
      std::max(read.end, floor_div(last + w.padding - reach + w.stride - 1, w.stride) + 1)};
  return {.block = block,
          .inside = part_inside(read, block, w.operand),
          .skip = piece.begin - (block.begin * w.stride - w.padding)};
}

}  // namespace hyper_parallel::rules
