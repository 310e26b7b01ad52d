// One text form: it prints in one way and is read back.

#include "hyper_parallel/core/text.h"

#include <doctest/doctest.h>

#include "tests/core/support.h"

namespace hyper_parallel::test {
namespace {

std::string meta(std::string_view text) { return to_string(parse_meta(text)); }
std::string mesh(std::string_view text) { return parse_mesh(text)->to_string(); }
std::string layout(std::string_view text) { return to_string_with_mesh(parse_layout(text)); }

std::string on(std::string_view mesh, std::string_view text) {
  return parse_layout(parse_mesh(mesh), text)->to_string();
}

std::string described(std::string_view text) {
  const Described d = parse_described(text);
  return to_string(d.meta, d.layout);
}

}  // namespace

TEST_SUITE("Text") {
  TEST_CASE("what is printed is read back") {
    for (const char* text : {"f32[4096, 1024]", "bool[]", "c128[0]", "other[1, 2, 3]"}) {
      CHECK(meta(text) == text);
    }
    for (const char* text : {"dp=2 tp=4", "x=1", "a-b.c=3", "dp=2 tp=2 ranks=[0, 2, 1, 3]"}) {
      CHECK(mesh(text) == text);
    }
    for (const char* text : {
             "dp=2 tp=4: R R",
             "dp=2 tp=4: S(0) S(1)",
             "dp=2 tp=4: S(3) P(avg)",
             "dp=2 tp=4: S(0) S(0)",
             "dp=2 tp=4: S(0, 1) S(0, 0)",
             "dp=2 tp=4: R S(0; block=64)",
             "dp=2 tp=4: S(1; segments=64|32|32) R",
             "dp=2 tp=4: S(0, 1) S(0, 0; block=4; segments=8|8|0)",
             "a=2 b=2 c=2: S(0, 1) S(0, 2) S(0, 0)",
             "dp=2 ranks=[7, 3]: S(0)",
         }) {
      CHECK(layout(text) == text);
      CHECK(described("bf16[8, 8] on " + std::string(text)) ==
            "bf16[8, 8] on " + std::string(text));
    }
  }

  TEST_CASE("one thing prints in one way, however it was written") {
    CHECK(meta(" f32 [ 2,3 ] ") == "f32[2, 3]");
    CHECK(mesh("  dp = 2   tp=4 ") == "dp=2 tp=4");
    CHECK(mesh("dp=2 tp=2 ranks=[0, 1, 2, 3]") == "dp=2 tp=2");
    CHECK(layout("dp=2 tp=4:S(0,0)S(0,1)") == "dp=2 tp=4: S(0) S(0)");
    CHECK(layout("dp=2: S(0; block=1)") == "dp=2: S(0)");
    CHECK(layout("dp=2: S(0; segments=8)") == "dp=2: S(0)");
    CHECK(layout("dp=2: P(mean)") == "dp=2: P(avg)");
    CHECK(on("dp=1 tp=2", "S(0) P(sum)") == "R P(sum)");  // one rank cuts nothing
    CHECK(on("dp=1 tp=2", "S(0, 1) S(0, 0)") == "R S(0)");
    CHECK(on("dp=2 tp=2", "S(0) S(0; block=4)") == "S(0; block=4) S(0)");
  }

  TEST_CASE("shapes") {
    CHECK(to_string(Shape{}) == "[]");
    CHECK(to_string(Shape{4, 1024}) == "[4, 1024]");
  }

  TEST_CASE("errors show the text and the place") {
    CHECK(
        failure([] { parse_described("f32[8] on dp=2: Q(0)"); }) ==
        "UsageError [HP-T001] one placement (R, S(dim), P(kind)) for mesh axis \"dp\" expected at "
        "place 16\n"
        "  text  f32[8] on dp=2: Q(0)\n"
        "  form  f32[4096, 1024] on dp=2 tp=4: S(0) R");
    const auto place = [](auto parse) {
      const std::string text = failure(parse);
      if (!starts(text, "UsageError [HP-T001] ")) return text;
      return text.substr(21, text.find('\n') - 21);
    };
    CHECK(place([] { parse_meta(""); }) == "a name expected at place 0");
    CHECK(place([] { parse_meta("f32"); }) == "\"[\" expected at place 3");
    CHECK(place([] { parse_meta("f32[a]"); }) == "a number expected at place 4");
    CHECK(place([] { parse_meta("f32[2, ]"); }) == "a number expected at place 7");
    CHECK(place([] { parse_meta("f32[2"); }) == "\"]\" expected at place 5");
    CHECK(place([] { parse_meta("f32[2]]"); }) == "nothing more expected at place 6");
    CHECK(place([] { parse_meta("f32[-1]"); }) ==
          "a number from 0 to 281474976710656 expected at place 4");
    CHECK(place([] { parse_meta("f32[99999999999999999999]"); }) ==
          "a number from 0 to 281474976710656 expected at place 4");
    CHECK(place([] { parse_meta("f32[281474976710656, 0, 281474976710656]"); }) ==
          "a tensor of at most 2^62 bytes expected at place 39");
    CHECK(place([] { parse_mesh("dp"); }) == "\"=\" expected at place 2");
    CHECK(place([] { parse_mesh("dp=2 tp="); }) == "a number expected at place 8");
    CHECK(place([] { parse_mesh("dp=4294967298"); }) ==
          "a number from -2147483648 to 2147483647 expected at place 3");
    CHECK(place([] { parse_layout("dp=2: R R"); }) == "nothing more expected at place 8");
    CHECK(place([] { parse_layout("dp=2 S(0)"); }) == "\"=\" expected at place 6");
    CHECK(place([] { parse_layout("dp=2: S(4294967296)"); }) ==
          "a number from -2147483648 to 2147483647 expected at place 8");
    CHECK(place([] { parse_layout("dp=2: S(0; block=0)"); }) ==
          "a number from 1 to 281474976710656 expected at place 17");
    CHECK(place([] { parse_layout("dp=2: S(0; segments=4|-4)"); }) ==
          "a number from 0 to 281474976710656 expected at place 22");
    CHECK(place([] { parse_layout("dp=2: S(0; rows=4)"); }) ==
          "block= or segments= expected at place 11");
    CHECK(place([] { parse_layout("a=2 b=2: S(0; block=4) S(0; block=2)"); }) ==
          "one block a dim expected at place 34");
    CHECK(place([] { parse_layout("a=2 b=2: S(0; segments=4|4) S(0; segments=4|4)"); }) ==
          "one list of segments a dim expected at place 42");
    CHECK(place([] { parse_layout("a=2 b=2: S(0, 1) S(0, 1)"); }) ==
          "places 0, 1, ... of dim 0, each once, expected at place 24");
    CHECK(place([] { parse_layout("a=2 b=2: S(0, 7) R"); }) ==
          "places 0, 1, ... of dim 0, each once, expected at place 18");
  }

  TEST_CASE("what can be read and means nothing names the thing") {
    CHECK(code([] { parse_meta("f31[2]"); }) == "UsageError HP-T002");
    CHECK(code([] { parse_mesh("dp=0"); }) == "UsageError HP-M005");
    CHECK(code([] { parse_mesh("dp=2 dp=2"); }) == "UsageError HP-M004");
    CHECK(code([] { parse_mesh("dp=2 ranks=[0]"); }) == "UsageError HP-M006");
    CHECK(code([] { parse_layout("dp=2: S(-1)"); }) == "UsageError HP-L004");
    CHECK(code([] { parse_layout("dp=2: P(median)"); }) == "UsageError HP-L001");
  }
}

}  // namespace hyper_parallel::test
