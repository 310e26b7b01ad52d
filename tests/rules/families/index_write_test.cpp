#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("IndexWriteRules") {
  TEST_CASE("Printed") {
    CHECK(printed("aten::scatter.src", {"f32[8, 16]", "i64[8, 4]", "f32[8, 4]"},
                  {{"dim", std::int64_t{1}}}) ==
          "*d0 d1~index_write, d0 i1!, *1 d0 i1 -> d0 d1 {d0=8, d1=16, i1=4}; any");
    CHECK(printed("aten::scatter_add", {"f32[8, 16]", "i64[8, 4]", "f32[8, 4]"},
                  {{"dim", std::int64_t{1}}}) ==
          "+d0 d1~index_write, d0 i1, *1 d0 i1 -> d0 d1 {d0=8, d1=16, i1=4}");
    CHECK(printed("aten::scatter.value", {"f32[8, 16]", "i64[8, 4]"}, {{"dim", std::int64_t{1}}}) ==
          "d0 d1~index_write, d0 i1! -> d0 d1 {d0=8, d1=16, i1=4}");
    CHECK(printed("aten::index_put", {"f32[8, 16]", "i64[4]", "f32[4, 16]"},
                  {{"accumulate", true}}) ==
          "+d0~index_write d1, i0, *1 i0 d1 -> d0 d1 {d0=8, d1=16, i0=4}");
    CHECK(printed("aten::_unsafe_masked_index_put_accumulate",
                  {"f32[8, 16]", "bool[4, 1]", "i64[4]", "f32[4, 16]"}) ==
          "+d0! d1, i0 _, i0, *1 i0 d1 -> d0 d1 {d0=8, d1=16, i0=4}");
    CHECK(printed("aten::index_add", {"f32[8, 16]", "i64[4]", "f32[4, 16]"},
                  {{"dim", std::int64_t{0}}}) ==
          "+v~index_write d0, t, *t d0 -> v d0 {d0=16, v=8, t=4}");
    CHECK(printed("hyper_parallel::scatter_nd_add", {"f32[8, 16]", "i64[6, 1]", "f32[6, 16]"}) ==
          "+d0~index_write d1, i0 _, *1 i0 d1 -> d0 d1 {d0=8, d1=16, i0=6}");
  }
}

}  // namespace hyper_parallel::rules::test
