#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

Attrs range(std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step = 1) {
  return {{"dim", dim}, {"start", start}, {"end", end}, {"step", step}};
}

}  // namespace

TEST_SUITE("SliceRules") {
  TEST_CASE("TheSlicedDimMustBeWhole") {
    CHECK(forward("aten::slice.Tensor", "x=2", {"f32[8, 6] S(0)"}, range(0, 0, 4)) == "R -> R");
    CHECK(forward("aten::slice.Tensor", "x=2", {"f32[8, 6] S(1)"}, range(0, 0, 4)) ==
          "S(1) -> S(1)");
    CHECK(forward("aten::slice.Tensor", "x=2", {"f32[8, 6] S(0)"}, range(0, 0, INT64_MAX)) ==
          "S(0) -> S(0)");
    CHECK(result_sizes("aten::slice.Tensor", {"f32[8, 6]"}, range(0, -3, -1)) == "[2, 6]");
    CHECK(result_sizes("aten::slice.Tensor", {"f32[8, 6]"}, range(0, 1, 100, 3)) == "[3, 6]");
    CHECK(result_sizes("aten::slice.Tensor", {"f32[8, 6]"}, range(0, 5, 2)) == "[0, 6]");
  }

  TEST_CASE("WholeSegmentsAreTakenFromEachPart") {
    const auto taken = [](std::int64_t start, std::int64_t end, std::int64_t step = 1) {
      return forward("aten::slice.Tensor", "x=2", {"f32[64, 6] S(0; segments=32|16|16)"},
                     range(0, start, end, step));
    };
    CHECK(taken(0, 32) == "S(0; segments=32|16|16) -> S(0) ~slice");
    CHECK(taken(32, 48) == "S(0; segments=32|16|16) -> S(0) ~slice");
    CHECK(taken(-16, INT64_MAX) == "S(0; segments=32|16|16) -> S(0) ~slice");
    CHECK(taken(0, 48) == "S(0; segments=32|16|16) -> S(0; segments=32|16) ~slice");
    CHECK(taken(0, 16) == "R -> R");
    CHECK(taken(32, 40) == "R -> R");
    CHECK(taken(0, 32, 2) == "R -> R");
    CHECK(forward("aten::slice.Tensor", "x=2", {"f32[4, 6] S(0; segments=3|1)"}, range(0, 0, 3)) ==
          "R -> R");
  }

  TEST_CASE("SelectDropsADim") {
    const Attrs first = {{"dim", std::int64_t{0}}, {"index", std::int64_t{-1}}};
    CHECK(forward("aten::select.int", "x=2", {"f32[8, 6] S(1)"}, first) == "S(1) -> S(0)");
    CHECK(forward("aten::select.int", "x=2", {"f32[8, 6] S(0)"}, first) == "R -> R");
    CHECK(error([] {
            forward("aten::select.int", "x=2", {"f32[8] R"},
                    {{"dim", std::int64_t{0}}, {"index", std::int64_t{8}}});
          }).starts_with("[HP-S010] aten::select.int: index 8 is out of range"));
  }

  TEST_CASE("PaddedDimsMustBeWhole") {
    const Attrs last = {{"pad", Ints{1, 2}}};
    CHECK(forward("aten::constant_pad_nd", "x=2", {"f32[4, 6] S(0)"}, last) == "S(0) -> S(0)");
    CHECK(forward("aten::constant_pad_nd", "x=2", {"f32[4, 6] S(1)"}, last) == "R -> R");
    CHECK(forward("aten::constant_pad_nd", "x=2", {"f32[4, 6] P(sum)"}, {{"pad", Ints{1, -2}}}) ==
          "P(sum) -> P(sum)");
    CHECK(forward("aten::pad", "x=2", {"f32[4, 6] P(sum)"},
                  {{"pad", Ints{1, -2}}, {"mode", std::string("constant")}, {"value", 1.0}}) ==
          "R -> R");
    CHECK(result_sizes("aten::pad", {"f32[4, 6]"}, {{"pad", Ints{1, 2, 3, 4}}}) == "[11, 9]");
  }

  TEST_CASE("MovedDimsMustBeWhole") {
    CHECK(forward("aten::flip", "x=2", {"f32[4, 6] S(0)"}, {{"dims", Ints{0}}}) == "R -> R");
    CHECK(forward("aten::flip", "x=2", {"f32[4, 6] S(1)"}, {{"dims", Ints{0}}}) == "S(1) -> S(1)");
    CHECK(forward("aten::roll", "x=2", {"f32[4, 6] S(1)"},
                  {{"shifts", Ints{1}}, {"dims", Ints{0}}}) == "S(1) -> S(1)");
    CHECK(forward("aten::roll", "x=2", {"f32[4, 6] S(1)"}, {{"shifts", Ints{1}}}) == "R -> R");
    CHECK(forward("aten::tril", "x=2", {"f32[3, 4, 6] S(0)"}) == "S(0) -> S(0)");
    CHECK(forward("aten::tril", "x=2", {"f32[3, 4, 6] S(1)"}) == "R -> R");
  }

  TEST_CASE("RepeatsKeepCopiesTogether") {
    CHECK(forward("aten::repeat", "x=2", {"f32[4, 6] S(0)"}, {{"repeats", Ints{3, 1}}}) ==
          "S(0) -> S(0; segments=4|4|4)");
    CHECK(result_sizes("aten::repeat", {"f32[4, 6]"}, {{"repeats", Ints{2, 3, 1}}}) ==
          "[2, 12, 6]");
    CHECK(forward("aten::repeat_interleave.self_int", "x=2", {"f32[3, 6] S(0)"},
                  {{"repeats", std::int64_t{4}}, {"dim", std::int64_t{0}}}) ==
          "S(0) -> S(0; block=4)");
    CHECK(forward("aten::repeat_interleave.self_int", "x=2", {"f32[4, 6] S(0)"},
                  {{"repeats", std::int64_t{4}}, {"dim", std::int64_t{0}}}) == "S(0) -> S(0)");
  }

  TEST_CASE("WindowsAndDiagonals") {
    CHECK(result_sizes("aten::unfold", {"f32[4, 9]"},
                       {{"dimension", std::int64_t{1}},
                        {"size", std::int64_t{3}},
                        {"step", std::int64_t{2}}}) == "[4, 4, 3]");
    CHECK(result_sizes("aten::diagonal", {"f32[4, 6, 5]"},
                       {{"offset", std::int64_t{1}},
                        {"dim1", std::int64_t{0}},
                        {"dim2", std::int64_t{2}}}) == "[6, 4]");
    CHECK(forward("aten::as_strided", "x=2", {"f32[4, 6] S(0)"}, {{"size", Ints{2, 3}}}) ==
          "R -> R");
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::select.int", {"f32[8, 16]"},
                  {{"dim", std::int64_t{0}}, {"index", std::int64_t{1}}}) ==
          "*d0! d1 -> d1 {d0=8, d1=16}; any, view");
    CHECK(printed("aten::constant_pad_nd", {"f32[8, 16]"}, {{"pad", Ints{1, 1}}}) ==
          "*d0 d1! -> d0 _=18 {d0=8, d1=16}; any");
    CHECK(printed("aten::roll", {"f32[8, 16]"}, {{"dims", Ints{0}}, {"shifts", Ints{1}}}) ==
          "*d0! d1 -> _=8 d1 {d0=8, d1=16}; any");
    CHECK(printed("aten::tril", {"f32[4, 8, 16]"}) ==
          "*d0 d1! d2! -> d0 _=8 _=16 {d0=4, d1=8, d2=16}; any");
    CHECK(
        printed("aten::slice_scatter", {"f32[8, 16]", "f32[8, 4]"},
                {{"dim", std::int64_t{1}}, {"start", std::int64_t{0}}, {"end", std::int64_t{4}}}) ==
        "*d0 d1!, *1 d0 _=4 -> d0 d1 {d0=8, d1=16}; any");
    CHECK(printed("aten::diagonal_scatter", {"f32[4, 8, 8]", "f32[8, 4]"},
                  {{"dim1", std::int64_t{0}}, {"dim2", std::int64_t{1}}}) ==
          "*d0! d1! d2, *1 d2 _=4 -> d0 d1 d2 {d0=4, d1=8, d2=8}; any");
    CHECK(printed("aten::rot90", {"f32[8, 16]"}, {{"k", std::int64_t{1}}, {"dims", Ints{0, 1}}}) ==
          "*d0! d1! -> _=16 _=8 {d0=8, d1=16}; any");
    CHECK(printed("hyper_parallel::slice", {"f32[8, 4, 16]"},
                  {{"axes", Ints{1}}, {"starts", Ints{0}}, {"ends", Ints{2}}}) ==
          "*d0 d1! d2 -> d0 _=2 d2 {d0=8, d1=4, d2=16}; any, view");
  }
}

}  // namespace hyper_parallel::rules::test
