#include "hyper_parallel/core/layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "hyper_parallel/core/text.h"
#include "tests/core/support.h"
#include "tests/support/simulator.h"

namespace hyper_parallel::test {
namespace {

using Ints = std::vector<int>;
using Sizes = std::vector<std::int64_t>;

const Mesh* mesh24() { return Mesh::get({2, 4}, {"dp", "tp"}); }

const Layout* lay(std::string_view text) { return parse_layout(mesh24(), text); }

// Cut a list of indices as the header says: by axes in order, in chunks of ceil(count / ranks).
std::vector<Sizes> chunks(const Sizes& blocks, int ways) {
  const std::size_t chunk =
      (blocks.size() + static_cast<std::size_t>(ways) - 1) / static_cast<std::size_t>(ways);
  std::vector<Sizes> out;
  for (int i = 0; i < ways; ++i) {
    Sizes part;
    for (std::size_t k = 0; k < chunk; ++k) {
      const std::size_t at = static_cast<std::size_t>(i) * chunk + k;
      if (at < blocks.size()) part.push_back(blocks[at]);
    }
    out.push_back(part);
  }
  return out;
}

// The indices that a rank holds, found by cutting lists of block numbers.
Sizes by_lists(const Split& split, const Mesh* mesh, std::int64_t size, const Ints& at) {
  Sizes out;
  std::int64_t start = 0;
  for (std::int64_t length : split.segments.empty() ? Sizes{size} : split.segments) {
    Sizes blocks(static_cast<std::size_t>((length + split.block - 1) / split.block));
    std::iota(blocks.begin(), blocks.end(), 0);
    for (int axis : split.axes) {
      blocks = chunks(
          blocks, mesh->size(axis))[static_cast<std::size_t>(at[static_cast<std::size_t>(axis)])];
    }
    for (std::int64_t block : blocks) {
      for (std::int64_t i = block * split.block; i < std::min((block + 1) * split.block, length);
           ++i) {
        out.push_back(start + i);
      }
    }
    start += length;
  }
  return out;
}

Sizes listed(const std::vector<Interval>& intervals) {
  Sizes out;
  for (const Interval& i : intervals) {
    for (std::int64_t k = i.begin; k < i.end; ++k) out.push_back(k);
  }
  return out;
}

}  // namespace

TEST_SUITE("Layout") {
  TEST_CASE("equal layouts are one object, however they were made") {
    const Mesh* mesh = mesh24();
    const Layout* a = lay("S(0) S(0)");
    CHECK(Layout::get(mesh, {Split{.dim = 0, .axes = {0, 1}}}) == a);
    CHECK(Layout::get(mesh, std::vector{Placement::shard(0), Placement::shard(0)}) == a);
    CHECK(Layout::from_names(mesh, {{"dp", "tp"}, {}}) == a);
    CHECK(Layout::replicated(mesh)->with(0, Placement::shard(0))->with(1, Placement::shard(0)) ==
          a);
    CHECK(a->hash() == Layout::get(mesh, {Split{.dim = 0, .axes = {0, 1}}})->hash());
    CHECK(Layout::replicated(mesh) == lay("R R"));
    CHECK(Layout::get(mesh, {Split{.dim = 0, .axes = {0}, .block = 0}}) == lay("S(0) R"));
    CHECK(Layout::get(mesh, {Split{.dim = 0, .axes = {0}, .segments = {8}}}) == lay("S(0) R"));
    CHECK(Layout::get(mesh, {Split{.dim = 1, .axes = {}}}) == lay("R R"));
  }

  TEST_CASE("what differs is another object") {
    std::vector<const Layout*> all;
    for (const char* text : {"R R", "S(0) R", "S(1) R", "R S(0)", "S(0) S(0)", "S(0, 1) S(0, 0)",
                             "P(sum) R", "P(max) R", "S(0; block=2) R", "S(0; block=3) R",
                             "S(0; segments=4|4) R", "S(0; segments=4|2|2) R"}) {
      all.push_back(lay(text));
    }
    all.push_back(parse_layout("dp=2 cp=4: R R"));
    std::sort(all.begin(), all.end());
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  }

  TEST_CASE("splits stand by dim, each with its axes from major to minor") {
    const Mesh* mesh = Mesh::get({2, 2, 2}, {"a", "b", "c"});
    const Layout* layout = parse_layout(mesh, "S(1, 1) S(0) S(1, 0)");
    REQUIRE(layout->splits().size() == 2);
    CHECK(layout->splits()[0].dim == 0);
    CHECK(layout->splits()[1].axes == Ints{2, 0});
    CHECK(layout->axes(1) == Ints{2, 0});
    CHECK(layout->axes(2).empty());
    CHECK(layout->split(2) == nullptr);
    CHECK(layout->max_dim() == 1);
    CHECK(Layout::replicated(mesh)->max_dim() == -1);
    CHECK(layout->placement(1) == Placement::shard(0));
  }

  TEST_CASE("an axis of one rank is R") {
    const Mesh* mesh = Mesh::get({1, 2}, {"a", "b"});
    const std::vector<Placement> placements = {Placement::shard(0), Placement::shard(0)};
    CHECK(Layout::get(mesh, placements)->to_string() == "R S(0)");
    CHECK(Layout::replicated(mesh)->with(0, Placement::partial()) == Layout::replicated(mesh));
  }

  TEST_CASE("copies and pending values") {
    CHECK(lay("R R")->replicas() == 8);
    CHECK(lay("S(0) R")->replicas() == 4);
    CHECK(lay("S(0) P(sum)")->replicas() == 1);
    CHECK(lay("R R")->is_replicated());
    CHECK_FALSE(lay("P(sum) R")->is_replicated());
    CHECK(lay("S(0) P(max)")->has_partial());
    CHECK_FALSE(lay("S(0) S(1)")->has_partial());
  }

  TEST_CASE("with changes one axis") {
    CHECK(lay("S(0) R")->with(1, Placement::shard(0)) == lay("S(0) S(0)"));
    CHECK(lay("R S(0)")->with(0, Placement::shard(0)) == lay("S(0, 1) S(0, 0)"));  // the minor cut
    CHECK(lay("S(0) S(0)")->with(0, Placement::replicate()) == lay("R S(0)"));
    CHECK(lay("S(0) S(1)")->with(0, Placement::partial()) == lay("P(sum) S(1)"));
    CHECK(lay("P(max) S(1)")->with(0, Placement::shard(1)) == lay("S(1, 1) S(1, 0)"));
    CHECK(lay("S(0; block=4) S(0)")->with(1, Placement::replicate()) == lay("S(0; block=4) R"));
    CHECK(lay("P(max) P(max)")->with(1, Placement::replicate()) == lay("P(max) R"));
  }

  TEST_CASE("the dual swaps copies and sums, twice is the same") {
    CHECK(lay("R R")->dual() == lay("P(sum) P(sum)"));
    CHECK(lay("S(0) P(sum)")->dual() == lay("S(0) R"));
    CHECK(lay("S(0, 1) S(0, 0; block=4)")->dual() == lay("S(0, 1) S(0, 0; block=4)"));
    CHECK(lay("P(avg) S(0)")->dual() == lay("R S(0)"));
    for (const Layout* layout : all_layouts(mesh24(), 2, {ReduceOp::sum})) {
      CHECK(layout->dual()->dual() == layout);
    }
    for (const char* text : {"P(max) R", "R P(min)", "S(0) P(prod)"}) {
      CHECK(code([&] { lay(text)->dual(); }) == "UnsupportedError HP-G001");
    }
  }

  TEST_CASE("reduced makes pending axes R and leaves splits") {
    CHECK(lay("S(0; block=4) P(sum)")->reduced() == lay("S(0; block=4) R"));
    CHECK(lay("S(0) R")->reduced() == lay("S(0) R"));
    CHECK(lay("P(max) P(sum)")->reduced() == lay("R R"));
  }

  TEST_CASE("names of axes for each dim") {
    const Mesh* mesh = mesh24();
    CHECK(Layout::from_names(mesh, {}) == lay("R R"));
    CHECK(Layout::from_names(mesh, {{"None"}, {"tp", "dp"}}) == lay("S(1, 1) S(1, 0)"));
    CHECK(code([&] { Layout::from_names(mesh, {{"pp"}}); }) == "UsageError HP-M010");
    CHECK(code([&] { Layout::from_names(mesh, {{"dp"}, {"dp"}}); }) == "UsageError HP-L002");
  }

  TEST_CASE("what is no layout is refused") {
    const Mesh* mesh = mesh24();
    const auto splits = [&](std::vector<Split> given) {
      return code([&] { Layout::get(mesh, std::move(given)); });
    };
    const auto placements = [&](std::vector<Placement> given) {
      return code([&] { Layout::get(mesh, given); });
    };
    CHECK(splits({{.dim = 0, .axes = {0}}, {.dim = 1, .axes = {0}}}) == "UsageError HP-L002");
    CHECK(splits({{.dim = 0, .axes = {0, 0}}}) == "UsageError HP-L002");
    CHECK(splits({{.dim = 0, .axes = {0}}, {.dim = 0, .axes = {1}}}) == "UsageError HP-L004");
    CHECK(splits({{.dim = -1, .axes = {0}}}) == "UsageError HP-L004");
    CHECK(splits({{.dim = 0, .axes = {2}}}) == "UsageError HP-M010");
    CHECK(splits({{.dim = 0, .axes = {-1}}}) == "UsageError HP-M010");
    CHECK(splits({{.dim = 0, .axes = {0}, .segments = {9, -1}}}) == "UsageError HP-L007");
    CHECK(placements({Placement::replicate()}) == "UsageError HP-L003");
    CHECK(placements({Placement::shard(-1), Placement::replicate()}) == "UsageError HP-L004");
    CHECK(code([&] { Layout::get(mesh, std::vector<Split>{}, {ReduceOp::sum}); }) ==
          "UsageError HP-L003");
    CHECK(lay("R S(0)") ==
          Layout::get(mesh, {Split{.dim = 0, .axes = {1}}}, {std::nullopt, ReduceOp::sum}));
  }

  TEST_CASE("dims that count from the end become those of a tensor") {
    const Mesh* mesh = mesh24();
    const std::vector<Placement> given = {Placement::shard(-1), Placement::partial(ReduceOp::max)};
    CHECK(normalize(mesh, given, 3) ==
          std::vector{Placement::shard(2), Placement::partial(ReduceOp::max)});
    CHECK(code([&] { normalize(mesh, given, 0); }) == "UsageError HP-L005");
    CHECK(code([&] { normalize(mesh, std::vector{Placement::shard(0)}, 3); }) ==
          "UsageError HP-L003");
    const std::vector<Placement> past = {Placement::shard(2), Placement::replicate()};
    CHECK(starts(failure([&] { normalize(mesh, past, 2); }),
                 "UsageError [HP-L005] shard dim 2 is out of range for a tensor of 2 dims"));
  }
}

TEST_SUITE("Intervals") {
  TEST_CASE("every rank holds what cutting lists of indices gives") {
    const Mesh* mesh = Mesh::get({2, 3}, {"a", "b"});
    for (const Ints& axes : {Ints{0}, Ints{1}, Ints{0, 1}, Ints{1, 0}}) {
      for (std::int64_t size = 0; size <= 20; ++size) {
        for (std::int64_t block : {1, 2, 3, 5, 40}) {
          const std::vector<Sizes> segmented = {
              {}, {size, 0}, {0, size, 0}, {size / 2, size - size / 2}, {1, 2, size - 3}};
          for (const Sizes& segments : segmented) {
            if (!segments.empty() && segments.back() < 0) continue;
            const Split split = {.dim = 0, .axes = axes, .block = block, .segments = segments};
            Sizes all;
            bool even = true;
            std::size_t length = 0;
            for (const Ints& at : coordinates(mesh)) {
              const auto intervals = local_intervals(split, mesh, size, at);
              const Sizes indices = by_lists(split, mesh, size, at);
              REQUIRE(listed(intervals) == indices);
              REQUIRE(intervals.size() == std::max<std::size_t>(segments.size(), 1));
              const Layout* layout = Layout::get(mesh, {split});
              REQUIRE(local_size(layout, 0, size, at) == static_cast<std::int64_t>(indices.size()));
              REQUIRE(local_shape(layout, Sizes{size, 7}, at) ==
                      Sizes{static_cast<std::int64_t>(indices.size()), 7});
              if (at == Ints{0, 0}) length = indices.size();
              even &= indices.size() == length;
              all.insert(all.end(), indices.begin(), indices.end());
            }
            // Together they hold each index as often as there are copies.
            std::sort(all.begin(), all.end());
            Sizes want;
            for (std::int64_t i = 0; i < size; ++i) {
              want.insert(want.end(),
                          static_cast<std::size_t>(axes.size() == 2 ? 1 : 6 / mesh->size(axes[0])),
                          i);
            }
            REQUIRE(all == want);
            // is_even never says so where lengths differ.
            if (is_even(Layout::get(mesh, {split}), 0, size)) REQUIRE(even);
          }
        }
      }
    }
  }

  TEST_CASE("later chunks are shorter, then empty") {
    const Layout* layout = lay("R S(0)");
    const auto length = [&](std::int64_t size, int rank) {
      return local_size(layout, 0, size, Ints{0, rank});
    };
    CHECK(Sizes{length(10, 0), length(10, 1), length(10, 2), length(10, 3)} == Sizes{3, 3, 3, 1});
    CHECK(Sizes{length(5, 0), length(5, 1), length(5, 2), length(5, 3)} == Sizes{2, 2, 1, 0});
    CHECK(Sizes{length(1, 0), length(1, 1), length(1, 2), length(1, 3)} == Sizes{1, 0, 0, 0});
    CHECK(local_size(layout, 1, 10, Ints{0, 3}) == 10);
  }

  TEST_CASE("the second axis cuts each chunk of the first") {
    const Layout* layout = lay("S(0, 1) S(0, 0)");  // tp is major
    CHECK(local_intervals(layout, 0, 8, Ints{0, 1}) == std::vector<Interval>{{2, 3}});
    CHECK(local_intervals(layout, 0, 8, Ints{1, 1}) == std::vector<Interval>{{3, 4}});
  }

  TEST_CASE("a dim of parts gives an interval a part") {
    const Layout* layout = lay("S(0; segments=4|2|1) R");
    CHECK(local_intervals(layout, 0, 7, Ints{0, 0}) ==
          std::vector<Interval>{{0, 2}, {4, 5}, {6, 7}});
    CHECK(local_intervals(layout, 0, 7, Ints{1, 3}) ==
          std::vector<Interval>{{2, 4}, {5, 6}, {7, 7}});
    CHECK(code([&] { local_intervals(layout, 0, 8, Ints{0, 0}); }) == "UsageError HP-L006");
  }

  TEST_CASE("is_even asks every part and block") {
    CHECK(is_even(lay("R S(0)"), 0, 8));
    CHECK_FALSE(is_even(lay("R S(0)"), 0, 9));
    CHECK(is_even(lay("R S(0)"), 1, 9));
    CHECK_FALSE(is_even(lay("R S(0; block=4)"), 0, 8));
    CHECK(is_even(lay("R S(0; segments=4|8)"), 0, 12));
    CHECK_FALSE(is_even(lay("R S(0; segments=6|6)"), 0, 12));
  }

  TEST_CASE("a tensor without the dim is refused") {
    CHECK(code([] { local_shape(lay("S(2) R"), Sizes{4, 4}, Ints{0, 0}); }) ==
          "UsageError HP-L005");
  }

  TEST_CASE("lengths near the end of 64 bits") {
    constexpr std::int64_t kHuge = std::int64_t{1} << 62;
    const Layout* layout = lay("S(0) R");
    CHECK(local_size(layout, 0, kHuge, Ints{1, 0}) == kHuge / 2);
    CHECK(local_size(lay("S(0; block=281474976710656) R"), 0, 5, Ints{0, 0}) == 5);
  }
}

}  // namespace hyper_parallel::test
