#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {

TEST_SUITE("HostRules") {
  TEST_CASE("ValuesForTheHostAreWhole") {
    CHECK(forward("aten::item", "x=2", {"f32[] P(sum)"}) == "R -> ");
    CHECK(forward("aten::is_nonzero", "x=2", {"bool[1] S(0)"}) == "R -> ");
    CHECK(forward("aten::equal", "x=2", {"f32[8] S(0)", "f32[8] S(0)"}) == "R, R -> ");
  }

  TEST_CASE("SizesThatDependOnValuesAreUnknown") {
    const auto unknown = [](std::string_view op, const std::vector<std::string>& operands,
                            Attrs attrs = {}) {
      const Call c = call(op, "x=2", operands, std::move(attrs));
      CHECK(infer_forward(rule(c), c).dynamic);
      return result_sizes(op, operands);
    };
    CHECK(unknown("aten::nonzero", {"f32[8, 6]"}) == "[-1, 2]");
    CHECK(unknown("aten::where", {"bool[8, 6]"}) == "[-1] [-1]");
    CHECK(unknown("aten::masked_select", {"f32[8, 6]", "bool[8, 6]"}) == "[-1]");
    CHECK(result_sizes("aten::repeat_interleave.self_Tensor", {"f32[8, 6]", "i64[8]"},
                       {{"dim", std::int64_t{0}}}) == "[-1, 6]");
    CHECK(forward("aten::masked_select", "x=2", {"f32[8] S(0)", "bool[8] S(0)"}) == "R, R -> R");
  }

  TEST_CASE("Printed") {
    CHECK(printed("aten::nonzero", {"f32[8, 16]"}) == "_=8 _=16 -> _=? _=2; dynamic");
    CHECK(printed("hyper_parallel::unique", {"i64[8, 16]"}) ==
          "_=8 _=16 -> _=?, _=?, _=128, _=?; dynamic");
    CHECK(printed("aten::masked_select", {"f32[8]", "bool[8]"}) == "_=8, _=8 -> _=?; dynamic");
  }
}

}  // namespace hyper_parallel::rules::test
