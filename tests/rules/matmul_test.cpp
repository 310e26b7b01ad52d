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
}

}  // namespace hyper_parallel::rules::test
