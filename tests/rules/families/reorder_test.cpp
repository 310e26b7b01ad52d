#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("ReorderRules") {
  TEST_CASE("DimsMoveWithTheirSplits") {
    const std::vector<std::string> x = {"f32[2, 3, 4, 5] S(0) S(2)"};
    CHECK(forward("aten::transpose.int", "a=2 b=2", x,
                  {{"dim0", std::int64_t{1}}, {"dim1", std::int64_t{-2}}}) ==
          "S(0) S(2) -> S(0) S(1)");
    CHECK(forward("aten::permute", "a=2 b=2", x, {{"dims", Ints{2, 0, 3, 1}}}) ==
          "S(0) S(2) -> S(1) S(0)");
    CHECK(forward("aten::movedim.int", "a=2 b=2", x,
                  {{"source", std::int64_t{0}}, {"destination", std::int64_t{-1}}}) ==
          "S(0) S(2) -> S(3) S(1)");
    CHECK(forward("aten::numpy_T", "a=2 b=2", x) == "S(0) S(2) -> S(3) S(1)");
    CHECK(forward("aten::mT", "a=2 b=2", x) == "S(0) S(2) -> S(0) S(3)");
    CHECK(forward("aten::t", "a=2", {"f32[4] S(0)"}) == "S(0) -> S(0)");
    CHECK(forward("aten::alias", "a=2 b=2", x) == "S(0) S(2) -> S(0) S(2)");
    CHECK(error([&] {
            forward("aten::permute", "a=2 b=2", x, {{"dims", Ints{0, 0, 1, 2}}});
          }).starts_with("[HP-S004] aten::permute: dims are no permutation"));
  }

  TEST_CASE("UnsqueezeAndSqueeze") {
    CHECK(forward("aten::unsqueeze", "a=2", {"f32[4, 6] S(1)"}, {{"dim", std::int64_t{1}}}) ==
          "S(1) -> S(2)");
    CHECK(forward("aten::squeeze.dim", "a=2", {"f32[4, 1, 6] S(2)"}, {{"dim", std::int64_t{1}}}) ==
          "S(2) -> S(1)");
    // Split to one index a rank, a dim of size 2 would look like one to drop.
    CHECK(forward("aten::squeeze.dim", "a=2", {"f32[2, 6] S(0)"}, {{"dim", std::int64_t{0}}}) ==
          "S(0) -> S(0) ~squeeze");
    CHECK(forward("aten::squeeze", "a=2", {"f32[2, 1, 6] S(0)"}) == "S(0) -> S(0) ~squeeze");
    CHECK(result_sizes("aten::squeeze", {"f32[1, 2, 1]"}) == "[2]");
    CHECK(result_sizes("aten::squeeze.dims", {"f32[1, 2, 1]"}, {{"dim", Ints{0, 1}}}) == "[2, 1]");
  }

  TEST_CASE("ExpandedDimsAreNotOnTheOperand") {
    const Attrs attrs = {{"size", Ints{2, 4, -1}}};
    CHECK(forward("aten::expand", "a=2", {"f32[4, 3] S(0)"}, attrs) == "S(0) -> S(1)");
    CHECK(backward("aten::expand", "a=2", {"f32[4, 3] R"}, {"S(0)"}, attrs) == "R -> S(0)");
    CHECK(result_sizes("aten::expand", {"f32[4, 3]"}, attrs) == "[2, 4, 3]");
    CHECK(error([] {
            forward("aten::expand", "a=2", {"f32[4, 3] R"}, {{"size", Ints{4, 6}}});
          }).starts_with("[HP-S002] aten::expand"));
  }

  TEST_CASE("KeyValueHeadsAreRepeated") {
    // repeat_kv: [b, h, s, d] -> [b, h, g, s, d] -> [b, h * g, s, d].
    CHECK(forward("aten::expand", "tp=2", {"f32[2, 4, 1, 16, 8] S(1)"},
                  {{"size", Ints{2, 4, 3, 16, 8}}}) == "S(1) -> S(1)");
    CHECK(forward("aten::reshape", "tp=2", {"f32[2, 4, 3, 16, 8] S(1)"},
                  {{"shape", Ints{2, 12, 16, 8}}}) == "S(1) -> S(1)");
  }

  TEST_CASE("ComplexPairs") {
    CHECK(forward("aten::view_as_complex", "a=2", {"f32[4, 6, 2] S(1)"}) == "S(1) -> S(1)");
    CHECK(forward("aten::view_as_complex", "a=2", {"f32[4, 6, 2] S(2)"}) == "R -> R");
    CHECK(forward("aten::view_as_complex", "a=2", {"f32[4, 6, 2] P(max)"}) == "R -> R");
    CHECK(result_sizes("aten::view_as_real", {"c64[4, 6]"}) == "[4, 6, 2]");
  }

  TEST_CASE("InPlaceFormsChangeTheLayout") {
    CHECK(forward("aten::t_", "a=2", {"!f32[4, 6] S(0)"}) == "S(0) -> S(1)");
    CHECK(forward("aten::unsqueeze_", "a=2", {"!f32[4, 6] S(0)"}, {{"dim", std::int64_t{0}}}) ==
          "S(0) -> S(1)");
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::permute", {"f32[4, 8, 16]"}, {{"dims", Ints{2, 0, 1}}}) ==
          "*d0 d1 d2 -> d2 d0 d1 {d0=4, d1=8, d2=16}; any, view");
    CHECK(printed("aten::expand", {"f32[8, 1]"}, {{"size", Ints{8, 16}}}) ==
          "*d0 _ -> d0 d1 {d0=8, d1=16}; any, view, size:=shape 0");
    CHECK(printed("aten::squeeze.dim", {"f32[8, 1, 16]"}, {{"dim", Ints{1}}}) ==
          "*d0 _ d2 -> d0 d2 {d0=8, d2=16}; any, view");
    CHECK(printed("aten::unsqueeze", {"f32[8, 16]"}, {{"dim", std::int64_t{1}}}) ==
          "*d0 d1 -> d0 _ d1 {d0=8, d1=16}; any, view");
    CHECK(printed("aten::movedim.int", {"f32[4, 8, 16]"},
                  {{"source", Ints{0}}, {"destination", Ints{2}}}) ==
          "*d0 d1 d2 -> d1 d2 d0 {d0=4, d1=8, d2=16}; any, view");
    CHECK(printed("aten::view_as_complex", {"f32[8, 2]"}) == "*d0 d1! -> d0 {d0=8, d1=2}; view");
  }
}

}  // namespace hyper_parallel::rules::test
