#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

std::string attend(std::string_view mesh, const std::vector<std::string>& operands,
                   Attrs attrs = {}) {
  attrs.emplace("dropout_p", 0.0);
  return forward("aten::scaled_dot_product_attention", mesh, operands, std::move(attrs));
}
const Attrs kGrouped = {{"enable_gqa", true}};
const Attrs kCausal = {{"is_causal", true}};

}  // namespace

TEST_SUITE("AttentionRules") {
  TEST_CASE("Table") {
    CHECK(table("aten::scaled_dot_product_attention",
                {"f32[2, 4, 6, 8]", "f32[2, 4, 5, 8]", "f32[2, 4, 5, 8]", "f32[2, 1, 6, 5]"}) ==
          "R R R R -> R\n"
          "S(0) S(0) S(0) S(0) -> S(0)    d0\n"
          "S(1) S(1) S(1) R -> S(1)    d1\n"
          "S(2) R R S(2) -> S(2)    l\n"
          "R R S(3) R -> S(3)    v\n"
          "R R P(sum) R -> P(sum)\n"
          "R R P(avg) R -> P(avg)");
  }

  TEST_CASE("BatchAndHeads") {
    CHECK(attend("dp=2 tp=4", {"f32[2, 8, 16, 4] S(0) S(1)", "f32[2, 8, 16, 4] S(0) S(1)",
                               "f32[2, 8, 16, 4] S(0) S(1)", "bool[2, 1, 16, 16]"}) ==
          "S(0) S(1), S(0) S(1), S(0) S(1), S(0) R -> S(0) S(1)");
    CHECK(attend("tp=2", {"f32[4, 6, 8] S(0)", "f32[4, 5, 8] S(0)", "f32[4, 5, 8] S(0)"}) ==
          "S(0), S(0), S(0) -> S(0)");
  }

  TEST_CASE("GroupedHeads") {
    const std::string kv = "f32[2, 4, 16, 8] ";
    CHECK(attend("tp=4", {"f32[2, 8, 16, 8] S(1)", kv + "S(1)", kv + "S(1)"}, kGrouped) ==
          "S(1), S(1), S(1) -> S(1)");
    // Within each group: every rank reads all key heads.
    CHECK(attend("tp=2", {"f32[2, 8, 16, 8] S(1; segments=2|2|2|2)", kv + "R", kv + "R"},
                 kGrouped) == "S(1; segments=2|2|2|2), R, R -> S(1; segments=2|2|2|2)");
    // More ranks than key heads: the handler picks the heads that the own queries read.
    CHECK(attend("tp=8", {"f32[2, 16, 16, 8] S(1)", kv + "R", kv + "R"}, kGrouped) ==
          "S(1), R, R -> S(1) ~sdpa");
    CHECK(error([&] {
            attend("tp=2", {"f32[2, 6, 16, 8] R", kv + "R", kv + "R"}, kGrouped);
          }).starts_with("[HP-S002] aten::scaled_dot_product_attention"));
  }

  TEST_CASE("SplitQueriesReadAllKeys") {
    const std::string x = "f32[2, 4, 16, 8] S(2)";
    CHECK(attend("cp=2", {x, x, x}) == "S(2), R, R -> S(2)");
    CHECK(attend("cp=2", {x, x, x}, kCausal) == "S(2), R, R -> S(2) ~sdpa");
    CHECK(attend("cp=2", {x, x, x, "f32[16, 16] R"}) == "S(2), R, R, S(0) -> S(2)");
  }

  TEST_CASE("DropoutDraws") {
    const Call c = call("aten::scaled_dot_product_attention", "x=2",
                        {"f32[2, 4, 6, 8] S(0)", "f32[2, 4, 6, 8] S(0)", "f32[2, 4, 6, 8] S(0)"},
                        {{"dropout_p", 0.1}});
    CHECK(infer_forward(rule(c), c).random);
  }

  TEST_CASE("GradientsOfSplitQueries") {
    CHECK(grad("aten::scaled_dot_product_attention", "cp=2",
               {"f32[2, 4, 16, 8] S(2)", "f32[2, 4, 16, 8] R", "f32[2, 4, 16, 8] R"}) ==
          "S(2), P(sum), P(sum)");
  }

  TEST_CASE("Printed") {
    CHECK(printed("hyper_parallel::rope", {"f32[2, 8, 4, 16]", "f32[2, 8, 4, 16]", "-",
                                           "f32[1, 8, 1, 16]", "f32[1, 8, 1, 16]"}) ==
          "*d0 d1 d2 d3!, *1 d0 d1 d2 d3, -, _ d1 _ _=16, _ d1 _ _=16 -> d0 d1 d2 d3, d0 d1 d2 d3, "
          "- {d0=2, d1=8, d2=4, d3=16}");
  }
}

}  // namespace hyper_parallel::rules::test
