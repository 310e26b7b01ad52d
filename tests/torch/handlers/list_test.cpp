#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/handlers.h"
#include "hyper_parallel/torch/dispatch/handler.h"
#include "tests/support/doctest.h"

namespace hyper_parallel::torch_layer {
namespace {

TEST_SUITE("Handlers") {
  TEST_CASE("EveryPricedHandlerHasItsFunctionAndEachFunctionItsPrice") {
    for (const rules::HandlerInfo& info : rules::handlers()) {
      if (info.of_members) continue;
      CAPTURE(std::string(info.name));
      CHECK((find_handler(info.name).run != nullptr));
    }
    for (const HandlerEntry& entry : handler_entries()) {
      CAPTURE(std::string(entry.name));
      CHECK(rules::find_handler(entry.name).name == entry.name);
      CHECK((entry.run != nullptr || entry.run_list != nullptr));
    }
  }

  TEST_CASE("SomeRunForTheMembersOfLists") {
    CHECK((find_handler("norm").run_list != nullptr));
    CHECK((find_handler("linear_addend").run_list != nullptr));
    CHECK((find_handler("softmax").run_list == nullptr));
    CHECK_THROWS_WITH_AS(find_handler("nothing"), doctest::Contains("HP-S090"), InternalError);
  }
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
