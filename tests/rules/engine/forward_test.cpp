// Forward inference: what moves, what is kept, what is refused.

#include "hyper_parallel/core/error.h"
#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

Inference infer(std::string_view op, std::string_view mesh,
                const std::vector<std::string>& operands, Attrs attrs = {}) {
  const Call c = call(op, mesh, operands, std::move(attrs));
  return infer_forward(rule(c), c);
}

}  // namespace

TEST_SUITE("ForwardInference") {
  TEST_CASE("AnAxisThatNoOperandUsesStaysUnused") {
    CHECK(forward("aten::mm", "dp=2 tp=4", {"f32[8, 16] R R", "f32[16, 32] R R"}) ==
          "R R, R R -> R R");
    CHECK(forward("aten::mm", "dp=1 tp=4", {"f32[8, 16] S(0) R", "f32[16, 32] R S(1)"}) ==
          "R R, R S(1) -> R S(1)");
  }

  TEST_CASE("TheCheaperOperandMoves") {
    CHECK(forward("aten::mm", "x=2", {"f32[64, 16] S(0)", "f32[16, 4] S(1)"}) == "S(0), R -> S(0)");
    CHECK(forward("aten::mm", "x=2", {"f32[4, 16] S(0)", "f32[16, 64] S(1)"}) == "R, S(1) -> S(1)");
  }

  TEST_CASE("ChangesHaveBytesAndReasons") {
    const Inference inference = infer("aten::mm", "x=4", {"f32[64, 16] S(0)", "f32[16, 4] S(1)"});
    REQUIRE(inference.changes.size() == 1);
    CHECK(inference.changes[0].input == 1);
    CHECK(inference.changes[0].bytes == 3.0 / 4 * 16 * 4 * 4);  // an all-gather of 256 bytes
    CHECK(inference.changes[0].reason == "axis x splits m");
    CHECK(inference.bytes == inference.changes[0].bytes);
  }

  TEST_CASE("PricesOfTheMoves") {
    // 8 x 16 f32 are 512 bytes; the other axis has cut them in two.
    const auto bytes = [](const char* from, const char* other) {
      return infer("aten::add.Tensor", "a=2 b=4", {from, other}).bytes;
    };
    CHECK(bytes("f32[8, 16] S(0) S(1)", "f32[8, 16] S(0) S(1)") == 0);
    CHECK(bytes("f32[8, 16] S(0) R", "f32[8, 16] S(0) S(1)") == 0);  // a local cut
    CHECK(bytes("f32[8, 16] S(0) P(sum)", "f32[8, 16] S(0) S(1)") == 3.0 / 4 * 256);
    CHECK(bytes("f32[8, 16] S(0) S(1)", "f32[8, 16] S(0) S(0)") == 3.0 / 16 * 256);
    CHECK(bytes("f32[8, 16] S(0) P(sum)", "f32[8, 16] S(0) R") == 2 * 3.0 / 4 * 256);
  }

  TEST_CASE("PlainOperandsAreReplicated") {
    CHECK(forward("aten::mm", "x=2", {"f32[8, 16] S(0)", "f32[16, 32]"}) == "S(0), R -> S(0)");
    CHECK(forward("aten::add.Tensor", "x=2", {"f32[8, 16] S(0)", "f32[8, 16]"}) ==
          "S(0), S(0) -> S(0)");
  }

  TEST_CASE("SeveralAxesOnOneDimKeepTheirOrder") {
    CHECK(forward("aten::relu", "a=2 b=2", {"f32[8] S(0, 1) S(0, 0)"}) ==
          "S(0, 1) S(0, 0) -> S(0, 1) S(0, 0)");
    // The order of the larger operand wins; the mesh's order if nothing speaks for another.
    CHECK(
        forward("aten::add.Tensor", "a=2 b=2", {"f32[4, 8] S(1) S(1)", "f32[8] S(0, 1) S(0, 0)"}) ==
        "S(1) S(1), S(0) S(0) -> S(1) S(1)");
    CHECK(forward("aten::add.Tensor", "a=2 b=2", {"f32[4, 8] R S(1)", "f32[4, 8] S(1) R"}) ==
          "S(1) S(1), S(1) S(1) -> S(1) S(1)");
    CHECK(forward("aten::add.Tensor", "a=2 b=2", {"f32[8] R S(0)", "f32[8] S(0) R"}) ==
          "S(0) S(0), S(0) S(0) -> S(0) S(0)");
  }

  TEST_CASE("ASplitDoesNotSpreadFromAnOperandThatIsBroadcast") {
    CHECK(forward("aten::add.Tensor", "a=2", {"f32[64, 8] R", "f32[8] S(0)"}) == "R, R -> R");
    CHECK(forward("aten::add.Tensor", "a=2", {"f32[64, 8] S(1)", "f32[8] R"}) ==
          "S(1), S(0) -> S(1)");
    CHECK(forward("aten::add.Tensor", "a=2", {"f32[64, 8] R", "f32[64, 8] S(1)"}) ==
          "S(1), S(1) -> S(1)");
    CHECK(forward("aten::layer_norm", "a=2", {"f32[64, 8] R", "f32[8] S(0)", "f32[8] S(0)"},
                  {{"normalized_shape", Ints{8}}}) == "R, R, R -> R");
    // Not where it comes with the weight.
    CHECK(forward("aten::linear", "a=2", {"f32[64, 8] R", "f32[16, 8] S(0)", "f32[16] S(0)"}) ==
          "R, S(0), S(0) -> S(1)");
  }

  TEST_CASE("ASumPassesOverSeveralAxes") {
    // One all-reduce over both axes later moves no more than one now.
    const char* pending = "f64[256] P(sum) P(sum)";
    CHECK(forward("aten::detach", "dp=2 tp=2", {pending}) == "P(sum) P(sum) -> P(sum) P(sum)");
    CHECK(forward("aten::view", "dp=2 tp=2", {pending}, {{"size", Ints{16, 16}}}) ==
          "P(sum) P(sum) -> P(sum) P(sum)");
    CHECK(forward("aten::add.Tensor", "dp=2 tp=2", {pending, pending}) ==
          "P(sum) P(sum), P(sum) P(sum) -> P(sum) P(sum)");
    CHECK(forward("aten::view", "a=2 b=2 c=2", {"f64[4, 6] P(sum) S(0) P(sum)"},
                  {{"size", Ints{24}}}) == "P(sum) S(0) P(sum) -> P(sum) S(0) P(sum)");
  }

  TEST_CASE("BlocksAndSegmentsTravel") {
    CHECK(forward("aten::mul.Tensor", "x=2", {"f32[4, 12] S(1; block=4)", "f32[12] R"}) ==
          "S(1; block=4), S(0; block=4) -> S(1; block=4)");
    CHECK(forward("aten::mul.Tensor", "x=2", {"f32[4, 12] S(1; segments=8|4)", "f32[12] S(0)"}) ==
          "S(1; segments=8|4), S(0; segments=8|4) -> S(1; segments=8|4)");
    // 12 in blocks of 2 over 2 ranks is the same cut as without blocks: nothing moves.
    CHECK(forward("aten::mul.Tensor", "x=2", {"f32[4, 12] S(1; block=2)", "f32[12] S(0)"}) ==
          "S(1; block=2), S(0) -> S(1)");
  }

  TEST_CASE("UnevenAndEmptyPieces") {
    CHECK(forward("aten::mm", "x=4", {"f32[5, 3] S(1)", "f32[3, 7] S(0)"}) ==
          "S(1), S(0) -> P(sum)");
    // A maximum over nothing does not exist, so 2 rows are not split over 4 ranks.
    CHECK(forward("aten::amax", "x=4", {"f32[2, 8] S(0)"}, {{"dim", Ints{0}}}) == "R -> R");
    CHECK(forward("aten::amax", "x=4", {"f32[2, 8] S(0)"}, {{"dim", Ints{1}}}) == "S(0) -> S(0)");
    CHECK(forward("aten::amax", "x=2", {"f32[2, 8] S(0)"}, {{"dim", Ints{0}}}) == "S(0) -> P(max)");
  }

  TEST_CASE("InPlaceOperandsStay") {
    CHECK(forward("aten::add_.Tensor", "x=2", {"!f32[8, 16] R", "f32[8, 16] S(0)"}) == "R, R -> R");
    CHECK(forward("aten::add_.Tensor", "x=2", {"!f32[8, 16] S(1)", "f32[8, 16] S(0)"}) ==
          "S(1), S(1) -> S(1)");
    CHECK(forward("aten::mul_.Tensor", "x=2", {"!f32[8, 16] P(sum)", "f32[]"}) ==
          "P(sum), R -> P(sum)");
    CHECK(forward("aten::addmm_", "x=2", {"!f32[8, 4] R", "f32[8, 16] S(1)", "f32[16, 4] S(0)"}) ==
          "R, R, R -> R");
    CHECK(forward("aten::add_.Tensor", "x=2", {"!f32[8, 16] P(sum)", "f32[8, 16] R"}) ==
          "P(sum), P(sum) -> P(sum)");
    const std::string text = error([] { forward("aten::relu_", "x=2", {"!f32[8, 16] P(sum)"}); });
    CHECK(text.starts_with("[HP-S030] aten::relu_: no strategy fits these layouts"));
    CHECK(text.find("P(sum) (written in place)") != std::string::npos);
  }

  TEST_CASE("OutOperandsStay") {
    CHECK(forward("aten::add.out", "x=2",
                  {"f32[8, 16] S(0)", "f32[8, 16] S(0)", "!f32[8, 16] S(0)"}) ==
          "S(0), S(0), S(0) -> S(0)");
    CHECK(forward("aten::add.out", "x=2",
                  {"f32[8, 16] S(0)", "f32[8, 16] S(0)", "!f32[8, 16] R"}) == "R, R, R -> R");
    CHECK(forward("aten::sum.IntList_out", "x=2", {"f32[8, 16] S(0)", "!f32[8] S(0)"},
                  {{"dim", Ints{1}}}) == "S(0), S(0) -> S(0)");
  }

  TEST_CASE("EquivalentLayoutsAreKeptAsTheyAre") {
    // The operand's own layout object comes back: nothing to do.
    const Call c = call("aten::relu", "x=2", {"f32[4, 12] S(1; block=2)"});
    CHECK(infer_forward(rule(c), c).inputs[0] == c.inputs[0].layout);
  }

  TEST_CASE("ChosenStrategiesAreApplied") {
    const Call c = call("aten::mm", "x=2", {"f32[8, 16] R", "f32[16, 32] R"});
    const ConcreteRule r = rule(c);
    std::vector<AxisChoice> choices(1);
    choices[0].kind = AxisChoice::Kind::factor;
    choices[0].factor = 1;  // k
    CHECK(answer(apply(r, c, choices)) == "S(1), S(0) -> P(sum)");
    choices.emplace_back();
    CHECK(error([&] { apply(r, c, choices); }).starts_with("[HP-S031] aten::mm"));
  }

  TEST_CASE("BadLayoutsAreNamed") {
    CHECK(
        error([] {
          forward("aten::relu", "x=2", {"f32[8] S(1)"});
        }).starts_with("[HP-S021] aten::relu: operand \"arg0\" is split on dim 1 but has 1 dims"));
    CHECK(error([] {
            forward("aten::relu", "x=2", {"f32[8] S(0; segments=4|2)"});
          }).starts_with("[HP-S022] aten::relu: operand \"arg0\": the segments of dim 0 sum to 6"));
    Call c = call("aten::relu", "x=2", {"f32[8] S(0)"});
    const ConcreteRule r = rule(c);
    c.mesh = Mesh::get({2}, {"y"});
    CHECK(error([&] { infer_forward(r, c); }).starts_with("[HP-S020] aten::relu"));
  }

  TEST_CASE("BadCallsAreNamed") {
    CHECK(error([] { forward("aten::mm", "x=2", {"f32[8, 16] R"}); }) ==
          "[HP-S001] aten::mm: wrong number of operands\n"
          "  needed  2\n"
          "  given   1");
    CHECK(error([] { forward("aten::mm", "x=2", {"f32[8, 16] R", "f32[17, 4] R"}); })
              .starts_with("[HP-S002] aten::mm: operand \"arg1\": dim 0 has size 17, \"k\" "
                           "elsewhere has 16"));
    CHECK(error([] {
            forward("aten::mm", "x=2", {"f32[8, 16] R", "f32[16] R"});
          }).starts_with("[HP-S003] aten::mm: operand \"arg1\" has 1 dims, not 2"));
    CHECK(
        error([] { forward("aten::sum.dim_IntList", "x=2", {"f32[8, 16] R"}, {{"dim", Ints{2}}}); })
            .starts_with(
                "[HP-S004] aten::sum.dim_IntList: dim 2 is out of range for a tensor of 2 dims"));
    CHECK(error([] {
            forward("aten::add_.Tensor", "x=2", {"!f32[8] R", "f32[4, 8] R"});
          }).starts_with("[HP-S006] aten::add_.Tensor: operand \"arg0\" is written in place"));
    CHECK(error([] {
            forward("aten::select.int", "x=2", {"f32[8] R"},
                    {{"dim", std::int64_t{0}}, {"index", 0.5}});
          }).starts_with("[HP-S005] aten::select.int: argument \"index\" is not an integer"));
  }
}

}  // namespace hyper_parallel::rules::test
