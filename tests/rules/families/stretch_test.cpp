#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("StretchRules") {
  TEST_CASE("Printed") {
    CHECK(printed("aten::repeat", {"f32[8, 16]"}, {{"repeats", Ints{2, 1}}}) ==
          "*d0 d1 -> (r! d0) d1 {d0=8, d1=16, r=2}; any");
    CHECK(printed("aten::repeat_interleave.self_int", {"f32[8, 16]"},
                  {{"repeats", std::int64_t{2}}, {"dim", std::int64_t{0}}}) ==
          "*d0 d1 -> (d0 r!) d1 {d0=8, d1=16, r=2}; any");
    CHECK(printed("aten::unfold", {"f32[8, 16]"},
                  {{"dimension", std::int64_t{1}},
                   {"size", std::int64_t{4}},
                   {"step", std::int64_t{4}}}) == "*d0 d1! -> d0 _=4 _=4 {d0=8, d1=16}; any, view");
    CHECK(printed("aten::unfold_backward", {"f32[4, 16, 2]"},
                  {{"input_sizes", Ints{8, 16}},
                   {"dim", std::int64_t{0}},
                   {"size", std::int64_t{2}},
                   {"step", std::int64_t{2}}}) ==
          "*d0! d1 d2! -> _=8 d1 {d0=4, d1=16, d2=2}; input_sizes:=shape 0");
    CHECK(printed("aten::diagonal", {"f32[4, 8, 8]"},
                  {{"dim1", std::int64_t{1}}, {"dim2", std::int64_t{2}}}) ==
          "*d0 d1! d2! -> d0 _=8 {d0=4, d1=8, d2=8}; any, view");
    CHECK(printed("aten::diag_embed", {"f32[8, 16]"}) ==
          "*d0 d1! -> d0 _=16 _=16 {d0=8, d1=16}; any");
  }
}

}  // namespace hyper_parallel::rules::test
