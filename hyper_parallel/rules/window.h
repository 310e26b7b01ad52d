#pragma once

#include <cstdint>

#include "hyper_parallel/core/layout.h"

namespace hyper_parallel::rules {

/// How a dim of a result is read off the same dim of the first operand: index o reads the indices
/// o * stride - padding + j * dilation, 0 <= j < kernel, and nothing where they lie outside.
/// `transposed`: the other way round, index i of the operand is added to i * stride - padding +
/// j * dilation of the result.
struct Window {
  std::int64_t operand = 1;  // length of the operand's dim, at least 1
  std::int64_t result = 1;   // of the result's, at least 1
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // before index 0
  std::int64_t dilation = 1;
  bool transposed = false;

  /// Indices from the first to the last that one window covers.
  std::int64_t extent() const { return dilation * (kernel - 1) + 1; }

  /// True if index o reads index o alone.
  bool is_identity() const;

  friend bool operator==(const Window&, const Window&) = default;
};

/// What a piece of the result is made of.
struct WindowRows {
  Interval block;         // rows to run the op on without padding; some may lie outside
  Interval inside;        // those of the block that the operand has and the piece reads
  std::int64_t skip = 0;  // results of the block that come before the piece
};

/// The rows for result indices `piece`. An empty piece gets a block for one window, none of it
/// inside: the op refuses less.
WindowRows rows_for(const Window& window, Interval piece);

}  // namespace hyper_parallel::rules
