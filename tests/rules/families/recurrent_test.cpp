#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("RecurrentRules") {
  TEST_CASE("Printed") {
    CHECK(printed("aten::lstm.input",
                  {"f32[6, 8, 4]", "{f32[1, 8, 3]; f32[1, 8, 3]}", "{f32[12, 4]; f32[12, 3]}"}) ==
          "_=6 b _=4, _ b _=3, _ b _=3, _=12 _=4, _=12 _=3 -> _=6 b _=3, _ b _=3, _ b _=3 {b=8}");
    CHECK(printed("aten::gru_cell", {"f32[8, 4]", "f32[8, 3]", "f32[9, 4]", "f32[9, 3]"}) ==
          "b _=4, b _=3, _=9 _=4, _=9 _=3 -> b _=3 {b=8}");
  }
}

}  // namespace hyper_parallel::rules::test
