#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

Attrs dim(std::int64_t d) { return {{"dim", d}}; }

}  // namespace

TEST_SUITE("ScanRules") {
  TEST_CASE("Scans") {
    CHECK(forward("aten::cumsum", "x=2", {"f32[40, 60] S(1)"}, dim(1)) == "S(1) -> S(1) ~cumsum");
    CHECK(forward("aten::cumsum", "x=2", {"f32[40, 60] S(0)"}, dim(1)) == "S(0) -> S(0)");
    CHECK(forward("aten::cumsum", "x=2", {"f32[40, 60] P(sum)"}, dim(1)) == "P(sum) -> P(sum)");
    CHECK(forward("aten::cumprod", "x=2", {"f32[40, 60] S(1)"}, dim(1)) == "R -> R");
    CHECK(forward("aten::cummax", "x=2", {"f32[40, 60] S(0)"}, dim(1)) == "S(0) -> S(0), S(0)");
  }

  TEST_CASE("SortsAndLargest") {
    const Attrs two = {{"k", std::int64_t{2}}, {"dim", std::int64_t{-1}}};
    CHECK(forward("aten::topk", "x=2", {"f32[4, 600] S(1)"}, two) == "S(1) -> R, R ~topk");
    CHECK(forward("aten::topk", "x=2", {"f32[4, 6] S(0)"}, two) == "S(0) -> S(0), S(0)");
    CHECK(result_sizes("aten::topk", {"f32[4, 6]"}, two) == "[4, 2] [4, 2]");
    CHECK(forward("aten::sort", "x=2", {"f32[4, 6] S(0)"}, dim(1)) == "S(0) -> S(0), S(0)");
    CHECK(forward("aten::argsort", "x=2", {"f32[4, 6] P(sum)"}, dim(1)) == "R -> R");
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::cumsum", {"f32[8, 16]"}, {{"dim", std::int64_t{1}}}) ==
          "*d0 d~cumsum -> d0 d {d0=8, d=16}");
    CHECK(printed("aten::cummax", {"f32[8, 16]"}, {{"dim", std::int64_t{1}}}) ==
          "d0 d! -> d0 d, d0 d {d0=8, d=16}");
  }
}

}  // namespace hyper_parallel::rules::test
