// Reverse inference, and the layouts of cotangents.

#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("ReverseInference") {
  TEST_CASE("SplitsOfTheResultReachTheInputs") {
    CHECK(backward("aten::mm", "dp=2 tp=4", {"f32[8, 16] R R", "f32[16, 32] R R"}, {"S(0) S(1)"}) ==
          "S(0) R, R S(1) -> S(0) S(1)");
    CHECK(backward("aten::add.Tensor", "x=2", {"f32[8, 16] R", "f32[16] R"}, {"S(1)"}) ==
          "S(1), S(0) -> S(1)");
    CHECK(backward("aten::softmax.int", "x=2", {"f32[8, 16] R"}, {"S(0)"},
                   {{"dim", std::int64_t{1}}}) == "S(0) -> S(0)");
  }

  TEST_CASE("OrdersBlocksAndSegmentsAreKept") {
    CHECK(backward("aten::relu", "a=2 b=2", {"f32[8] R R"}, {"S(0, 1) S(0, 0)"}) ==
          "S(0, 1) S(0, 0) -> S(0, 1) S(0, 0)");
    CHECK(backward("aten::linear", "x=2", {"f32[4, 16] R", "f32[12, 16] R", "f32[12] R"},
                   {"S(1; segments=8|4)"}) ==
          "R, S(0; segments=8|4), S(0; segments=8|4) -> S(1; segments=8|4)");
  }

  TEST_CASE("APartialResultTakesTheSumThatIsSplit") {
    CHECK(backward("aten::mm", "dp=2 tp=4", {"f32[8, 16] R S(1)", "f32[16, 32] R R"},
                   {"S(0) P(sum)"}) == "S(0) S(1), R S(0) -> S(0) P(sum)");
    CHECK(backward("aten::mm", "x=2", {"f32[8, 16] P(sum)", "f32[16, 32] R"}, {"P(sum)"}) ==
          "P(sum), R -> P(sum)");
    CHECK(backward("aten::mm", "x=2", {"f32[8, 16] R", "f32[16, 32] R"}, {"P(sum)"}) ==
          "S(1), S(0) -> P(sum)");
  }

  TEST_CASE("AWholeResultNeedsWholeInputs") {
    CHECK(backward("aten::mm", "x=2", {"f32[8, 16] S(1)", "f32[16, 32] S(0)"}, {"R"}) ==
          "R, R -> R");
  }

  TEST_CASE("AResultThatSaysNothingLeavesTheInputs") {
    CHECK(backward("aten::mm", "x=2", {"f32[8, 16] S(0)", "f32[16, 32] R"}, {"-"}) ==
          "S(0), R -> S(0)");
  }

  TEST_CASE("ResultsWantedInWaysThatExcludeEachOtherAreWhole") {
    const Attrs norm = {{"normalized_shape", Ints{16}}};
    const std::vector<std::string> x = {"f32[8, 4, 16] R", "-", "-"};
    const auto want = [&](const std::vector<std::string>& results) {
      return backward("aten::native_layer_norm", "x=2", x, results, norm);
    };
    CHECK(want({"S(0)", "S(0)", "-"}) == "S(0), -, - -> S(0), S(0), S(0)");
    CHECK(want({"-", "S(1)", "-"}) == "S(1), -, - -> S(1), S(1), S(1)");
    CHECK(want({"S(0)", "S(1)", "-"}) == "R, -, - -> R, R, R");
    CHECK(want({"S(0)", "R", "-"}) == "R, -, - -> R, R, R");
    CHECK(want({"R", "S(0)", "-"}) == "R, -, - -> R, R, R");
  }

  TEST_CASE("WhatNoStrategyGivesIsMadeOfWholeInputs") {
    CHECK(backward("aten::relu", "x=2", {"f32[8] R"}, {"P(sum)"}) == "R -> R");
    CHECK(backward("aten::relu", "x=2 y=2", {"f32[8] R R"}, {"P(sum) S(0)"}) == "R S(0) -> R S(0)");
    CHECK(backward("aten::cummax", "x=2", {"f32[8, 4] R"}, {"S(0)", "S(1)"},
                   {{"dim", std::int64_t{0}}}) == "R -> R, R");
    // Of [2, 12] only whole rows of the second dim's copies can be split: not halves of 24.
    CHECK(backward("aten::repeat", "x=2", {"f32[12] R"}, {"S(0)"}, {{"repeats", Ints{2}}}) ==
          "R -> R");
  }

  TEST_CASE("ImpossibleResultsAreRefused") {
    CHECK(error([] {
            backward("aten::max", "x=4", {"f32[3] R"}, {"P(max)"});
          }).starts_with("[HP-S034] aten::max: no inputs give these results"));
    CHECK(error([] {
            backward("aten::relu", "x=2", {"f32[8] R"}, {});
          }).starts_with("[HP-S033] aten::relu: wrong number of result layouts"));
    CHECK(error([] {
            backward("aten::_foreach_add.Scalar", "x=2", {"{f32[8] R}"}, {"S(0)"});
          }).starts_with("[HP-S035]"));
  }
}

TEST_SUITE("Cotangents") {
  TEST_CASE("BroadcastBecomesPartial") {
    CHECK(grad("aten::mul.Tensor", "x=2", {"f32[8, 16] S(0)", "f32[16] R"}) == "S(0), P(sum)");
    CHECK(grad("aten::add.Tensor", "x=2", {"f32[8, 16] S(0)", "f32[1, 16] R"}) == "S(0), P(sum)");
  }

  TEST_CASE("PartialBecomesReplicated") {
    CHECK(grad("aten::add.Tensor", "x=2", {"f32[8] P(sum)", "f32[8] P(sum)"}) == "R, R");
    CHECK(grad("aten::mul.Tensor", "x=2", {"f32[8] P(sum)", "f32[8] R"}) == "R, P(sum)");
  }

  TEST_CASE("AnUnusedAxisFollowsTheResult") {
    // The dual of a replicated result is P(sum): each rank holds its own contribution.
    CHECK(grad("aten::mm", "x=2", {"f32[8, 16] R", "f32[16, 4] R"}) == "P(sum), P(sum)");
    const Call c = call("aten::mm", "x=2", {"f32[8, 16] R", "f32[16, 4] R"});
    const ConcreteRule r = rule(c);
    const Inference forward = infer_forward(r, c);
    const std::vector<const Layout*> whole = {Layout::replicated(c.mesh)};
    CHECK(infer_cotangents(r, c, forward, whole)[0] == Layout::replicated(c.mesh));
  }

  TEST_CASE("SplitContractions") {
    CHECK(grad("aten::mm", "dp=2 tp=4", {"f32[8, 16] S(0) S(1)", "f32[16, 32] R S(0)"}) ==
          "S(0) S(1), P(sum) S(0)");
  }

  TEST_CASE("AbsentAndShapeOnlyOperandsHaveNone") {
    CHECK(grad("aten::linear", "x=2", {"f32[8, 16] S(0)", "f32[4, 16] R", "-"}) ==
          "S(0), P(sum), -");
    CHECK(grad("aten::zeros_like", "x=2", {"f32[8] S(0)"}) == "-");
  }

  TEST_CASE("ListOps") {
    CHECK(grad("aten::_foreach_add.List", "x=2",
               {"{f32[8] S(0); f32[4] R}", "{f32[8] S(0); f32[4] R}"}) ==
          "S(0), P(sum), S(0), P(sum)");
  }
}

}  // namespace hyper_parallel::rules::test
