#include "hyper_parallel/torch/comm/pieces.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include "tests/support/doctest.h"

namespace hyper_parallel::torch_layer {
namespace {

TEST_CASE("taken, put, padded") {
  const at::Tensor x = at::arange(24).view({6, 4});
  const Region apart = {{{0, 2}, {5, 6}}, {{1, 3}}};
  const at::Tensor taken = take(x, apart);
  const at::Tensor rows = at::cat({x.narrow(0, 0, 2), x.narrow(0, 5, 1)});
  CHECK(at::equal(taken, rows.narrow(1, 1, 2)));
  at::Tensor back = at::zeros({6, 4}, at::kLong);
  put(back, apart, taken);
  CHECK(back.sum().item<std::int64_t>() == taken.sum().item<std::int64_t>());
  CHECK(at::equal(take(back, apart), taken));
  const at::Tensor padded = pad_to(taken, {4, 3});
  CHECK(padded.sizes() == c10::IntArrayRef({4, 3}));
  CHECK(at::equal(padded.narrow(0, 0, 3).narrow(1, 0, 2), taken));
  CHECK(padded.sum().item<std::int64_t>() == taken.sum().item<std::int64_t>());
  CHECK(pad_to(taken, {3, 2}).is_same(taken));
}

TEST_CASE("a grid lies in a buffer and back") {
  // Four equal pieces over two axes, both dims cut.
  std::vector<Region> places;
  for (std::int64_t i : {0, 1}) {
    for (std::int64_t j : {0, 1}) places.push_back({{{2 * i, 2 * i + 2}}, {{3 * j, 3 * j + 3}}});
  }
  const Pieces pieces = pieces_of({4, 6}, places, {2, 2}, {{0}, {1}});
  REQUIRE(pieces.grid);
  CHECK(pieces.largest == Shape{2, 3});
  CHECK_FALSE(pieces.rows);
  const at::Tensor x = at::arange(24).view({4, 6});
  const at::Tensor buffer = to_buffer(x, *pieces.grid);
  for (std::size_t k = 0; k < 4; ++k) {
    const at::Tensor block = buffer.narrow(0, static_cast<std::int64_t>(2 * k), 2);
    CHECK(at::equal(block, take(x, places[k])));
  }
  CHECK(at::equal(to_tensor(buffer, *pieces.grid), x));
}

TEST_CASE("rows of which the last are short") {
  const auto rows = [](std::vector<std::int64_t> lengths) {
    std::vector<Region> places;
    std::int64_t start = 0;
    for (std::int64_t n : lengths) {
      places.push_back({{{start, start + n}}, {{0, 2}}});
      start += n;
    }
    return pieces_of({start, 2}, places, {static_cast<std::int64_t>(lengths.size())}, {{0}, {}});
  };
  CHECK(is_tail_padded(rows({2, 2, 1})));
  CHECK(is_tail_padded(rows({2, 1, 0})));
  CHECK_FALSE(is_tail_padded(rows({2, 0, 1})));
  CHECK_FALSE(is_tail_padded(rows({1, 2, 2})));
  CHECK(rows({2, 2, 2}).grid.has_value());
  CHECK_FALSE(rows({2, 2, 1}).grid.has_value());
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
