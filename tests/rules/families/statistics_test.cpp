#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("StatisticsRules") {
  TEST_CASE("Printed") {
    CHECK(printed("hyper_parallel::batch_norm",
                  {"f32[8, 4, 6]", "f32[4]", "f32[4]", "f32[4]", "f32[4]"}, {{"training", true}}) ==
          "d0~batch_norm d1 d2~batch_norm, d1, +!d1, d1, d1 -> d0 d1 d2, d1, d1, d1, d1 {d0=8, "
          "d1=4 nonempty, d2=6}");
    CHECK(printed("hyper_parallel::group_norm", {"f32[8, 4, 6]", "f32[4]", "f32[4]"},
                  {{"num_groups", std::int64_t{2}}}) ==
          "d0 d1! d2!, d1, +!d1 -> d0 d1 d2, d0 _=2, d0 _=2 {d0=8, d1=4, d2=6}");
    CHECK(printed("hyper_parallel::instance_norm", {"f32[8, 4, 6]", "f32[4]", "f32[4]"}) ==
          "d0 d1 d2!, d1, +!d1 -> d0 d1 d2, d0 d1, d0 d1 {d0=8, d1=4, d2=6}");
  }
}

}  // namespace hyper_parallel::rules::test
