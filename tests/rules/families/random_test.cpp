#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

bool draws(std::string_view op, const std::string& operand, Attrs attrs = {}) {
  const Call c = call(op, "x=2", {operand}, std::move(attrs));
  return infer_forward(rule(c), c).random;
}

}  // namespace

TEST_SUITE("RandomRules") {
  TEST_CASE("DropoutIsLinear") {
    const Attrs train = {{"p", 0.5}, {"train", true}};
    CHECK(forward("aten::dropout", "a=2 b=2", {"f32[8, 6] S(0) P(sum)"}, train) ==
          "S(0) P(sum) -> S(0) P(sum)");
    CHECK(draws("aten::dropout", "f32[8] S(0)", train));
    CHECK_FALSE(draws("aten::dropout", "f32[8] S(0)", {{"p", 0.5}, {"train", false}}));
    CHECK_FALSE(draws("aten::dropout", "f32[8] S(0)", {{"p", 0.0}, {"train", true}}));
    CHECK(forward("aten::feature_dropout", "x=2", {"f32[8, 6, 4] S(2)"}, train) == "S(2) -> S(2)");
    // With a shift it is not.
    CHECK(forward("aten::alpha_dropout", "x=2", {"f32[8, 6] P(sum)"}, train) == "R -> R");
  }

  TEST_CASE("FillsIgnoreTheOldValues") {
    CHECK(forward("aten::uniform_", "x=2", {"!f32[8, 6] S(1)"}) == "S(1) -> S(1)");
    CHECK(forward("aten::rand_like", "x=2", {"f32[8, 6] P(sum)"}) == "P(sum) -> R");
    CHECK(draws("aten::normal_", "!f32[8] R"));
    CHECK(error([] {
            forward("aten::uniform_", "x=2", {"!f32[8] P(sum)"});
          }).starts_with("[HP-S030] aten::uniform_"));
    CHECK(forward("aten::bernoulli", "x=2", {"f32[8] P(sum)"}) == "R -> R");
  }

  TEST_CASE("MultinomialNeedsAllRows") {
    CHECK(forward("aten::multinomial", "x=2", {"f32[8, 6] S(0)"},
                  {{"num_samples", std::int64_t{2}}}) == "R -> R");
    CHECK(result_sizes("aten::multinomial", {"f32[8, 6]"}, {{"num_samples", std::int64_t{2}}}) ==
          "[8, 2]");
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::native_dropout", {"f32[8, 16]"}, {{"p", 0.5}, {"train", true}}) ==
          "d0 d1 -> d0 d1, d0 d1 {d0=8, d1=16}; random");
    CHECK(printed("aten::rand_like", {"f32[8, 16]"}) == "#d0 d1 -> d0 d1 {d0=8, d1=16}; random");
    CHECK(printed("aten::multinomial", {"f32[8, 16]"}, {{"num_samples", std::int64_t{2}}}) ==
          "_=8 _=16 -> _=8 _=2; random");
  }
}

}  // namespace hyper_parallel::rules::test
