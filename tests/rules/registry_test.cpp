#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/handlers.h"
#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

std::string row_of(std::string_view op) {
  const Row* row = find_row(op);
  return row == nullptr ? "none" : row->op;
}

}  // namespace

TEST_SUITE("Registry") {
  TEST_CASE("NamesAreSortedAndMany") {
    const auto names = op_names();
    CHECK(std::is_sorted(names.begin(), names.end()));
    CHECK(names.size() > 500);
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  }

  TEST_CASE("InPlaceNamesFindTheFunctionalRow") {
    CHECK(row_of("aten::add_.Tensor") == "aten::add.Tensor");
    CHECK(row_of("aten::relu_") == "aten::relu");
    CHECK(row_of("aten::pow_.Scalar") == "aten::pow.Tensor_Scalar");
    CHECK(row_of("aten::_foreach_mul_.Scalar") == "aten::_foreach_mul.Scalar");
    CHECK(row_of("aten::uniform_") == "aten::uniform_");  // a row of its own
    CHECK(row_of("aten::no_such_op_") == "none");
  }

  TEST_CASE("OutNamesFindTheFunctionalRow") {
    CHECK(row_of("aten::mm.out") == "aten::mm");
    CHECK(row_of("aten::add.out") == "aten::add.Tensor");
    CHECK(row_of("aten::sum.IntList_out") == "aten::sum.dim_IntList");
    CHECK(row_of("aten::max.out") == "aten::max.other");
    CHECK(row_of("aten::pow.Tensor_Scalar_out") == "aten::pow.Tensor_Scalar");
    CHECK(row_of("aten::no_such_op.out") == "none");
  }

  TEST_CASE("EveryHandlerOfARowExists") {
    const auto all = handlers();
    CHECK(std::is_sorted(all.begin(), all.end(),
                         [](const auto& a, const auto& b) { return a.name < b.name; }));
    CHECK(find_handler("softmax").name == "softmax");
    CHECK(error([] { find_handler("nothing"); }).starts_with("[HP-S090]"));
  }

  TEST_CASE("AttributesAreTyped") {
    const Call c =
        call("op", "x=2", {},
             {{"i", std::int64_t{3}}, {"l", Ints{1, 2}}, {"b", true}, {"none", std::monostate{}}});
    CHECK(c.integer("i", 0) == 3);
    CHECK(c.integer("none", 7) == 7);
    CHECK(c.integers("l") == Ints{1, 2});
    CHECK(c.integers("i") == Ints{3});
    CHECK(c.boolean("b", false));
    CHECK_FALSE(c.has("none"));
    CHECK(error([&] { (void)c.boolean("i", false); }) ==
          "[HP-S005] op: argument \"i\" is not a bool");
  }

  TEST_CASE("CopiesOfViewsUseTheRowOfTheView") {
    CHECK(forward("aten::view_copy", "x=2", {"f32[8, 6] S(0)"}, {{"size", Ints{8, 2, 3}}}) ==
          "S(0) -> S(0)");
    const Call view = call("aten::t", "x=2", {"f32[8, 6] S(0)"});
    const Call copy = call("aten::t_copy", "x=2", {"f32[8, 6] S(0)"});
    CHECK(rule(view).aliases);
    CHECK_FALSE(rule(copy).aliases);
  }
}

}  // namespace hyper_parallel::rules::test
