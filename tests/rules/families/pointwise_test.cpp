#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("PointwiseRules") {
  TEST_CASE("BroadcastTable") {
    CHECK(table("aten::add.Tensor", {"f32[8, 1, 4]", "f32[6, 4]"}) ==
          "R R -> R\n"
          "S(0) R -> S(0)    d0\n"
          "R S(0) -> S(1)    d1\n"
          "S(2) S(1) -> S(2)    d2\n"
          "P(sum) P(sum) -> P(sum)\n"
          "P(avg) P(avg) -> P(avg)");
    CHECK(result_sizes("aten::add.Tensor", {"f32[8, 1, 4]", "f32[6, 4]"}) == "[8, 6, 4]");
    CHECK(error([] {
            forward("aten::add.Tensor", "x=2", {"f32[8] R", "f32[6] R"});
          }).starts_with("[HP-S002] aten::add.Tensor: operand \"arg1\": dim 0 has size 6"));
  }

  TEST_CASE("EachWordOfTheFamily") {
    const auto last = [](std::string_view op, const std::vector<std::string>& operands,
                         Attrs attrs = {}) {
      const std::string text = table(op, operands, std::move(attrs));
      return text.substr(text.rfind("d0") + 2);
    };
    const std::vector<std::string> one = {"f32[8]"};
    const std::vector<std::string> two = {"f32[8]", "f32[8]"};
    const std::vector<std::string> three = {"f32[8]", "f32[8]", "f32[8]"};
    CHECK(last("aten::abs", one).empty());
    CHECK(last("aten::neg", one) == "\nP(sum) -> P(sum)\nP(avg) -> P(avg)");
    CHECK(last("aten::relu", one) == "\nP(max) -> P(max)\nP(min) -> P(min)");
    CHECK(last("aten::div.Tensor", two) == "\nP(sum) R -> P(sum)\nP(avg) R -> P(avg)");
    CHECK(last("aten::lerp.Tensor", three) ==
          "\nP(sum) P(sum) R -> P(sum)\nP(avg) P(avg) R -> P(avg)");
    CHECK(last("aten::addcmul", three) ==
          "\nP(sum) P(sum) R -> P(sum)\nP(sum) R P(sum) -> P(sum)"
          "\nP(avg) P(avg) R -> P(avg)\nP(avg) R P(avg) -> P(avg)");
    CHECK(last("aten::addcdiv", three) == "\nP(sum) P(sum) R -> P(sum)\nP(avg) P(avg) R -> P(avg)");
    CHECK(last("aten::where.ScalarOther", {"bool[8]", "f32[8]"}, {{"other", std::int64_t{0}}})
              .starts_with("\nR P(sum) -> P(sum)"));
    CHECK(last("aten::where.ScalarOther", {"bool[8]", "f32[8]"}, {{"other", 2.0}}).empty());
  }

  TEST_CASE("ViewsAreMarked") {
    CHECK(rule(call("aten::real", "x=2", {"c64[8]"})).aliases);
    CHECK_FALSE(rule(call("aten::neg", "x=2", {"f32[8]"})).aliases);
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::relu", {"f32[8, 16]"}) == "*d0 d1 -> d0 d1 {d0=8, d1=16}; monotone");
    CHECK(printed("aten::add.Tensor", {"f32[8, 16]", "f32[8, 16]"}) ==
          "*d0 d1, *1 d0 d1 -> d0 d1 {d0=8, d1=16}");
    CHECK(printed("aten::mul.Tensor", {"f32[8, 16]", "f32[8, 16]"}) ==
          "*d0 d1, *d0 d1 -> d0 d1 {d0=8, d1=16}");
    CHECK(printed("aten::addcmul", {"f32[8, 16]", "f32[8, 16]", "f32[8, 16]"}) ==
          "*d0 d1, *1 d0 d1, *1 d0 d1 -> d0 d1 {d0=8, d1=16}");
    CHECK(printed("aten::where.self", {"bool[8, 16]", "f32[8, 16]", "f32[8, 16]"}) ==
          "d0 d1, *1 d0 d1, *2 d0 d1 -> d0 d1 {d0=8, d1=16}; any");
    CHECK(printed("aten::prelu", {"f32[8, 16]", "f32[16]"}) == "d0 d1, d1 -> d0 d1 {d0=8, d1=16}");
    CHECK(printed("aten::real", {"f32[8, 16]"}) == "*d0 d1 -> d0 d1 {d0=8, d1=16}; view");
  }
}

}  // namespace hyper_parallel::rules::test
