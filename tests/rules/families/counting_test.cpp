#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("CountingRules") {
  TEST_CASE("Printed") {
    CHECK(
        printed("aten::histc", {"f32[8]"},
                {{"bins", std::int64_t{4}}, {"min", std::int64_t{-1}}, {"max", std::int64_t{1}}}) ==
        "d0 -> _=4 {d0=8}");
    CHECK(printed("aten::histogram.bin_ct", {"f32[8, 16]"}, {{"bins", std::int64_t{4}}}) ==
          "d0~histogram/R d1~histogram/R -> _=4, _=5 {d0=8, d1=16}");
    CHECK(printed("aten::segment_reduce", {"f32[8, 16]", "i64[3]"}, {{"axis", std::int64_t{0}}}) ==
          "d0! d1, _=3 -> _=3 d1 {d0=8, d1=16}; filled");
  }
}

}  // namespace hyper_parallel::rules::test
