#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("OtherRules") {
  TEST_CASE("CountsInFixedBinsAddUp") {
    CHECK(
        forward("aten::histc", "x=2", {"f32[8, 6] S(0)"},
                {{"bins", std::int64_t{10}}, {"min", std::int64_t{0}}, {"max", std::int64_t{9}}}) ==
        "S(0) -> P(sum)");
    CHECK(
        forward("aten::histc", "x=2", {"f32[8, 6] S(0)"},
                {{"bins", std::int64_t{10}}, {"min", std::int64_t{0}}, {"max", std::int64_t{0}}}) ==
        "R -> R");
  }

  TEST_CASE("TransformsAndSolvesPassBatches") {
    CHECK(forward("aten::_fft_c2c", "x=2", {"c64[8, 6] S(0)"}, {{"dim", Ints{1}}}) ==
          "S(0) -> S(0)");
    CHECK(forward("aten::_fft_c2c", "x=2", {"c64[8, 6] S(1)"}, {{"dim", Ints{1}}}) == "R -> R");
    CHECK(result_sizes("aten::_fft_r2c", {"f32[8, 6]"},
                       {{"dim", Ints{0, 1}}, {"onesided", true}}) == "[8, 4]");
    CHECK(result_sizes("aten::_fft_c2r", {"c64[8, 4]"},
                       {{"dim", Ints{1}}, {"last_dim_size", std::int64_t{6}}}) == "[8, 6]");
    CHECK(forward("aten::_fft_r2c", "x=2", {"f32[8, 6] P(sum)"}, {{"dim", Ints{1}}}) ==
          "P(sum) -> P(sum)");
    CHECK(forward("aten::searchsorted.Tensor", "x=2", {"f32[9] R", "f32[4, 6] S(1)", "-"}) ==
          "R, S(1), - -> S(1)");
    CHECK(error([] {
            forward("aten::searchsorted.Tensor", "x=2", {"f32[4, 9]", "f32[6, 6]", "-"});
          }).starts_with("[HP-S002] aten::searchsorted.Tensor"));
    CHECK(error([] {
            forward("aten::searchsorted.Tensor", "x=2", {"f32[4, 9]", "f32[4, 6]", "i64[]"});
          }).starts_with("[HP-S003] aten::searchsorted.Tensor"));
    CHECK(result_sizes("aten::linalg_cross", {"f32[1, 3]", "f32[4, 3]"}) == "[4, 3]");
    CHECK(forward("aten::linalg_solve_triangular", "x=2",
                  {"f32[2, 4, 4] S(0)", "f32[2, 4, 3] R"}) == "S(0), S(0) -> S(0)");
    CHECK(forward("aten::linalg_cross", "x=2", {"f32[4, 3] S(0)", "f32[4, 3] S(0)"},
                  {{"dim", std::int64_t{-1}}}) == "S(0), S(0) -> S(0)");
  }

  TEST_CASE("GroupedProductsByTheirDims") {
    CHECK(result_sizes("aten::_grouped_mm", {"f32[16, 8]", "f32[4, 8, 6]", "i32[4]", "-"}) ==
          "[16, 6]");
    CHECK(result_sizes("aten::_grouped_mm", {"f32[8, 16]", "f32[16, 6]", "i32[4]", "-"}) ==
          "[4, 8, 6]");
    CHECK(forward("aten::_grouped_mm", "x=2",
                  {"f32[16, 8] S(1)", "f32[4, 8, 6] S(1)", "i32[4]", "-"}) ==
          "S(1), S(1), R, - -> P(sum)");
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::_fft_r2c", {"f32[8, 16]"}, {{"dim", Ints{1}}}) ==
          "*d0 d1! -> d0 _=9 {d0=8, d1=16}; filled");
    CHECK(printed("aten::_grouped_mm", {"f32[16, 8]", "f32[4, 8, 16]", "i32[4]"}) ==
          "*t! k, *e! k n, e -> t n {t=16, k=8 block=4 nonempty, e=4, n=16 block=4 nonempty}");
    CHECK(printed("aten::renorm", {"f32[8, 16]"},
                  {{"p", 2.0}, {"dim", std::int64_t{0}}, {"maxnorm", 1.0}}) ==
          "d0 d1! -> d0 d1 {d0=8, d1=16}");
    CHECK(printed("aten::searchsorted.Tensor", {"f32[8, 16]", "f32[8, 4]"}) ==
          "d0 _=16, d0 d1 -> d0 d1 {d0=8, d1=4}");
  }
}

}  // namespace hyper_parallel::rules::test
