#include "hyper_parallel/rules/window.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/doctest.h"

namespace hyper_parallel::rules {
namespace {

// Pairs (index of the operand, index of the result) by the definition.
std::vector<std::pair<std::int64_t, std::int64_t>> reads(const Window& w) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  const std::int64_t steps = w.transposed ? w.operand : w.result;
  const std::int64_t limit = w.transposed ? w.result : w.operand;
  for (std::int64_t i = 0; i < steps; ++i) {
    for (std::int64_t j = 0; j < w.kernel; ++j) {
      const std::int64_t at = i * w.stride - w.padding + j * w.dilation;
      if (at < 0 || at >= limit) continue;
      out.emplace_back(w.transposed ? i : at, w.transposed ? at : i);
    }
  }
  return out;
}

// Results that the op makes of the block without padding.
std::int64_t made(const Window& w, std::int64_t rows) {
  return w.transposed ? (rows - 1) * w.stride + w.extent() : (rows - w.extent()) / w.stride + 1;
}

// What is wrong with the rows for `piece`, or nothing.
std::string fault(const Window& w, Interval piece) {
  const WindowRows rows = rows_for(w, piece);
  if (rows.inside.begin < rows.block.begin || rows.inside.end > rows.block.end) return "inside";
  if (rows.inside.size() > 0 && (rows.inside.begin < 0 || rows.inside.end > w.operand)) {
    return "outside the operand";
  }
  if (rows.skip < 0 || rows.skip + piece.size() > made(w, rows.block.size())) return "too short";
  if (piece.size() == 0) return rows.inside.size() == 0 ? "" : "rows for nothing";
  // The block's first window is that of the piece.
  const std::int64_t first = w.transposed ? rows.block.begin * w.stride - w.padding + rows.skip
                                          : rows.block.begin + w.padding;
  if (first != (w.transposed ? piece.begin : piece.begin * w.stride)) return "shifted";
  Interval needed{w.operand, 0};
  for (const auto& [from, to] : reads(w)) {
    if (to < piece.begin || to >= piece.end) continue;
    needed = {std::min(needed.begin, from), std::max(needed.end, from + 1)};
  }
  if (needed.size() <= 0) return "";
  if (rows.inside.begin > needed.begin || rows.inside.end < needed.end) return "a row is missing";
  // Gaps of dilation and stride may bring rows that nobody reads.
  const std::int64_t more = rows.inside.size() - needed.size();
  return more < 2 * std::max(w.extent(), w.stride) ? "" : "too many rows";
}

}  // namespace

TEST_SUITE("Window") {
  TEST_CASE("RowsAreThoseThatAPieceReads") {
    int count = 0;
    for (std::int64_t kernel = 1; kernel <= 4; ++kernel) {
      for (std::int64_t stride = 1; stride <= 5; ++stride) {
        for (std::int64_t padding = 0; padding <= 2; ++padding) {
          for (std::int64_t dilation = 1; dilation <= 3; ++dilation) {
            for (bool transposed : {false, true}) {
              Window w{.operand = 9,
                       .kernel = kernel,
                       .stride = stride,
                       .padding = padding,
                       .dilation = dilation,
                       .transposed = transposed};
              w.result = transposed ? 8 * stride - 2 * padding + w.extent()
                                    : (9 + 2 * padding - w.extent()) / stride + 1;
              if (w.result < 1 || 9 + 2 * padding < w.extent()) continue;
              for (std::int64_t begin = 0; begin < w.result; ++begin) {
                for (std::int64_t end = begin; end <= w.result; ++end) {
                  const std::string found = fault(w, {begin, end});
                  if (!found.empty()) {
                    CAPTURE(kernel);
                    CAPTURE(stride);
                    CAPTURE(padding);
                    CAPTURE(dilation);
                    CAPTURE(transposed);
                    CAPTURE(begin);
                    CAPTURE(end);
                    CHECK(found == "");
                  }
                  ++count;
                }
              }
            }
          }
        }
      }
    }
    CHECK(count > 10000);
  }

  TEST_CASE("ExactRowsWithoutGaps") {
    const Window w{.operand = 16, .result = 16, .kernel = 3, .padding = 1};
    const WindowRows rows = rows_for(w, {0, 4});
    CHECK(rows.block == Interval{-1, 5});
    CHECK(rows.inside == Interval{0, 5});
    CHECK(rows.skip == 0);
    const Window back{.operand = 8, .result = 16, .kernel = 2, .stride = 2, .transposed = true};
    CHECK(rows_for(back, {4, 8}).inside == Interval{2, 4});
    CHECK(rows_for(back, {5, 8}).skip == 1);
    CHECK_FALSE(w.is_identity());
    CHECK(Window{.operand = 5, .result = 5}.is_identity());
  }
}

}  // namespace hyper_parallel::rules
