#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/handlers.h"
#include "hyper_parallel/rules/query/infer.h"
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

  TEST_CASE("RowsOfTheProgramTakeThePlaceOfBuiltInOnes") {
    const std::string before = find_row("aten::exp")->spec;
    register_row("aten::exp", "a! b -> =");
    CHECK(find_row("aten::exp")->spec == std::string("a! b -> ="));
    CHECK(find_row("aten::exp_")->spec == std::string("a! b -> ="));
    CHECK(own_op_names() == std::vector<std::string>{"aten::exp"});
    register_row("aten::exp", "a! b -> =");  // the same again is no mistake
    CHECK(error([] { register_row("aten::exp", "a b! -> ="); }).starts_with("[HP-S045] aten::exp"));
    CHECK(unregister_row("aten::exp"));
    CHECK_FALSE(unregister_row("aten::exp"));
    CHECK(find_row("aten::exp")->spec == before);
  }

  TEST_CASE("FunctionsOfTheProgramAreKnownByTheirName") {
    register_row("function::Swish", "... -> ...");
    CHECK(is_known("Swish"));
    const auto names = known_names();
    CHECK(std::binary_search(names.begin(), names.end(), "Swish"));
    CHECK(query(call("Swish", "x=2", {"f32[8, 6] S(0)"})).row == "function::Swish");
    CHECK(unregister_row("function::Swish"));
    CHECK_FALSE(is_known("Swish"));
  }

  TEST_CASE("BuildersTakeTheWordsOfBuiltInRows") {
    const std::string text = error([] { register_row("function::F", "view"); });
    CHECK(text.starts_with("[HP-S046] function::F"));
    CHECK(find_row("function::F") == nullptr);
    register_row("function::F", "view  size");
    CHECK(unregister_row("function::F"));
  }
}

}  // namespace hyper_parallel::rules::test
