#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

Attrs dim(std::int64_t d) { return {{"dim", d}}; }

}  // namespace

TEST_SUITE("JoinRules") {
  TEST_CASE("OtherDimsPass") {
    CHECK(forward("aten::cat", "x=2", {"{f32[4, 6] S(0); f32[4, 2] R}"}, dim(1)) ==
          "S(0), S(0) -> S(0)");
    CHECK(forward("aten::stack", "x=2", {"{f32[4, 6] S(0); f32[4, 6] S(0)}"}, dim(0)) ==
          "S(0), S(0) -> S(1)");
    CHECK(forward("aten::unbind.int", "x=2", {"f32[3, 6] S(1)"}, dim(0)) ==
          "S(1) -> S(0), S(0), S(0)");
    CHECK(forward("aten::unbind.int", "x=3", {"f32[3, 6] S(0)"}, dim(0)) == "R -> R, R, R");
  }

  TEST_CASE("PartsJoinToSegments") {
    CHECK(forward("aten::cat", "x=2", {"{f32[4, 8] S(1); f32[4, 4] S(1)}"}, dim(-1)) ==
          "S(1), S(1) -> S(1; segments=8|4)");
    // A part of one index cannot be split, so none is.
    CHECK(forward("aten::cat", "x=2", {"{f32[4, 8] S(1); f32[4, 1] R}"}, dim(1)) == "R, R -> R");
  }

  TEST_CASE("SegmentsSplitToParts") {
    const std::string fused = "f32[4, 16, 48] S(2; segments=32|8|8)";
    CHECK(forward("aten::split_with_sizes", "tp=4", {fused},
                  {{"split_sizes", Ints{32, 8, 8}}, {"dim", std::int64_t{-1}}}) ==
          "S(2; segments=32|8|8) -> S(2), S(2), S(2)");
    // A plain split gives ranks other indices than the parts need.
    CHECK(forward("aten::split_with_sizes", "tp=4", {"f32[4, 16, 48] S(2)"},
                  {{"split_sizes", Ints{32, 8, 8}}, {"dim", std::int64_t{-1}}}) == "R -> R, R, R");
    CHECK(forward("aten::chunk", "tp=2", {"f32[4, 12] S(1; segments=4|4|4)"},
                  {{"chunks", std::int64_t{3}}, {"dim", std::int64_t{1}}}) ==
          "S(1; segments=4|4|4) -> S(1), S(1), S(1)");
    CHECK(forward("aten::split.Tensor", "tp=2", {"f32[4, 10] S(1; segments=4|4|2)"},
                  {{"split_size", std::int64_t{4}}, {"dim", std::int64_t{1}}}) ==
          "S(1; segments=4|4|2) -> S(1), S(1), S(1)");
    CHECK(forward("aten::glu", "tp=2", {"f32[4, 12] S(1; segments=6|6)"}, dim(1)) ==
          "S(1; segments=6|6) -> S(1)");
  }

  TEST_CASE("PieceLengthsAreRewritten") {
    const Call c = call("aten::split_with_sizes", "tp=4", {"f32[48] S(0; segments=32|8|8)"},
                        {{"split_sizes", Ints{32, 8, 8}}, {"dim", std::int64_t{0}}});
    const ConcreteRule r = rule(c);
    REQUIRE(r.rewrites.size() == 1);
    CHECK(r.rewrites[0].kind == Rewrite::Kind::local_sizes);
  }

  TEST_CASE("PiecesThatWouldBeEmptyAreNotSplit") {
    // Two indices over four ranks: the local split would give fewer pieces.
    CHECK(forward("aten::split.Tensor", "tp=4", {"f32[6] S(0; segments=2|2|2)"},
                  {{"split_size", std::int64_t{2}}, {"dim", std::int64_t{0}}}) == "R -> R, R, R");
  }

  TEST_CASE("PartialOperandsJoin") {
    CHECK(forward("aten::cat", "x=2", {"{f32[4] P(sum); f32[4] P(sum)}"}, dim(0)) ==
          "P(sum), P(sum) -> P(sum)");
    CHECK(forward("aten::cat", "x=2", {"{f32[4] P(sum); f32[4] R}"}, dim(0)) == "R, R -> R");
    // What ranks share is its own maximum; passing pays where the part that is not partial is
    // short.
    CHECK(forward("aten::stack", "x=2", {"{f32[4] P(max); f32[4] P(max)}"}, dim(0)) ==
          "P(max), P(max) -> P(max)");
  }

  TEST_CASE("OldEmptyOperandsAreSkipped") {
    CHECK(forward("aten::cat", "x=2", {"{f32[0]; f32[4, 6] S(0)}"}, dim(1)) == "R, S(0) -> S(0)");
    CHECK(result_sizes("aten::cat", {"{f32[0]; f32[4, 6]}"}, dim(1)) == "[4, 6]");
  }

  TEST_CASE("BadCallsAreNamed") {
    CHECK(error([] {
            forward("aten::cat", "x=2", {"{f32[4, 6] R; f32[5, 6] R}"}, dim(1));
          }).starts_with("[HP-S002] aten::cat: operand \"arg0[1]\": dim 0 has size 5"));
    CHECK(error([] {
            forward("aten::split_with_sizes", "x=2", {"f32[6] R"},
                    {{"split_sizes", Ints{2, 2}}, {"dim", std::int64_t{0}}});
          }).starts_with("[HP-S009] aten::split_with_sizes: the pieces sum to 4"));
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::cat", {"{f32[8, 16]; f32[4, 16]}"}) ==
          "*p=8 d1, *1 p d1 -> p=8|4 d1 {d1=16, p=4 plain}; any");
    CHECK(printed("aten::block_diag", {"{f32[8, 16]; f32[4, 8]}"}) ==
          "*r=8 c=16, *1 r c -> r=8|4 c=16|8 {r=4 plain, c=8 plain}; any");
    CHECK(printed("aten::_chunk_cat", {"{f32[8, 16]; f32[8, 4]}"},
                  {{"dim", std::int64_t{1}}, {"num_chunks", std::int64_t{2}}}) ==
          "*d0 _=16, *1 d0 _=4 -> d0 _=2 _=10 {d0=8}; any, filled");
    CHECK(printed("aten::stack", {"{f32[8, 16]; f32[8, 16]}"}) ==
          "*d0 d1, *1 d0 d1 -> _=2 d0 d1 {d0=8, d1=16}; any");
    CHECK(
        printed("aten::split.sizes", {"f32[8, 16]"}, {{"split_sizes", Ints{2, 6}}}) ==
        "*p=2|6 d1 -> p d1, p=6 d1 {d1=16, p=2 nonempty plain}; any, view, split_sizes:=lengths 0");
    CHECK(printed("aten::chunk", {"f32[8, 16]"}, {{"chunks", std::int64_t{2}}}) ==
          "*p=4|4 d1 -> p d1, p d1 {d1=16, p=4 nonempty plain}; any, view");
    CHECK(printed("aten::unbind.int", {"f32[2, 16]"}) ==
          "*d0! d1 -> d1, d1 {d0=2, d1=16}; any, view");
    CHECK(printed("aten::glu", {"f32[8, 16]"}, {{"dim", std::int64_t{1}}}) ==
          "d0 p=8|8 -> d0 p {d0=8, p=8 plain}; any");
  }
}

}  // namespace hyper_parallel::rules::test
