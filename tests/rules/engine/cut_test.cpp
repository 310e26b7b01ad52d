// Dims made of several factors, and back.

#include "hyper_parallel/rules/engine/cut.h"

#include <random>

#include "hyper_parallel/core/text.h"
#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

const Mesh* mesh() { return Mesh::get({2, 3}, {"a", "b"}); }

// A tensor of one dim made of factors of these sizes.
struct OneDim {
  ConcreteRule rule;
  TensorMap map;
};

OneDim one_dim(const Shape& sizes) {
  OneDim out;
  out.map.dims.emplace_back();
  std::int64_t size = 1;
  for (std::int64_t s : sizes) {
    Factor f;
    f.name = "f" + std::to_string(out.rule.factors.size());
    f.size = s;
    out.map.dims[0].push_back(static_cast<int>(out.rule.factors.size()));
    out.rule.factors.push_back(f);
    size *= s;
  }
  out.map.sizes = {size};
  return out;
}

std::string composed(const OneDim& d, const std::vector<FactorSplit>& cuts) {
  const auto split = compose(d.rule, d.map, 0, cuts, mesh());
  if (!split) return "none";
  if (split->axes.empty()) return "whole";
  return Layout::get(mesh(), std::vector<Split>{*split})->to_string();
}

FactorSplit by(std::vector<int> axes, std::int64_t block = 1, Shape segments = {}) {
  return {std::move(axes), block, std::move(segments)};
}

}  // namespace

TEST_SUITE("FactorCuts") {
  TEST_CASE("AMajorFactorIsCutInBlocks") {
    CHECK(composed(one_dim({4, 3}), {by({0}), by({})}) == "S(0) R");
    CHECK(composed(one_dim({4, 3}), {by({1}), by({})}) == "R S(0; block=3)");
    CHECK(composed(one_dim({4, 3, 5}), {by({1}), by({}), by({})}) == "R S(0; block=15)");
    CHECK(composed(one_dim({4, 3}), {by({}), by({})}) == "whole");
  }

  TEST_CASE("AMinorFactorIsSegmented") {
    CHECK(composed(one_dim({2, 6}), {by({}), by({0})}) == "S(0; segments=6|6) R");
    CHECK(composed(one_dim({2, 3, 5}), {by({}), by({0}), by({})}) ==
          "S(0; block=5; segments=15|15) R");
    CHECK(composed(one_dim({1, 6}), {by({}), by({0})}) == "S(0) R");
    CHECK(composed(one_dim({300, 6}), {by({}), by({0})}) == "none");
  }

  TEST_CASE("BothOnlyIfTheMajorIsFullySplit") {
    CHECK(composed(one_dim({2, 6}), {by({0}), by({1})}) == "S(0) S(0)");
    CHECK(composed(one_dim({3, 6}), {by({1}), by({0})}) == "S(0, 1) S(0, 0)");
    CHECK(composed(one_dim({4, 6}), {by({0}), by({1})}) == "none");
    CHECK(composed(one_dim({2, 6, 7}), {by({0}), by({1}), by({})}) == "S(0) S(0)");
    CHECK(composed(one_dim({2, 4, 7}), {by({0}), by({1}), by({})}) == "S(0; block=7) S(0)");
    CHECK(composed(one_dim({2, 5, 6}), {by({0}), by({}), by({1})}) == "none");
  }

  TEST_CASE("BlocksAndSegmentsOfAFactorScale") {
    CHECK(composed(one_dim({8, 3}), {by({1}, 2), by({})}) == "R S(0; block=6)");
    CHECK(composed(one_dim({8, 3}), {by({0}, 1, {6, 2}), by({})}) == "S(0; segments=18|6) R");
    CHECK(composed(one_dim({2, 6}), {by({}), by({0}, 1, {4, 2})}) == "S(0; segments=4|2|4|2) R");
  }

  TEST_CASE("ReadingIsTheReverseOfComposing") {
    std::mt19937 random(1);
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    int compared = 0;
    for (int round = 0; round < 3000; ++round) {
      const OneDim d = one_dim({pick(5) + 1, pick(5) + 1, pick(4) + 1});
      std::vector<FactorSplit> cuts(3);
      const int first = pick(3);
      cuts[static_cast<std::size_t>(first)].axes.push_back(pick(2));
      if (pick(2) == 0) {
        const int other = 1 - cuts[static_cast<std::size_t>(first)].axes[0];
        cuts[static_cast<std::size_t>(pick(3))].axes.push_back(other);
      }
      const auto split = compose(d.rule, d.map, 0, cuts, mesh());
      if (!split || split->axes.empty()) continue;
      const Reading reading = decompose(d.rule, d.map, *split, mesh());
      CAPTURE(hyper_parallel::to_string(d.map.sizes));
      REQUIRE(reading.exact);
      std::vector<FactorSplit> read(3);
      for (const auto& [factor, cut] : reading.cuts) read[static_cast<std::size_t>(factor)] = cut;
      const auto again = compose(d.rule, d.map, 0, read, mesh());
      REQUIRE(again);
      REQUIRE(same_cut(*split, *again, mesh(), d.map.sizes[0]));
      ++compared;
    }
    CHECK(compared > 1000);
  }

  TEST_CASE("BoundariesThatMissAreToldApart") {
    const OneDim d = one_dim({3, 2});
    const Reading reading = decompose(d.rule, d.map, Split{.dim = 0, .axes = {0}}, mesh());
    CHECK_FALSE(reading.exact);  // 3 + 3 of 6, the factor wants 4 + 2
    REQUIRE(reading.cuts.size() == 1);
    CHECK(reading.cuts[0].first == 0);
  }

  TEST_CASE("SameCut") {
    const Split plain{.dim = 0, .axes = {0}};
    const Split blocks{.dim = 0, .axes = {0}, .block = 2};
    CHECK(same_cut(plain, blocks, mesh(), 8));
    CHECK_FALSE(same_cut(plain, blocks, mesh(), 6));
    CHECK_FALSE(same_cut(plain, Split{.dim = 0, .axes = {1}}, mesh(), 6));
  }

  TEST_CASE("EmptyPieces") {
    CHECK_FALSE(leaves_empty(by({1}), mesh(), 3));
    CHECK(leaves_empty(by({1}), mesh(), 2));
    CHECK(leaves_empty(by({1}), mesh(), 4));  // 2 + 2 + 0
    CHECK(leaves_empty(by({1}, 4), mesh(), 8));
    CHECK(leaves_empty(by({0, 1}), mesh(), 5));
  }
}

}  // namespace hyper_parallel::rules::test
