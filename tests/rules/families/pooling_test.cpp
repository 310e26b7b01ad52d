#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("PoolingRules") {
  TEST_CASE("Printed") {
    CHECK(printed("aten::avg_pool2d", {"f32[8, 4, 16, 16]"}, {{"kernel_size", Ints{2, 2}}}) ==
          "*d0 d1 d2~halo=16 d3~halo=16 -> d0 d1 d2 d3 {d0=8, d1=4 nonempty, d2=8 plain window(16 "
          "-> 8 kernel=2 stride=2), d3=8 plain window(16 -> 8 kernel=2 stride=2)}");
    CHECK(printed("aten::max_pool2d_with_indices", {"f32[8, 4, 16, 16]"},
                  {{"kernel_size", Ints{2, 2}}}) ==
          "d0 d1 d2~halo=16 d3~halo=16 -> d0 d1 d2 d3, d0 d1 d2 d3 {d0=8, d1=4 nonempty, d2=8 "
          "plain window(16 -> 8 kernel=2 stride=2), d3=8 plain window(16 -> 8 kernel=2 stride=2)}");
    CHECK(printed("aten::adaptive_avg_pool2d", {"f32[8, 4, 16, 16]"},
                  {{"output_size", Ints{8, 8}}}) ==
          "*d0 d1 d2~halo=16 d3~halo=16 -> d0 d1 d2 d3 {d0=8, d1=4 nonempty, d2=8 plain window(16 "
          "-> 8 kernel=2 stride=2), d3=8 plain window(16 -> 8 kernel=2 stride=2)}");
    CHECK(
        printed("aten::upsample_nearest2d", {"f32[8, 4, 16, 16]"}, {{"output_size", Ints{8, 8}}}) ==
        "*d0 d1 d2! d3! -> d0 d1 _=8 _=8 {d0=8, d1=4 nonempty, d2=16, d3=16}");
    CHECK(printed("aten::max_pool2d_with_indices_backward",
                  {"f32[8, 4, 8, 8]", "f32[8, 4, 16, 16]", "i64[8, 4, 8, 8]"}) ==
          "*d0 d1 _=8 _=8, d0 d1 _=16 _=16, d0 d1 _=8 _=8 -> d0 d1 _=16 _=16 {d0=8, d1=4}; filled");
  }
}

}  // namespace hyper_parallel::rules::test
