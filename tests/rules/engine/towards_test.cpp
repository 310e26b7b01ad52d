// Joint inference: strategies for operands and wanted results together.

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/rule.h"
#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

std::string towards(std::string_view op, std::string_view mesh,
                    const std::vector<std::string>& operands,
                    const std::vector<std::string>& results, Attrs attrs = {}) {
  const Call c = call(op, mesh, operands, std::move(attrs));
  std::vector<const Layout*> layouts;
  for (const std::string& text : results) {
    layouts.push_back(text == "-" ? nullptr : parse_layout(c.mesh, text));
  }
  return answer(infer_forward(rule(c), c, layouts));
}

TEST_SUITE("rules: towards") {
  TEST_CASE("WhatTheResultNeedsDecides") {
    const std::vector<std::string> mm = {"f32[8, 16] S(1)", "f32[16, 32] R"};
    CHECK(towards("aten::mm", "x=2", mm, {"P(sum)"}) == "S(1), S(0) -> P(sum)");
    CHECK(towards("aten::mm", "x=2", mm, {"R"}) == "R, R -> R");
    CHECK(towards("aten::mm", "x=2", mm, {"S(1)"}) == "R, S(1) -> S(1)");
  }

  TEST_CASE("AResultThatSaysNothingCostsNothing") {
    CHECK(towards("aten::mm", "x=2", {"f32[8, 16] S(0)", "f32[16, 32] R"}, {"-"}) ==
          "S(0), R -> S(0)");
  }

  TEST_CASE("AxesAreChosenTogether") {
    CHECK(towards("aten::mm", "dp=2 tp=2", {"f32[8, 16] S(0) S(1)", "f32[16, 32] R R"},
                  {"S(0) P(sum)"}) == "S(0) S(1), R S(0) -> S(0) P(sum)");
    CHECK(towards("aten::mm", "dp=2 tp=2", {"f32[8, 16] R R", "f32[16, 32] R R"}, {"S(0) S(1)"}) ==
          "S(0) R, R S(1) -> S(0) S(1)");
  }
}

}  // namespace
}  // namespace hyper_parallel::rules::test
