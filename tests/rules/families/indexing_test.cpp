#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

Attrs dim(std::int64_t d) { return {{"dim", d}}; }

}  // namespace

TEST_SUITE("IndexingRules") {
  TEST_CASE("LookUpsAlongASplitDimAreMasked") {
    CHECK(forward("aten::gather", "x=2", {"f32[8, 60] S(1)", "i64[8, 3] R"}, dim(1)) ==
          "S(1), R -> P(sum) ~gather");
    CHECK(forward("aten::gather", "x=2", {"f32[8, 60] S(0)", "i64[8, 3] R"}, dim(1)) ==
          "S(0), S(0) -> S(0)");
    CHECK(forward("aten::gather", "x=2", {"f32[8, 6] R", "i64[8, 4] S(1)"}, dim(1)) ==
          "R, S(1) -> S(1)");
    // Rows that the index lacks: its row i is not the own row i when both are split.
    CHECK(forward("aten::gather", "x=2", {"f32[8, 6] S(0)", "i64[4, 3] R"}, dim(1)) == "R, R -> R");
    CHECK(forward("aten::index_select", "x=2", {"f32[8, 60] S(1)", "i64[4] R"}, dim(1)) ==
          "S(1), R -> P(sum) ~index_select");
    CHECK(forward("aten::index_select", "x=2", {"bool[8, 60] S(1)", "i64[4] R"}, dim(1)) ==
          "R, R -> R");  // truth values cannot be summed
    CHECK(forward("aten::index_select", "x=2", {"f32[8, 6] R", "i64[4] S(0)"}, dim(1)) ==
          "R, S(0) -> S(1)");
  }

  TEST_CASE("IndexTensors") {
    CHECK(forward("aten::index.Tensor", "x=2", {"f32[80, 6] S(0)", "{i64[4, 3] R}"}) ==
          "S(0), R -> P(sum) ~index");
    CHECK(forward("aten::index.Tensor", "x=2", {"f32[8, 6] S(1)", "{i64[4, 3] R}"}) ==
          "S(1), R -> S(2)");
    CHECK(forward("aten::index.Tensor", "x=2", {"f32[8, 6] R", "{i64[4, 3] S(1)}"}) ==
          "R, S(1) -> S(1)");
    CHECK(forward("aten::index.Tensor", "x=2", {"f32[8, 6, 5] S(0)", "{-; i64[4]}"}) ==
          "S(0), -, R -> S(0)");
    // Two index tensors: the pairs belong together.
    CHECK(forward("aten::index.Tensor", "x=2", {"f32[8, 6] S(0)", "{i64[4] R; i64[4] R}"}) ==
          "R, R, R -> R");
  }

  TEST_CASE("IndexDimsStandWhereTheIndicesStood") {
    CHECK(result_sizes("aten::index.Tensor", {"f32[8, 6, 5]", "{-; i64[4, 3]}"}) == "[8, 4, 3, 5]");
    CHECK(result_sizes("aten::index.Tensor", {"f32[8, 6, 5]", "{-; i64[4, 1]; i64[3]}"}) ==
          "[8, 4, 3]");
    CHECK(result_sizes("aten::index.Tensor", {"f32[8, 6, 5]", "{i64[4]; -; i64[4]}"}) == "[4, 6]");
    CHECK(result_sizes("aten::index.Tensor", {"f32[8, 6, 5]", "{i64[]}"}) == "[6, 5]");
  }

  TEST_CASE("MasksGiveUnknownSizes") {
    const Call c = call("aten::index.Tensor", "x=2", {"f32[8, 6] S(0)", "{bool[8] S(0)}"});
    const Inference inference = infer_forward(rule(c), c);
    CHECK(answer(inference) == "R, R -> R");
    CHECK(inference.dynamic);
    CHECK(inference.output_sizes[0] == Shape{-1, -1});
  }

  TEST_CASE("WritesAlongASplitDim") {
    CHECK(forward("aten::index_add_", "x=2", {"!f32[8, 6] S(0)", "i64[4] R", "f32[4, 6] R"},
                  dim(0)) == "S(0), R, R -> S(0) ~index_write");
    CHECK(forward("aten::scatter_.src", "x=2", {"!f32[8, 6] S(1)", "i64[8, 3] R", "f32[8, 3] R"},
                  dim(1)) == "S(1), R, R -> S(1) ~index_write");
    CHECK(forward("aten::index_put_", "x=2", {"!f32[8, 6] S(0)", "{i64[4] R}", "f32[4, 6] R"},
                  {{"accumulate", false}}) == "S(0), R, R -> S(0) ~index_write");
    CHECK(forward("aten::index_copy", "x=2", {"f32[8, 6] S(1)", "i64[4] R", "f32[4, 6] R"},
                  dim(0)) == "S(1), R, S(1) -> S(1)");
  }

  TEST_CASE("AddingSplitsOverTheThingsAdded") {
    CHECK(forward("aten::index_add", "x=2", {"f32[8, 6] R", "i64[4] S(0)", "f32[4, 6] S(0)"},
                  dim(0)) == "R, S(0), S(0) -> P(sum) ~linear_addend");
    CHECK(forward("aten::scatter_add", "x=2",
                  {"f32[8, 6] P(sum)", "i64[4, 6] S(0)", "f32[4, 6] S(0)"},
                  dim(0)) == "P(sum), S(0), S(0) -> P(sum)");
    // In place the result must be what self is: whole.
    CHECK(forward("aten::index_add_", "x=2", {"!f32[8, 6] R", "i64[4] S(0)", "f32[4, 6] S(0)"},
                  dim(0)) == "R, R, R -> R");
    CHECK(forward("aten::index_put", "x=2", {"f32[8, 6] R", "{i64[4] S(0)}", "f32[4, 6] S(0)"},
                  {{"accumulate", true}}) == "R, S(0), S(0) -> P(sum) ~linear_addend");
    CHECK(forward("aten::index_put", "x=2", {"f32[8, 6] R", "{i64[4] S(0)}", "f32[4, 6] S(0)"},
                  {{"accumulate", false}}) == "R, R, R -> R");
  }

  TEST_CASE("ANumberUnderAMaskIsElementwise") {
    CHECK(forward("aten::index_put_", "x=2", {"!f32[8, 6] S(0)", "{bool[8, 6] R}", "f32[]"}) ==
          "S(0), S(0), R -> S(0)");
  }

  TEST_CASE("Membership") {
    CHECK(forward("aten::isin.Tensor_Tensor", "x=2", {"i64[8] S(0)", "i64[3] S(0)"}) ==
          "S(0), R -> S(0)");
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::gather", {"f32[8, 16]", "i64[8, 4]"}, {{"dim", std::int64_t{1}}}) ==
          "*d0 d1~gather, d0 i1 -> d0 i1 {d0=8, d1=16, i1=4}; any");
    CHECK(printed("aten::index_select", {"f32[8, 16]", "i64[4]"}, {{"dim", std::int64_t{0}}}) ==
          "*v~index_select d0, i -> i d0 {d0=16, v=8, i=4}; any");
    CHECK(printed("aten::index.Tensor", {"f32[8, 16]", "i64[4]"}) ==
          "*d0~index d1, i0 -> i0 d1 {d0=8, d1=16, i0=4}; any");
    CHECK(printed("aten::_unsafe_masked_index", {"f32[8, 16]", "bool[4, 1]", "i64[4]"},
                  {{"fill", std::int64_t{0}}}) ==
          "*d0! d1, i0 _, i0 -> i0 d1 {d0=8, d1=16, i0=4}; any");
    CHECK(printed("aten::take", {"f32[8, 16]", "i64[4]"}) == "*_=8 _=16, d0 -> d0 {d0=4}; any");
    CHECK(printed("hyper_parallel::gather_nd", {"f32[8, 4, 16]", "i64[6, 2]"}) ==
          "*d0! d1! d2, i0 _=2 -> i0 d2 {d0=8, d1=4, d2=16, i0=6}; any");
  }
}

}  // namespace hyper_parallel::rules::test
