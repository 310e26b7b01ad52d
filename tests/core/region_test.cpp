#include "hyper_parallel/core/region.h"

#include <doctest/doctest.h>

#include "hyper_parallel/core/text.h"

namespace hyper_parallel {
namespace {

using Intervals = std::vector<Interval>;

TEST_CASE("regions: what a rank holds, neighbours joined") {
  const Layout* rows = parse_layout("a=3: S(0)");
  CHECK(region_of(rows, {7, 2}, std::vector<int>{0}) == Region{{{0, 3}}, {{0, 2}}});
  CHECK(region_of(rows, {7, 2}, std::vector<int>{2}) == Region{{{6, 7}}, {{0, 2}}});
  // Fewer rows than ranks: the last holds nothing.
  CHECK(region_of(rows, {2, 2}, std::vector<int>{2}) == Region{{{0, 0}}, {{0, 2}}});
  const Layout* fused = parse_layout("a=2: S(0; segments=4|2)");
  CHECK(region_of(fused, {6}, std::vector<int>{1}) == Region{{{2, 4}, {5, 6}}});
  CHECK(region_of(fused, {6}, std::vector<int>{0}) == Region{{{0, 2}, {4, 5}}});
}

TEST_CASE("regions: intersections") {
  const Region a{{{0, 4}, {6, 8}}, {{0, 3}}};
  const Region b{{{3, 7}}, {{1, 9}}};
  CHECK(intersect(a, b) == Region{{{3, 4}, {6, 7}}, {{1, 3}}});
  CHECK(intersect(a, b) == intersect(b, a));
  CHECK(intersect(a, a) == a);
  CHECK(numel_of(intersect(a, Region{{{4, 6}}, {{0, 3}}})) == 0);
}

TEST_CASE("regions: places in what a rank holds") {
  const Region whole{{{2, 4}, {6, 9}}};
  CHECK(places(Region{{{3, 4}}}, whole) == Region{{{1, 2}}});
  CHECK(places(Region{{{7, 9}}}, whole) == Region{{{3, 5}}});
  // What is apart in the tensor is side by side in the part.
  CHECK(places(Region{{{3, 4}, {6, 7}}}, whole) == Region{{{1, 3}}});
  CHECK(places(whole, whole) == Region{{{0, 5}}});
  CHECK(places(Region{{{0, 0}}}, whole)[0][0].size() == 0);
}

TEST_CASE("regions: shapes and counts") {
  const Region region{{{2, 4}, {6, 9}}, {{0, 3}}};
  CHECK(shape_of(region) == Shape{5, 3});
  CHECK(numel_of(region) == 15);
  CHECK(numel_of({}) == 1);
}

}  // namespace
}  // namespace hyper_parallel
