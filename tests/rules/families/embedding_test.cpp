#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("EmbeddingRules") {
  TEST_CASE("Table") {
    CHECK(table("aten::embedding", {"f32[100, 64]", "i64[2, 16]"}) ==
          "R R -> R\n"
          "R S(0) -> S(0)    d0\n"
          "R S(1) -> S(1)    d1\n"
          "S(0) R -> P(sum)    v ~embedding\n"
          "S(1) R -> S(2)    d\n"
          "P(sum) R -> P(sum)\n"
          "P(avg) R -> P(avg)");
  }

  TEST_CASE("ASplitVocabularyWithSplitTokens") {
    CHECK(forward("aten::embedding", "dp=2 tp=4", {"f32[100, 64] R S(0)", "i64[2, 16] S(0) R"}) ==
          "R S(0), S(0) R -> S(0) P(sum) ~embedding");
    CHECK(grad("aten::embedding", "dp=2 tp=4", {"f32[100, 64] R S(0)", "i64[2, 16] S(0) R"}) ==
          "P(sum) S(0), S(0) P(sum)");
  }

  TEST_CASE("CountsOfIndicesNeedTheWholeBatch") {
    CHECK(forward("aten::embedding", "x=2", {"f32[100, 64] R", "i64[2, 16] S(0)"},
                  {{"scale_grad_by_freq", true}}) == "R, R -> R");
  }

  TEST_CASE("OneHot") {
    CHECK(forward("aten::one_hot", "x=2", {"i64[4, 6] S(1)"}, {{"num_classes", std::int64_t{9}}}) ==
          "S(1) -> S(1)");
    CHECK(result_sizes("aten::one_hot", {"i64[4, 6]"}, {{"num_classes", std::int64_t{9}}}) ==
          "[4, 6, 9]");
    const Call c =
        call("aten::one_hot", "x=2", {"i64[4] S(0)"}, {{"num_classes", std::int64_t{-1}}});
    const Inference inference = infer_forward(rule(c), c);
    CHECK(answer(inference) == "R -> R");
    CHECK(inference.dynamic);
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::embedding", {"f32[100, 16]", "i64[2, 8]"}) ==
          "*v~embedding d, d0 d1 -> d0 d1 d {d0=2, d1=8, v=100, d=16}");
    CHECK(printed("aten::embedding_bag", {"f32[100, 16]", "i64[32]", "i64[8]"}) ==
          "*v~embedding_bag d1, _=32, b~embedding_bag -> b d1, _=0, _=0, _=0 {v=100, d1=16, b=8}; "
          "handler embedding_bag");
    CHECK(printed("aten::one_hot", {"i64[8]"}, {{"num_classes", std::int64_t{4}}}) ==
          "d0 -> d0 _=4 {d0=8}");
  }
}

}  // namespace hyper_parallel::rules::test
