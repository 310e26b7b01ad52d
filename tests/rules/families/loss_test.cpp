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
}

}  // namespace hyper_parallel::rules::test
