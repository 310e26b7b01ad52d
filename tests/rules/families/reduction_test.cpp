#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

Attrs over(Ints dims, bool keepdim = false) {
  return {{"dim", std::move(dims)}, {"keepdim", keepdim}};
}

}  // namespace

TEST_SUITE("ReductionRules") {
  TEST_CASE("SumsBecomePartial") {
    CHECK(table("aten::sum.dim_IntList", {"f32[4, 6]"}, over({1})) ==
          "R -> R\n"
          "S(0) -> S(0)    d0\n"
          "S(1) -> P(sum)    d1\n"
          "P(sum) -> P(sum)\n"
          "P(avg) -> P(avg)");
    CHECK(forward("aten::sum.dim_IntList", "a=2 b=2", {"f32[4, 6, 8] S(0) S(2)"},
                  over({0, -1}, true)) == "S(0) S(2) -> P(sum) P(sum)");
    CHECK(result_sizes("aten::sum.dim_IntList", {"f32[4, 6, 8]"}, over({0, -1}, true)) ==
          "[1, 6, 1]");
    CHECK(result_sizes("aten::sum.dim_IntList", {"f32[4, 6, 8]"}, over({})) == "[]");
  }

  TEST_CASE("MeansDivideByTheGlobalCount") {
    CHECK(forward("aten::mean.dim", "x=2", {"f32[4, 7] S(1)"}, over({1})) ==
          "S(1) -> P(sum) ~mean");
    CHECK(forward("aten::mean.dim", "x=2", {"f32[4, 7] S(0)"}, over({1})) == "S(0) -> S(0)");
    CHECK(grad("aten::mean.dim", "x=2", {"f32[4, 7] S(1)"}, over({1})) == "S(1)");
  }

  TEST_CASE("ExtremesAndTruthValues") {
    CHECK(forward("aten::max", "x=2", {"f32[4, 6] S(0)"}) == "S(0) -> P(max)");
    CHECK(forward("aten::amin", "x=2", {"f32[4, 6] S(1)"}, over({1})) == "S(1) -> P(min)");
    CHECK(forward("aten::any", "x=2", {"bool[4, 6] S(0)"}) == "S(0) -> P(max)");
    CHECK(forward("aten::any", "x=2", {"bool[4, 6] P(max)"}) == "P(max) -> P(max)");
    CHECK(forward("aten::any", "x=2", {"f32[4, 6] P(max)"}) == "R -> R");
    CHECK(forward("aten::all", "x=2", {"bool[4, 6] S(0)"}) == "S(0) -> P(min)");
    CHECK(forward("aten::prod", "x=4", {"f32[2] S(0)"}) == "S(0) -> P(prod)");
    CHECK(forward("aten::count_nonzero", "x=2", {"f32[4, 6] S(0)"}) == "S(0) -> P(sum)");
    CHECK(forward("aten::count_nonzero", "x=2", {"f32[4, 6] P(sum)"}) == "R -> R");
  }

  TEST_CASE("HandlersThatFinishTheResult") {
    const Attrs last = {{"dim", std::int64_t{-1}}, {"keepdim", false}};
    CHECK(forward("aten::max.dim", "x=2", {"f32[4, 60] S(1)"}, last) == "S(1) -> R, R ~minmax_dim");
    CHECK(forward("aten::max.dim", "x=2", {"f32[4, 6] S(0)"}, last) == "S(0) -> S(0), S(0)");
    CHECK(forward("aten::argmax", "x=2", {"f32[4, 600] S(1)"}, last) == "S(1) -> R ~argmax");
    CHECK(forward("aten::logsumexp", "x=2", {"f32[4, 600] S(1)"}, over({1})) ==
          "S(1) -> R ~logsumexp");
    CHECK(forward("aten::linalg_vector_norm", "a=2 b=2", {"f32[40, 60] S(0) S(1)"}) ==
          "S(0) S(1) -> R R ~norm");
    CHECK(forward("aten::var.dim", "x=2", {"f32[40, 60] S(1)"}, over({1})) == "S(1) -> R ~var");
    CHECK(forward("aten::median.dim", "x=2", {"f32[40, 60] S(1)"}, last) == "R -> R, R");
  }

  TEST_CASE("AHandlerThatMovesMoreThanAGatherIsNotTaken") {
    CHECK(forward("aten::var.dim", "x=2", {"f32[40, 2] S(1)"}, over({1})) == "R -> R");
  }

  TEST_CASE("BadDimsAreNamed") {
    CHECK(error([] {
            forward("aten::sum.dim_IntList", "x=2", {"f32[4] R"}, over({0, 0}));
          }).starts_with("[HP-S004] aten::sum.dim_IntList: a dim is listed twice"));
  }

  TEST_CASE("WhereAGradientIsWantedMaximaAreFinished") {
    const Attrs plain = {{"dim", Ints{0}}};
    const Attrs grad = {{"dim", Ints{0}}, {"requires_grad", true}};
    CHECK(forward("aten::amax", "x=2", {"f32[8, 6] S(0)"}, plain) == "S(0) -> P(max)");
    CHECK(forward("aten::amax", "x=2", {"f32[8, 6] S(0)"}, grad) == "S(0) -> R ~extreme");
    CHECK(forward("aten::prod", "x=2", {"f32[8, 6] S(0)"}, grad) == "S(0) -> R ~prod");
    // Three parts of 2 of 4: the last rank has nothing to compare.
    CHECK(forward("aten::amax", "x=3", {"f32[4, 6] S(0)"}, grad) == "R -> R");
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::sum.dim_IntList", {"f32[8, 16]"}, {{"dim", Ints{1}}}) ==
          "*d0 d1 -> d0 {d0=8, d1=16}");
    CHECK(printed("aten::mean.dim", {"f32[8, 16]"}, {{"dim", Ints{1}}}) ==
          "*d0 d1~mean -> d0 {d0=8, d1=16}");
    CHECK(printed("aten::amax", {"f32[8, 16]"}, {{"dim", Ints{1}}}) ==
          "*d0 d1 -> d0 {d0=8, d1=16 nonempty}; max, same");
    CHECK(printed("aten::any.dim", {"f32[8, 16]"}, {{"dim", Ints{1}}}) ==
          "d0 d1 -> d0 {d0=8, d1=16 nonempty}; max, same");
    CHECK(printed("aten::max.dim", {"f32[8, 16]"}, {{"dim", std::int64_t{1}}}) ==
          "d0 d1~minmax_dim/R -> d0, d0 {d0=8, d1=16}");
    CHECK(printed("aten::argmax", {"f32[8, 16]"}, {{"dim", std::int64_t{1}}}) ==
          "d0 d1~argmax/R -> d0 {d0=8, d1=16}");
    CHECK(printed("aten::var_mean.correction", {"f32[8, 16]"}, {{"dim", Ints{1}}}) ==
          "d0 d1~var/R -> d0, d0 {d0=8, d1=16}");
    CHECK(printed("aten::prod", {"f32[8, 16]"}, {{"dim", Ints{1}}}) ==
          "*d0 d1 -> d0 {d0=8, d1=16}; prod, same");
  }
}

}  // namespace hyper_parallel::rules::test
