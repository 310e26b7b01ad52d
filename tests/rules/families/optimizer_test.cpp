#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("ListOpRules") {
  TEST_CASE("EachElementHasItsOwnStrategy") {
    CHECK(forward(
              "aten::_foreach_add.List", "x=2",
              {"{f32[8] S(0); f32[4, 6] S(1); f32[3] R}", "{f32[8] R; f32[4, 6] S(0); f32[3]}"}) ==
          "S(0), S(1), R, S(0), S(1), R -> S(0), S(1), R");
    CHECK(forward("aten::_foreach_mul_.Scalar", "x=2", {"{!f32[8] S(0); !f32[4] P(sum)}"}) ==
          "S(0), P(sum) -> ");
    CHECK(forward("aten::_foreach_mul_.Tensor", "x=2", {"{!f32[8] S(0); !f32[4] R}", "f32[]"}) ==
          "S(0), R, R -> ");
    CHECK(forward("aten::_foreach_sqrt", "x=2", {"{f32[8] S(0); f32[4] P(sum)}"}) ==
          "S(0), R -> S(0), R");
  }

  TEST_CASE("OneNumberForAllElementsHasOneLayout") {
    // R + P would have it R, P + P would keep it P.
    CHECK(forward("aten::_foreach_add.Tensor", "x=2",
                  {"{f32[8] R; f32[4] P(sum)}", "f32[] P(sum)"}) == "R, R, R -> R, R");
    CHECK(error([] {
            forward("aten::_foreach_add_.Tensor", "x=2",
                    {"{!f32[8] R; !f32[4] P(sum)}", "f32[] R"});
          }).starts_with("[HP-S030]"));
  }

  TEST_CASE("NormsOfSplitGradientsAreFinished") {
    const Call c = call("aten::_foreach_norm.Scalar", "x=2", {"{f32[800] S(0); f32[4] R}"});
    const Inference inference = infer_forward(rule(c), c);
    CHECK(answer(inference) == "S(0), R -> R, R ~each");
    REQUIRE(inference.parts.size() == 2);
    CHECK(inference.parts[0].handler == "norm");
    CHECK(inference.parts[1].handler.empty());
  }

  TEST_CASE("FusedStepsFollowTheParameter") {
    const std::vector<std::string> step = {"{!f32[8] S(0); !f32[4] R}",    // parameters
                                           "{!f32[8] R; !f32[4] P(sum)}",  // gradients
                                           "{!f32[8] S(0); !f32[4] R}",
                                           "{!f32[8] S(0); !f32[4] R}",
                                           "{}",
                                           "{f32[]; f32[]}",
                                           "-",
                                           "-"};
    CHECK(forward("aten::_fused_adamw_", "x=2", step) ==
          "S(0), R, S(0), R, S(0), R, S(0), R, R, R, -, - ->  ~fused");
  }

  TEST_CASE("ListsMustHaveOneLength") {
    CHECK(error([] {
            forward("aten::_foreach_add.List", "x=2", {"{f32[8] R; f32[8] R}", "{f32[8] R}"});
          }).starts_with("[HP-S011] aten::_foreach_add.List: lists of different lengths"));
  }

  TEST_CASE("SingleTensorSteps") {
    CHECK(forward("aten::addcdiv_", "x=2", {"!f32[8] S(0)", "f32[8] S(0)", "f32[8] S(0)"}) ==
          "S(0), S(0), S(0) -> S(0)");
    CHECK(forward("aten::lerp_.Scalar", "x=2", {"!f32[8] S(0)", "f32[8] R"}) ==
          "S(0), S(0) -> S(0)");
    CHECK(forward("aten::addcmul_", "x=2", {"!f32[8] S(0)", "f32[8] P(sum)", "f32[8] P(sum)"}) ==
          "S(0), S(0), S(0) -> S(0)");
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::_foreach_add.List", {"{f32[8, 16]; f32[4]}", "{f32[8, 16]; f32[4]}"}) ==
          "[0 2 -> 0] *d0 d1, *1 d0 d1 -> d0 d1 {d0=8, d1=16}\n"
          "[1 3 -> 1] *d0, *1 d0 -> d0 {d0=4}");
  }
}

}  // namespace hyper_parallel::rules::test
