#include "hyper_parallel/core/error.h"

#include <doctest/doctest.h>

#include "tests/core/support.h"

namespace hyper_parallel::test {

TEST_SUITE("Error") {
  TEST_CASE("a code, a first line, facts below each other, the way out") {
    Message message("HP-L001", "what is wrong");
    CHECK(message.text() == "[HP-L001] what is wrong");
    message.fact("tensor", "f32[8]").fact("mesh", "x=2").hint("do this");
    CHECK(message.text() ==
          "[HP-L001] what is wrong\n"
          "  tensor  f32[8]\n"
          "  mesh    x=2\n"
          "  try     do this");
    const UsageError error(message);
    CHECK(error.code() == "HP-L001");
    CHECK(error.what() == message.text());
  }

  TEST_CASE("four classes of one base") {
    const Message message("HP-L001", "x");
    CHECK(code([&] { throw UsageError(message); }) == "UsageError HP-L001");
    CHECK(code([&] { throw UnsupportedError(message); }) == "UnsupportedError HP-L001");
    CHECK(code([&] { throw CommError(message); }) == "CommError HP-L001");
    CHECK(code([&] { throw InternalError(message); }) == "InternalError HP-L001");
    CHECK_THROWS_AS(throw CommError(message), Error);
    CHECK_THROWS_AS(throw CommError(message), std::runtime_error);
  }

  TEST_CASE("a condition of our own that fails is our fault") {
    CHECK(code([] { check_internal(true, "sizes agree"); }) == "no error");
    CHECK(starts(failure([] { check_internal(false, "sizes agree"); }),
                 "InternalError [HP-X001] internal: sizes agree\n  try"));
  }

  TEST_CASE("the hook may throw in the place of an error") {
    const auto raise = [] {
      at_border([]() -> int { throw UsageError(Message("HP-L001", "x")); });
    };
    set_error_hook([](const Error& error) { throw std::invalid_argument(error.code()); });
    CHECK(failure(raise) == "another exception: HP-L001");
    set_error_hook([](const Error&) {});
    CHECK(code(raise) == "UsageError HP-L001");
    set_error_hook(nullptr);
    CHECK(code(raise) == "UsageError HP-L001");
    CHECK(at_border([] { return 3; }) == 3);
  }

  TEST_CASE("near names, the nearest first") {
    const std::vector<std::string> known = {"weight", "bias", "up_proj.weight", "height", "x"};
    using Names = std::vector<std::string>;
    CHECK(near_names("wieght", known) == Names{"weight"});
    CHECK(near_names("bias", known) == Names{"bias"});
    CHECK(near_names("up_proj", known) == Names{"up_proj.weight"});  // inside another
    CHECK(near_names("something_else", known).empty());
    CHECK(near_names("ab", {"a", "b", "abc", "abd", "ab"}) == Names{"ab", "a", "b"});
    CHECK(near_names("a", {}).empty());
  }

  TEST_CASE("join") {
    CHECK(join({}) == "");
    CHECK(join({"a"}) == "a");
    CHECK(join({"a", "b", "c"}) == "a, b, c");
    CHECK(join({"a", "b"}, "|") == "a|b");
  }
}

}  // namespace hyper_parallel::test
