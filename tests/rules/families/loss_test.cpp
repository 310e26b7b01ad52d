#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

Attrs reduction(std::int64_t r) { return {{"reduction", r}}; }

}  // namespace

TEST_SUITE("LossRules") {
  TEST_CASE("CrossEntropyTable") {
    CHECK(
        table("aten::cross_entropy_loss", {"f32[32, 100]", "i64[32]", "f32[100]"}, reduction(1)) ==
        "R R R -> R\n"
        "S(0) S(0) R -> P(sum)    d0 ~cross_entropy\n"
        "S(1) R S(0) -> P(sum)    c ~cross_entropy");
    CHECK(table("aten::cross_entropy_loss", {"f32[32, 100]", "i64[32]", "-"}, reduction(0)) ==
          "R R - -> R\n"
          "S(0) S(0) - -> S(0)    d0\n"
          "S(1) R - -> P(sum)    c ~cross_entropy");
  }

  TEST_CASE("TokensAndClassesSplit") {
    CHECK(forward("aten::cross_entropy_loss", "dp=2 tp=4",
                  {"f32[32, 100] S(0) S(1)", "i64[32] S(0) R", "-"},
                  reduction(1)) == "S(0) S(1), S(0) R, - -> P(sum) P(sum) ~cross_entropy");
    CHECK(forward("aten::cross_entropy_loss", "dp=2 tp=4",
                  {"f32[8, 100, 6] S(2) S(1)", "i64[8, 6] S(1) R", "-"},
                  reduction(2)) == "S(2) S(1), S(1) R, - -> P(sum) P(sum) ~cross_entropy");
    CHECK(forward("aten::cross_entropy_loss", "tp=4", {"f32[100] S(0)", "i64[] R", "-"},
                  reduction(1)) == "S(0), R, - -> P(sum) ~cross_entropy");
  }

  TEST_CASE("TargetsMayBeProbabilities") {
    CHECK(forward("aten::cross_entropy_loss", "tp=4",
                  {"f32[32, 100] S(1)", "f32[32, 100] S(1)", "-"},
                  reduction(1)) == "S(1), S(1), - -> P(sum) ~cross_entropy");
  }

  TEST_CASE("NegativeLogLikelihoodIsLinear") {
    CHECK(forward("aten::nll_loss_nd", "x=2", {"f32[32, 10] P(sum)", "i64[32] R", "-"},
                  reduction(1)) == "P(sum), R, - -> P(sum)");
    CHECK(forward("aten::nll_loss_nd", "x=2", {"f32[32, 10] S(1)", "i64[32] R", "-"},
                  reduction(1)) == "S(1), R, - -> P(sum) ~nll_loss");
  }

  TEST_CASE("LossesOfPairs") {
    const std::vector<std::string> x = {"f32[8, 6] S(0)", "f32[8, 6] R"};
    CHECK(forward("aten::mse_loss", "x=2", x, reduction(0)) == "S(0), S(0) -> S(0)");
    CHECK(forward("aten::mse_loss", "x=2", x, reduction(1)) == "S(0), S(0) -> P(sum) ~mean_loss");
    CHECK(forward("aten::mse_loss", "x=2", x, reduction(2)) == "S(0), S(0) -> P(sum)");
  }

  TEST_CASE("SizesMustFit") {
    CHECK(
        error(
            [] { forward("aten::cross_entropy_loss", "x=2", {"f32[32, 10] R", "i64[31] R", "-"}); })
            .starts_with("[HP-S002] aten::cross_entropy_loss: operand \"arg1\": dim 0 has size 31, "
                         "self has 32"));
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::cross_entropy_loss", {"f32[8, 100]", "i64[8]"},
                  {{"reduction", std::int64_t{2}}}) ==
          "d0~cross_entropy c~cross_entropy, d0 -> () {d0=8, c=100}");
    CHECK(printed("aten::nll_loss", {"f32[8, 100]", "i64[8]"}, {{"reduction", std::int64_t{2}}}) ==
          "*d0~nll_loss c~nll_loss, d0 -> () {d0=8, c=100}");
    CHECK(printed("aten::mse_loss", {"f32[8, 16]", "f32[8, 16]"},
                  {{"reduction", std::int64_t{2}}}) == "d0 d1, d0 d1 -> () {d0=8, d1=16}");
    CHECK(printed("hyper_parallel::cross_entropy_with_softmax", {"f32[8, 100]", "i64[8, 1]"}) ==
          "d0 c~softmax_cross_entropy, d0 _ -> d0 c, d0 _ {d0=8, c=100}");
    CHECK(printed("hyper_parallel::label_smooth", {"f32[8, 16]"}) ==
          "d0 d1~label_smooth -> d0 d1 {d0=8, d1=16}");
    CHECK(printed("aten::ctc_loss.IntList", {"f32[12, 8, 16]", "i64[8, 4]"},
                  {{"reduction", std::int64_t{2}}}) == "_=12 n~ctc_loss _=16, n _=4 -> () {n=8}");
    CHECK(printed("torch_nn::_linear_cross_entropy_batch_chunked",
                  {"f32[8, 16]", "f32[100, 16]", "i64[8]"}, {{"reduction", std::string("sum")}}) ==
          "n~linear_cross_entropy _=16, _=100 _=16, n -> (), _=0 _=0, _=0 _=0, _=0 {n=8}");
    CHECK(printed("aten::multi_margin_loss", {"f32[8, 16]", "i64[8]"},
                  {{"reduction", std::int64_t{2}}}) == "_=8 _=16, _=8 -> ()");
  }
}

}  // namespace hyper_parallel::rules::test
