#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

Attrs dim(std::int64_t d) { return {{"dim", d}}; }
const Attrs kRow = {{"normalized_shape", Ints{64}}, {"eps", 1e-5}};

}  // namespace

TEST_SUITE("SoftmaxAndNormRules") {
  TEST_CASE("SoftmaxTable") {
    CHECK(table("aten::softmax.int", {"f32[4, 6]"}, dim(-1)) ==
          "R -> R\n"
          "S(0) -> S(0)    d0\n"
          "S(1) -> S(1)    d ~softmax");
    CHECK(forward("aten::log_softmax.int", "x=2", {"f32[4, 600] S(1)"}, dim(1)) ==
          "S(1) -> S(1) ~log_softmax");
    CHECK(forward("aten::softmax.int", "x=2", {"f32[4, 600] P(sum)"}, dim(1)) == "R -> R");
    CHECK(forward("aten::_softmax_backward_data", "x=2", {"f32[4, 6] S(1)", "f32[4, 6] S(1)"},
                  dim(1)) == "R, R -> R");
    CHECK(error([] {
            forward("aten::softmax.int", "x=2", {"f32[4, 6] R"}, dim(2));
          }).starts_with("[HP-S004] aten::softmax.int: dim 2 is out of range"));
  }

  TEST_CASE("NormsPassLeadingDims") {
    const std::vector<std::string> x = {"f32[2, 16, 64] S(0) S(1)", "f32[64] R R", "f32[64] R R"};
    CHECK(forward("aten::layer_norm", "dp=2 tp=4", x, kRow) == "S(0) S(1), R R, R R -> S(0) S(1)");
    // Weight and bias are used by every rank on other rows.
    CHECK(grad("aten::layer_norm", "dp=2 tp=4", x, kRow) ==
          "S(0) S(1), P(sum) P(sum), P(sum) P(sum)");
    CHECK(forward("aten::rms_norm", "tp=4", {"f32[2, 16, 64] S(1)", "f32[64] R"}, kRow) ==
          "S(1), R -> S(1)");
  }

  TEST_CASE("ASplitRowTakesAHandler") {
    CHECK(forward("aten::layer_norm", "tp=4", {"f32[2, 16, 64] S(2)", "f32[64] R", "f32[64] R"},
                  kRow) == "S(2), S(0), S(0) -> S(2) ~layer_norm");
    CHECK(forward("aten::rms_norm", "tp=4", {"f32[2, 16, 64] S(2)", "-"}, kRow) ==
          "S(2), - -> S(2) ~rms_norm");
    CHECK(forward("aten::native_layer_norm", "tp=4",
                  {"f32[2, 16, 64] S(2)", "f32[64] R", "f32[64] R"}, kRow) == "R, R, R -> R, R, R");
    CHECK(result_sizes("aten::native_layer_norm", {"f32[2, 16, 64]", "f32[64]", "f32[64]"}, kRow) ==
          "[2, 16, 64] [2, 16, 1] [2, 16, 1]");
  }

  TEST_CASE("GroupAndBatchNorm") {
    CHECK(forward("aten::group_norm", "a=2 b=2", {"f32[4, 8, 6] S(0) S(1)", "f32[8] R R", "-"},
                  {{"num_groups", std::int64_t{4}}}) == "S(0) R, R R, - -> S(0) R");
    const std::vector<std::string> x = {"f32[4, 8, 6] S(0) S(1)", "f32[8] R R", "f32[8] R R",
                                        "f32[8] R R", "f32[8] R R"};
    CHECK(forward("aten::batch_norm", "a=2 b=2", x, {{"training", false}}) ==
          "S(0) S(1), R S(0), R S(0), R S(0), R S(0) -> S(0) S(1)");
    // In training the statistics are those of the whole batch, so the handler sums them.
    const std::vector<std::string> large = {"f32[400, 8, 60] S(0) S(1)", "f32[8] R R", "f32[8] R R",
                                            "f32[8] R R", "f32[8] R R"};
    CHECK(forward("aten::batch_norm", "a=2 b=2", large, {{"training", true}}) ==
          "S(0) S(1), R S(0), R S(0), R S(0), R S(0) -> S(0) S(1) ~batch_norm");
  }

  TEST_CASE("ShapesMustFit") {
    CHECK(error([] { forward("aten::layer_norm", "x=2", {"f32[2, 32] R", "-", "-"}, kRow); })
              .starts_with("[HP-S002] aten::layer_norm: operand \"arg0\": dim 1 has size 32, "
                           "normalized_shape has 64"));
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::_log_softmax", {"f32[8, 16]"}, {{"dim", std::int64_t{1}}}) ==
          "d0 d~log_softmax -> d0 d {d0=8, d=16}");
    CHECK(printed("aten::layer_norm", {"f32[8, 16]", "f32[16]", "f32[16]"},
                  {{"normalized_shape", Ints{16}}}) ==
          "d0 d1~layer_norm, d1, +!d1 -> d0 d1 {d0=8, d1=16}");
    CHECK(printed("aten::native_layer_norm", {"f32[8, 16]", "f32[16]", "f32[16]"},
                  {{"normalized_shape", Ints{16}}}) ==
          "d0 d1!, d1, +!d1 -> d0 d1, d0 _, d0 _ {d0=8, d1=16}");
    CHECK(printed("aten::native_group_norm", {"f32[8, 4, 6]", "f32[4]", "f32[4]"},
                  {{"N", std::int64_t{8}},
                   {"C", std::int64_t{4}},
                   {"HxW", std::int64_t{6}},
                   {"group", std::int64_t{2}}}) ==
          "d0 d1! d2!, _=4, _=4 -> d0 d1 d2, d0 _=2, d0 _=2 {d0=8, d1=4, d2=6}; N:=length 0 0");
    CHECK(
        printed("aten::batch_norm", {"f32[8, 4, 6]", "f32[4]", "f32[4]"}, {{"training", false}}) ==
        "d0 d1 d2, d1, d1 -> d0 d1 d2 {d0=8, d1=4 nonempty, d2=6}");
    CHECK(printed("aten::_batch_norm_with_update", {"f32[8, 4, 6]", "f32[4]", "f32[4]"},
                  {{"training", false}}) ==
          "d0~batch_norm d1 d2~batch_norm, d1, d1 -> d0 d1 d2, d1, d1, _=0 {d0=8, d1=4, d2=6}; "
          "filled");
  }
}

}  // namespace hyper_parallel::rules::test
