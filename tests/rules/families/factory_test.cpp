#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("FactoryRules") {
  TEST_CASE("LikesKeepTheLayoutAndDropPartials") {
    CHECK(forward("aten::zeros_like", "a=2 b=2", {"f32[8, 6] S(1) P(sum)"}) ==
          "S(1) P(sum) -> S(1) R");
    CHECK(forward("aten::empty_like", "x=2", {"f32[8, 6]"}) == "R -> R");
    // One rank holds it, the other nothing: so it is for the result.
    CHECK(forward("aten::ones_like", "x=2", {"f32[1, 6] S(0)"}) == "S(0) -> S(0)");
    const Call c = call("aten::zeros_like", "a=2 b=2", {"f32[8, 6] S(1) P(sum)"});
    CHECK(infer_forward(rule(c), c).bytes == 0);
  }

  TEST_CASE("NewOnesOfTheSameSizesKeepTheLayout") {
    CHECK(forward("aten::new_ones", "x=2", {"f32[8, 6] S(1)"}, {{"size", Ints{8, 6}}}) ==
          "S(1) -> S(1)");
    CHECK(forward("aten::new_ones", "x=2", {"f32[8, 6] S(1)"}, {{"size", Ints{6}}}) == "S(1) -> R");
    CHECK(forward("aten::new_empty_strided", "x=2", {"f32[8, 6] S(1)"},
                  {{"size", Ints{8, 6}}, {"stride", Ints{1, 8}}}) == "S(1) -> R");
  }

  TEST_CASE("OverwritingAPartialInPlaceIsRefusedExceptByZeros") {
    CHECK(forward("aten::fill_.Scalar", "x=2", {"!f32[8] S(0)"}) == "S(0) -> S(0)");
    CHECK(forward("aten::zero_", "x=2", {"!f32[8] P(sum)"}) == "P(sum) -> P(sum)");
    CHECK(error([] {
            forward("aten::fill_.Scalar", "x=2", {"!f32[8] P(sum)"});
          }).starts_with("[HP-S030] aten::fill_.Scalar"));
  }

  TEST_CASE("NegativeSizesAreRefused") {
    CHECK(error([] { forward("aten::new_ones", "x=2", {"f32[8] R"}, {{"size", Ints{4, -2}}}); }) ==
          "[HP-S005] aten::new_ones: a result would have a negative size\n  sizes  [4, -2]");
  }

  TEST_CASE("CopiesTakeTheLayoutOfTheDestination") {
    CHECK(forward("aten::copy_", "x=2", {"!f32[8, 6] S(0)", "f32[6] S(0)"}) == "S(0), R -> S(0)");
    CHECK(forward("aten::copy_", "x=2", {"!f32[8, 6] R", "f32[8, 6] P(sum)"}) == "R, R -> R");
    CHECK(forward("aten::copy_", "x=2", {"!f32[8, 6] P(sum)", "f32[8, 6] P(sum)"}) ==
          "P(sum), P(sum) -> P(sum)");
    CHECK(forward("aten::copy_", "x=2", {"!f32[8, 6] S(1)", "f32[8, 6]"}) == "S(1), S(1) -> S(1)");
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::zeros_like", {"f32[8, 16]"}) == "#d0 d1 -> d0 d1 {d0=8, d1=16}");
    CHECK(printed("aten::new_zeros", {"f32[8, 16]"}, {{"size", Ints{8, 16}}}) ==
          "#d0 d1 -> d0 d1 {d0=8, d1=16}; size:=shape 0");
    CHECK(printed("aten::copy", {"f32[8, 16]", "f32[8, 16]"}) ==
          "d0 d1, *d0 d1 -> d0 d1 {d0=8, d1=16}; any");
  }
}

}  // namespace hyper_parallel::rules::test
