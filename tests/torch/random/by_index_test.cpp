#include "hyper_parallel/torch/random/by_index.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <doctest/doctest.h>

#include "hyper_parallel/core/region.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/random/philox.h"

namespace hyper_parallel::torch_layer {
namespace {

constexpr std::uint64_t kKey = 0x0123456789ABCDEF;

Region all_of(const Shape& sizes) {
  Region out;
  for (const std::int64_t size : sizes) out.push_back({{0, size}});
  return out;
}

at::Tensor whole(const Shape& sizes, at::ScalarType type, const Distribution& draw,
                 std::uint64_t key = kKey) {
  at::Tensor out = at::empty(sizes, type);
  fill_by_index(out, key, draw, sizes, all_of(sizes));
  return out;
}

std::vector<Distribution> draws() {
  using Kind = Distribution::Kind;
  return {{Kind::uniform, -1, 2}, {Kind::normal, 1, 2},         {Kind::exponential, 2},
          {Kind::cauchy, 0, 1},   {Kind::log_normal, 0, 1},     {Kind::geometric, 0.3},
          {Kind::bernoulli, 0.4}, {Kind::integer, 0, 0, -3, 10}};
}

}  // namespace

TEST_CASE("words are those of Philox4x32-10") {
  // Source: the known answers of Random123, kat_vectors, philox4x32 10.
  const at::Tensor words = philox_words(at::arange(4, at::kLong), 0);
  const std::int64_t known[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (int i = 0; i < 4; ++i) CHECK(words[i].item<std::int64_t>() == known[i]);
  // The kernel gives the words of the ops, also where the counter carries into its upper half.
  for (const std::uint64_t counter : {std::uint64_t{0}, (std::uint64_t{1} << 32) - 3}) {
    std::vector<std::uint32_t> out(4 * 2 * kPhiloxLanes);
    philox(counter, kKey, 2 * kPhiloxLanes, out.data());
    const auto first = static_cast<std::int64_t>(4 * counter);
    const at::Tensor want = philox_words(
        at::arange(first, first + static_cast<std::int64_t>(out.size()), at::kLong), kKey);
    for (std::size_t i = 0; i < out.size(); ++i) {
      CHECK(want[static_cast<std::int64_t>(i)].item<std::int64_t>() == out[i]);
    }
  }
}

TEST_CASE("a part holds the numbers of the whole") {
  const Shape sizes{5, 7, 3};
  const Mesh* mesh = Mesh::get({2, 3}, {"a", "b"});
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf, at::kLong,
                                    at::kInt, at::kComplexDouble}) {
    for (const Distribution& draw : draws()) {
      if (at::isComplexType(type) && draw.kind != Distribution::Kind::normal) continue;
      const at::Tensor all = whole(sizes, type, draw);
      for (const char* text : {"S(0) S(1)", "S(1) S(1)", "S(2) R", "S(1; segments=3|4) S(0)"}) {
        const Layout* layout = parse_layout(mesh, text);
        for (int rank = 0; rank < 6; ++rank) {
          const Region region = region_of(layout, sizes, *mesh->coordinate(rank));
          at::Tensor part = at::empty(shape_of(region), type);
          fill_by_index(part, kKey, draw, sizes, region);
          at::Tensor want = all;
          for (std::size_t d = 0; d < region.size(); ++d) {
            std::vector<at::Tensor> pieces;
            for (const Interval& i : region[d]) {
              pieces.push_back(want.narrow(static_cast<std::int64_t>(d), i.begin, i.size()));
            }
            want = at::cat(pieces, static_cast<std::int64_t>(d));
          }
          CHECK(at::equal(part, want));
        }
      }
    }
  }
}

TEST_CASE("strides order the elements as memory does") {
  const Distribution draw{Distribution::Kind::normal, 0, 1};
  const at::Tensor rows = whole({4, 6}, at::kDouble, draw);
  at::Tensor out = at::empty({6, 4}, at::kDouble);
  fill_by_index(out, kKey, draw, {6, 4}, all_of({6, 4}), {1, 6});
  CHECK(at::equal(out.t(), rows));
  at::Tensor strided =
      at::empty({4, 6}, at::kDouble).t();  // the memory of `out` itself does not matter
  fill_by_index(strided, kKey, draw, {6, 4}, all_of({6, 4}));
  CHECK(at::equal(strided, rows.reshape({6, 4})));
}

TEST_CASE("ops of ATen give the numbers of the kernel") {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const int per_element = type == at::kDouble ? 2 : 1;
    const at::Tensor index = at::arange(1000, at::kLong);
    const at::Tensor uniform = whole({1000}, type, {Distribution::Kind::uniform, 0, 1});
    const at::Tensor low = philox_words(index * per_element, kKey);
    const at::Tensor want = type == at::kFloat
                                ? low.bitwise_right_shift(8).to(at::kFloat) * 0x1p-24F
                                : (philox_words(index * 2 + 1, kKey) * (std::int64_t{1} << 21) +
                                   low.bitwise_right_shift(11))
                                          .to(at::kDouble) *
                                      0x1p-53;
    CHECK(at::equal(uniform, want));
  }
}

TEST_CASE("numbers are distributed as they should") {
  // 200,000 numbers: the mean of a standard normal has a deviation of 0.0022; bounds are 5 of them.
  const Shape sizes{200000};
  const at::Tensor normal = whole(sizes, at::kDouble, {Distribution::Kind::normal, 0, 1});
  CHECK(std::abs(normal.mean().item<double>()) < 0.0112);
  CHECK(std::abs(normal.square().mean().item<double>() - 1) < 0.016);
  CHECK(std::abs(normal.pow(4).mean().item<double>() - 3) < 0.11);
  CHECK(std::abs((normal.slice(0, 0, -1) * normal.slice(0, 1)).mean().item<double>()) < 0.0112);
  const at::Tensor uniform = whole(sizes, at::kFloat, {Distribution::Kind::uniform, 0, 1});
  CHECK(uniform.min().item<float>() >= 0);
  CHECK(uniform.max().item<float>() < 1);
  CHECK(std::abs(uniform.mean().item<double>() - 0.5) < 0.0033);
  const at::Tensor exponential = whole(sizes, at::kDouble, {Distribution::Kind::exponential, 2});
  CHECK(std::abs(exponential.mean().item<double>() - 0.5) < 0.0056);
  const at::Tensor geometric = whole(sizes, at::kDouble, {Distribution::Kind::geometric, 0.25});
  CHECK(geometric.min().item<double>() == 1);
  CHECK(std::abs(geometric.mean().item<double>() - 4) < 0.039);
  const at::Tensor coins = whole(sizes, at::kFloat, {Distribution::Kind::bernoulli, 0.3});
  CHECK(std::abs(coins.mean().item<double>() - 0.3) < 0.0052);
  const at::Tensor integers = whole(sizes, at::kLong, {Distribution::Kind::integer, 0, 0, -3, 7});
  CHECK(integers.min().item<std::int64_t>() == -3);
  CHECK(integers.max().item<std::int64_t>() == 3);
  CHECK(std::abs(integers.to(at::kDouble).mean().item<double>()) < 0.0224);
  CHECK(
      !at::equal(normal, whole(sizes, at::kDouble, {Distribution::Kind::normal, 0, 1}, kKey + 1)));
}

}  // namespace hyper_parallel::torch_layer
