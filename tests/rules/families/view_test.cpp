#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

std::string view(const std::string& from, Ints to, std::string_view mesh = "x=2") {
  return forward("aten::view", mesh, {from}, {{"size", std::move(to)}});
}

}  // namespace

TEST_SUITE("ViewRules") {
  TEST_CASE("SizesMayLeaveOneOpen") {
    CHECK(result_sizes("aten::view", {"f32[2, 16, 64]"}, {{"size", Ints{2, 16, -1, 16}}}) ==
          "[2, 16, 4, 16]");
    CHECK(result_sizes("aten::reshape", {"f32[0, 4]"}, {{"shape", Ints{0, 2, 2}}}) == "[0, 2, 2]");
    CHECK(error([] { view("f32[2, 16] R", {3, -1}); }) ==
          "[HP-S008] aten::view: the sizes do not hold the same number of elements\n"
          "  from  f32[2, 16]\n"
          "  to    [3, -1]");
  }

  TEST_CASE("TheTableIsTheFactorisation") {
    CHECK(table("aten::view", {"f32[4, 12]"}, {{"size", Ints{4, 3, 4}}}) ==
          "R -> R\n"
          "S(0) -> S(0)    d0\n"
          "S(1; block=4) -> S(1)    d1\n"
          "S(1; segments=4|4|4) -> S(2)    d2\n"
          "P(sum) -> P(sum)\n"
          "P(avg) -> P(avg)\n"
          "P(max) -> P(max)\n"
          "P(min) -> P(min)\n"
          "P(prod) -> P(prod)");
  }

  TEST_CASE("HeadsStaySplit") {
    CHECK(view("f32[2, 16, 64] S(0) S(2)", {2, 16, -1, 16}, "dp=2 tp=4") ==
          "S(0) S(2) -> S(0) S(2)");
    CHECK(view("f32[2, 16, 4, 16] S(0) S(2)", {2, 16, 64}, "dp=2 tp=4") ==
          "S(0) S(2) -> S(0) S(2)");
  }

  TEST_CASE("MergedDimsKeepAMajorSplit") {
    CHECK(view("f32[4, 6, 8] S(0)", {24, 8}) == "S(0) -> S(0)");
    CHECK(view("f32[3, 6, 8] S(0)", {18, 8}) == "S(0) -> S(0; block=6)");  // 2 and 1 of 3
  }

  TEST_CASE("MergedDimsSplitOnTheMinorAreSegmented") {
    CHECK(view("f32[3, 6] S(1)", {18}) == "S(1) -> S(0; segments=6|6|6)");
    CHECK(view("f32[18] S(0; segments=6|6|6)", {3, 6}) == "S(0; segments=6|6|6) -> S(1)");
    // More copies than a layout may list: the split moves to the major dim.
    CHECK(view("f32[300, 4] S(1)", {1200}) == "S(0) -> S(0)");
  }

  TEST_CASE("AMinorSplitsOnlyBelowAFullySplitMajor") {
    CHECK(view("f32[2, 16, 64] S(0) S(1)", {32, 64}, "dp=2 tp=4") == "S(0) S(1) -> S(0) S(0)");
    CHECK(view("f32[32, 64] S(0) S(0)", {2, 16, 64}, "dp=2 tp=4") == "S(0) S(0) -> S(0) S(1)");
    // Two of four: tp cannot stay on the minor dim. Moving it to the major one beats a gather.
    CHECK(view("f32[8, 16, 64] S(0) S(1)", {128, 64}, "dp=2 tp=4") == "S(0) S(0) -> S(0) S(0)");
    // Four rows over eight ranks: half of them would hold nothing, the others receive 3/16 of the
    // tensor; a gather over dp moves 1/8.
    CHECK(view("f32[4, 16, 64] S(0) S(1)", {64, 64}, "dp=2 tp=4") ==
          "R S(1) -> R S(0; segments=16|16|16|16)");
  }

  TEST_CASE("BoundariesThatMissTheFactorsAreMoved") {
    CHECK(view("f32[6] S(0)", {3, 2}) == "S(0; block=2) -> S(0)");
    CHECK(view("f32[6] S(0)", {2, 3}) == "S(0) -> S(0)");
  }

  TEST_CASE("ShapesThatDoNotNestShareWhatTheyCan") {
    CHECK(view("f32[6, 4] S(0)", {4, 6}) == "S(0) -> S(0)");  // a common factor 2
    CHECK(view("f32[3, 4] S(0)", {4, 3}) == "R -> R");
    CHECK(view("f32[4, 6, 5] S(0)", {8, 15}) == "S(0) -> S(0)");
    CHECK(view("f32[4, 6, 5] S(2)", {8, 15}) == "S(2) -> S(1; segments=5|5|5)");
  }

  TEST_CASE("FlattenNeedsNoSizes") {
    CHECK(forward("aten::flatten.using_ints", "x=2", {"f32[2, 3, 4] S(0)"},
                  {{"start_dim", std::int64_t{0}}, {"end_dim", std::int64_t{-1}}}) ==
          "S(0) -> S(0)");
  }

  TEST_CASE("TheLocalShapeIsRewritten") {
    const Call c = call("aten::view", "x=2", {"f32[4, 6] S(0)"}, {{"size", Ints{24}}});
    const ConcreteRule r = rule(c);
    REQUIRE(r.rewrites.size() == 1);
    CHECK(r.rewrites[0].kind == Rewrite::Kind::local_shape);
    CHECK(r.rewrites[0].argument == "size");
    CHECK(r.aliases);
  }

  TEST_CASE("Reverse") {
    CHECK(backward("aten::view", "dp=2 tp=4", {"f32[2, 16, 64] R R"}, {"S(0) S(2)"},
                   {{"size", Ints{2, 16, 4, 16}}}) == "S(0) S(2) -> S(0) S(2)");
    CHECK(backward("aten::view", "tp=2", {"f32[2, 12] R"}, {"S(2)"}, {{"size", Ints{2, 3, 4}}}) ==
          "S(1; segments=4|4|4) -> S(2)");
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::view", {"f32[8, 16]"},
                  {{"size", Ints{8, 4, 4}}, {"shape", Ints{8, 4, 4}}}) ==
          "*d0 (d1 d2) -> d0 d1 d2 {d0=8, d1=4, d2=4}; any, view, size:=shape 0");
    CHECK(
        printed("aten::flatten.using_ints", {"f32[8, 4, 16]"}, {{"start_dim", std::int64_t{1}}}) ==
        "*d0 d1 d2 -> d0 (d1 d2) {d0=8, d1=4, d2=16}; any, view");
  }
}

}  // namespace hyper_parallel::rules::test
