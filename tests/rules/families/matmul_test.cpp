#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("MatmulRules") {
  TEST_CASE("MmSplitsEachLetterOnce") {
    CHECK(table("aten::mm", {"f32[8, 16]", "f32[16, 32]"}) ==
          "R R -> R\n"
          "S(0) R -> S(0)    m\n"
          "S(1) S(0) -> P(sum)    k\n"
          "R S(1) -> S(1)    n\n"
          "P(sum) R -> P(sum)\n"
          "R P(sum) -> P(sum)\n"
          "P(avg) R -> P(avg)\n"
          "R P(avg) -> P(avg)");
  }

  TEST_CASE("AddmmAddendIsPartialWhereTheSumIsSplit") {
    CHECK(table("aten::addmm", {"f32[32]", "f32[8, 16]", "f32[16, 32]"}) ==
          "R R R -> R\n"
          "R S(0) R -> S(0)    m\n"
          "S(0) R S(1) -> S(1)    n\n"
          "P(sum) S(1) S(0) -> P(sum)    k\n"
          "P(sum) P(sum) R -> P(sum)\n"
          "P(sum) R P(sum) -> P(sum)\n"
          "P(avg) P(avg) R -> P(avg)\n"
          "P(avg) R P(avg) -> P(avg)");
  }

  TEST_CASE("BaddbmmAddendBroadcasts") {
    CHECK(forward("aten::baddbmm", "x=2",
                  {"f32[4, 1, 32] R", "f32[4, 8, 16] S(0)", "f32[4, 16, 32] R"}) ==
          "S(0), S(0), S(0) -> S(0)");
    CHECK(forward("aten::baddbmm", "x=2",
                  {"f32[1, 1, 32] R", "f32[4, 8, 16] S(1)", "f32[4, 16, 32] R"}) ==
          "R, S(1), R -> S(1)");
  }

  TEST_CASE("LinearColumnThenRow") {
    CHECK(forward("aten::linear", "dp=2 tp=4",
                  {"f32[2, 8, 16] S(0) R", "f32[32, 16] R S(0)", "f32[32] R S(0)"}) ==
          "S(0) R, R S(0), R S(0) -> S(0) S(2)");
    CHECK(forward("aten::linear", "dp=2 tp=4",
                  {"f32[2, 8, 32] S(0) S(2)", "f32[16, 32] R S(1)", "f32[16] R R"}) ==
          "S(0) S(2), R S(1), R R -> S(0) P(sum) ~linear_addend");
    CHECK(forward("aten::linear", "dp=2 tp=4",
                  {"f32[2, 8, 32] S(0) S(2)", "f32[16, 32] R S(1)", "-"}) ==
          "S(0) S(2), R S(1), - -> S(0) P(sum)");
  }

  TEST_CASE("LinearKeepsSegmentsOfAFusedWeight") {
    CHECK(forward("aten::linear", "tp=4",
                  {"f32[8, 16] R", "f32[48, 16] S(0; segments=32|8|8)",
                   "f32[48] S(0; segments=32|8|8)"}) ==
          "R, S(0; segments=32|8|8), S(0; segments=32|8|8) -> S(1; segments=32|8|8)");
  }

  TEST_CASE("MatmulByNumbersOfDims") {
    CHECK(result_sizes("aten::matmul", {"f32[8]", "f32[8]"}) == "[]");
    CHECK(result_sizes("aten::matmul", {"f32[8]", "f32[3, 8, 4]"}) == "[3, 4]");
    CHECK(result_sizes("aten::matmul", {"f32[3, 6, 8]", "f32[8]"}) == "[3, 6]");
    CHECK(result_sizes("aten::matmul", {"f32[2, 1, 6, 8]", "f32[4, 8, 5]"}) == "[2, 4, 6, 5]");
    // The dim of size 1 is broadcast: it is on no rank's account.
    CHECK(forward("aten::matmul", "x=2", {"f32[2, 1, 6, 8] R", "f32[4, 8, 5] S(0)"}) ==
          "R, S(0) -> S(1)");
    CHECK(forward("aten::matmul", "x=2", {"f32[4, 6, 8] S(2)", "f32[8] R"}) ==
          "S(2), S(0) -> P(sum)");
  }

  TEST_CASE("EinsumIsReadFromItsEquation") {
    const auto einsum = [](std::string equation, const std::vector<std::string>& operands) {
      return forward("aten::einsum", "x=2", operands, {{"equation", std::move(equation)}});
    };
    CHECK(einsum("bij,jk->bik", {"{f32[2, 4, 16] S(2); f32[16, 8] R}"}) == "S(2), S(0) -> P(sum)");
    // Without "->" the letters that stand once are the result: b and j are summed over.
    CHECK(einsum("bij, bjk", {"{f32[2, 4, 16] S(0); f32[2, 16, 8] R}"}) == "S(0), S(0) -> P(sum)");
    CHECK(einsum("...i,ij", {"{f32[2, 4, 6] S(1); f32[6, 4] R}"}) == "S(1), R -> S(1)");
    CHECK(einsum("ii->i", {"{f32[6, 6] S(0)}"}) == "R -> R");  // a diagonal
  }

  TEST_CASE("OtherContractions") {
    CHECK(forward("aten::bmm", "x=2", {"f32[4, 8, 6] S(0)", "f32[4, 6, 5] R"}) ==
          "S(0), S(0) -> S(0)");
    CHECK(forward("aten::mv", "x=2", {"f32[8, 6] S(1)", "f32[6] S(0)"}) == "S(1), S(0) -> P(sum)");
    CHECK(forward("aten::dot", "x=2", {"f32[8] S(0)", "f32[8] R"}) == "S(0), S(0) -> P(sum)");
    CHECK(forward("aten::outer", "x=2", {"f32[8] S(0)", "f32[6] R"}) == "S(0), R -> S(0)");
    CHECK(forward("aten::inner", "x=2", {"f32[4, 8] S(0)", "f32[6, 8] R"}) == "S(0), R -> S(0)");
    CHECK(forward("aten::addmv", "x=2", {"f32[8] R", "f32[8, 6] S(1)", "f32[6] R"}) ==
          "R, S(1), S(0) -> P(sum) ~linear_addend");
    CHECK(forward("aten::_grouped_mm", "x=2",
                  {"f32[16, 8] R", "f32[4, 8, 6] S(2)", "i32[4] R", "-"}) ==
          "R, S(2; block=4), R, - -> S(1; block=4)");
  }

  TEST_CASE("GradientsOfAColumnAndARowLinear") {
    CHECK(grad("aten::linear", "dp=2 tp=4",
               {"f32[2, 8, 16] S(0) R", "f32[32, 16] R S(0)", "f32[32] R S(0)"}) ==
          "S(0) P(sum), P(sum) S(0), P(sum) S(0)");
    CHECK(grad("aten::linear", "dp=2 tp=4",
               {"f32[2, 8, 32] S(0) S(2)", "f32[16, 32] R S(1)", "f32[16] R R"}) ==
          "S(0) S(2), P(sum) S(1), P(sum) P(sum)");
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::addmm", {"f32[8, 32]", "f32[8, 16]", "f32[16, 32]"}) ==
          "+m n, *m k, *k n -> m n {m=8, n=32, k=16}");
    CHECK(printed("aten::matmul", {"f32[4, 8, 16]", "f32[16, 32]"}) ==
          "*d0 m k, *k n -> d0 m n {d0=4, m=8, k=16, n=32}");
    CHECK(printed("aten::einsum", {"{f32[8, 16]; f32[16, 4]}"},
                  {{"equation", std::string("mk,kn->mn")}}) ==
          "*m k, *k n -> m n {m=8, k=16, n=4}");
    CHECK(printed("aten::bilinear", {"f32[8, 8]", "f32[8, 8]", "f32[8, 8, 8]", "f32[8]"}) ==
          "*d0 i, *d0 j, *o i j, +o -> d0 o {d0=8, i=8 nonempty, j=8 nonempty, o=8 nonempty}");
    CHECK(printed("aten::_pdist_forward", {"f32[8, 16]"}) == "_=8 _=16 -> _=28");
  }
}

}  // namespace hyper_parallel::rules::test
