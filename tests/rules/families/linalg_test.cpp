#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("LinalgRules") {
  TEST_CASE("BatchesPassAndMatricesAreWhole") {
    CHECK(table("aten::linalg_inv_ex", {"f32[4, 3, 3]"}) == "R -> R R\nS(0) -> S(0) S(0)    d0");
    CHECK(forward("aten::_linalg_svd", "x=2", {"f32[8, 5, 3] S(1)"}) == "R -> R, R, R");
    CHECK(forward("aten::_linalg_solve_ex", "a=2 b=2", {"f32[8, 3, 3] S(0) R", "f32[8, 3, 2] R R"},
                  {{"left", true}}) == "S(0) R, S(0) R -> S(0) R, S(0) R, S(0) R, S(0) R");
  }

  TEST_CASE("SizesOfResults") {
    CHECK(result_sizes("aten::_linalg_svd", {"f32[2, 5, 3]"}, {{"compute_uv", true}}) ==
          "[2, 5, 3] [2, 3] [2, 3, 3]");
    CHECK(result_sizes("aten::_linalg_svd", {"f32[2, 5, 3]"},
                       {{"compute_uv", true}, {"full_matrices", true}}) ==
          "[2, 5, 5] [2, 3] [2, 3, 3]");
    CHECK(result_sizes("aten::_linalg_svd", {"f32[2, 5, 3]"}, {{"compute_uv", false}}) ==
          "[0] [2, 3] [0]");
    CHECK(result_sizes("aten::linalg_qr", {"f32[5, 3]"}, {{"mode", std::string("complete")}}) ==
          "[5, 5] [5, 3]");
    CHECK(result_sizes("aten::linalg_qr", {"f32[5, 3]"}, {{"mode", std::string("r")}}) ==
          "[0] [3, 3]");
    CHECK(result_sizes("aten::_linalg_solve_ex", {"f32[4, 3, 3]", "f32[4, 3]"}) ==
          "[4, 3] [4, 3, 3] [4, 3] [4]");
    CHECK(result_sizes("aten::_linalg_solve_ex", {"f32[3, 3]", "f32[4, 2, 3]"},
                       {{"left", false}}) == "[4, 2, 3] [3, 3] [3] []");
  }

  TEST_CASE("WrongNumbersAreNamed") {
    CHECK(error([] { result_sizes("aten::linalg_qr", {"f32[5]"}); }).starts_with("[HP-S003]"));
    CHECK(error([] {
            result_sizes("aten::cholesky_solve", {"f32[2, 3, 1]", "f32[4, 3, 3]"});
          }).starts_with("[HP-S002]"));
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::_linalg_svd", {"f32[4, 8, 6]"}) ==
          "d0 _=8 _=6 -> d0 _=8 _=6, d0 _=6, d0 _=6 _=6 {d0=4}; filled");
    CHECK(printed("aten::linalg_qr", {"f32[4, 8, 6]"}) ==
          "d0 _=8 _=6 -> d0 _=8 _=6, d0 _=6 _=6 {d0=4}; filled");
    CHECK(printed("aten::_linalg_solve_ex", {"f32[4, 8, 8]", "f32[4, 8, 3]"}) ==
          "d0 _=8 _=8, d0 _=8 _=3 -> d0 _=8 _=3, d0 _=8 _=8, d0 _=8, d0 {d0=4}; filled");
    CHECK(printed("aten::linalg_lstsq", {"f32[4, 8, 6]", "f32[4, 8, 3]"}) ==
          "_=4 _=8 _=6, _=4 _=8 _=3 -> _=? _=? _=?, _=?, _=?, _=?; dynamic");
    CHECK(printed("aten::trace", {"f32[8, 32]"}) == "*m! n! -> () {m=8, n=32}");
    CHECK(printed("aten::linalg_cross", {"f32[8, 16]", "f32[8, 16]"},
                  {{"dim", std::int64_t{-1}}}) == "*d0 d!, *d0 d -> d0 d {d0=8, d=16}");
  }
}

}  // namespace hyper_parallel::rules::test
