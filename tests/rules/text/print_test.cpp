// Rules as text, whatever made them.

#include "hyper_parallel/rules/text/print.h"

#include "hyper_parallel/rules/text/notation.h"
#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

std::string failure(std::string_view text) {
  return error([&] { parse_rule(text); });
}

}  // namespace

TEST_SUITE("RuleText") {
  TEST_CASE("LettersAndSizes") {
    CHECK(printed("aten::mm", {"f32[8, 16]", "f32[16, 32]"}) ==
          "*m k, *k n -> m n {m=8, k=16, n=32}");
    CHECK(printed("aten::linear", {"f32[2, 1, 16]", "f32[32, 16]", "f32[32]"}) ==
          "*d0 _ k, *n k, +n -> d0 _ n {d0=2, k=16, n=32}");
    CHECK(printed("aten::linear", {"f32[8, 16]", "f32[32, 16]", "-"}) ==
          "*d0 k, *n k, - -> d0 n {d0=8, k=16, n=32}");
    CHECK(printed("aten::dot", {"f32[8]", "f32[8]"}) == "*k, *k -> () {k=8}");
  }

  TEST_CASE("KindsAndHandlers") {
    CHECK(printed("aten::softmax.int", {"f32[8, 16]"}, {{"dim", std::int64_t{1}}}) ==
          "d0 d~softmax -> d0 d {d0=8, d=16}");
    CHECK(printed("aten::amax", {"f32[8, 16]"}, {{"dim", Ints{1}}}) ==
          "*d0 d1 -> d0 {d0=8, d1=16 nonempty}; max, same");
    CHECK(printed("aten::argmax", {"f32[8, 16]"}, {{"dim", std::int64_t{1}}}) ==
          "d0 d1~argmax/R -> d0 {d0=8, d1=16}");
    CHECK(printed("aten::median", {"f32[8]"}) == "d0! -> () {d0=8}");
  }

  TEST_CASE("PartsOfADim") {
    CHECK(printed("aten::cat", {"{f32[8, 16]; f32[4, 16]}"}) ==
          "*p=8 d1, *1 p d1 -> p=8|4 d1 {d1=16, p=4 plain}; any");
    CHECK(printed("aten::view", {"f32[4, 12]"}, {{"size", Ints{4, 3, 4}}}) ==
          "*d0 (d1 d2) -> d0 d1 d2 {d0=4, d1=3, d2=4}; any, view, size:=shape 0");
    CHECK(printed("aten::slice.Tensor", {"f32[8, 16]"},
                  {{"dim", std::int64_t{1}}, {"end", std::int64_t{4}}}) ==
          "*d0 d1~slice -> d0 d1=4 {d0=8, d1=16 part(0 -> 4)}; any, view");
  }

  TEST_CASE("Windows") {
    CHECK(printed("aten::conv1d", {"f32[8, 4, 16]", "f32[6, 4, 3]", "f32[6]"},
                  {{"stride", Ints{2}}, {"padding", Ints{1}}}) ==
          "*d0 ci d2~halo=16, *co ci _=3, +co -> d0 co d2 "
          "{d0=8, ci=4 nonempty, d2=8 plain window(16 -> 8 kernel=3 stride=2 padding=1), "
          "co=6 nonempty}");
  }

  TEST_CASE("OneFactorForAllOfADim") {
    CHECK(printed("aten::scaled_dot_product_attention",
                  {"f32[2, 8, 6, 4]", "f32[2, 2, 5, 4]", "f32[2, 2, 5, 4]"},
                  {{"enable_gqa", true}}) ==
          "d0 (h g|q~sdpa) l e!, d0 h s! e, *d0 h s v -> d0 (h g|q) l v "
          "{d0=2, h=2, g=4, q=8, l=6, s=5, e=4, v=4}; filled");
  }

  TEST_CASE("WrittenOperandsAndLists") {
    CHECK(printed("aten::add_.Tensor", {"!f32[8, 16]", "f32[16]"}) ==
          "*d0 d1, *1 d1 -> d0 d1 {d0=8, d1=16}; writes 0->0");
    CHECK(printed("aten::_foreach_mul_.Scalar", {"{!f32[8]; !f32[4]}"}) ==
          "[0 ->] *d0 -> d0 {d0=8}; writes 0->0\n"
          "[1 ->] *d0 -> d0 {d0=4}; writes 0->0");
  }

  TEST_CASE("EveryMarkReadsBack") {
    for (const char* text : {
             "*m k, *k n -> m n {m=8, k=16, n=32}",
             "#a b!, +!a, +2 b, *2 a -> a/max, b {a=4 block=2, b=6}; handler sort",
             "a b, - -> -, b/R {a=4, b=3 nonempty}; prod, same",
             "a~halo=5, _=3 _ -> a/min {a=4 plain window(5 -> 4 kernel=2 transposed)}; min, random",
             "(a b|c) -> a b, (a b|c) {a=2, b=3, c=6}; filled, unwritten 0",
             "a=3|1| -> a {a=4}; view, n:=length 0 0, s:=lengths 1, z:=shape 0, writes 0->0",
             "_=? -> (); dynamic",
             "a! -> {a=3}; handler sort",
             "_ ->",
             "-> a {a=3}; random",
             "a -> _=4 {a=4, b!=3}; monotone",
         }) {
      CAPTURE(text);
      const ConcreteRule rule = parse_rule(text);
      CHECK(parse_rule(to_string(rule)) == rule);
    }
    CHECK(to_string(
              parse_rule("#a b!, +!a, +2 b, *2 a -> a/max, b {a=4 block=2, b=6}; handler sort")) ==
          "#a/max b!, +!a, +2b, *2 a -> a, b {a=4 block=2, b=6}; max, handler sort");
  }

  TEST_CASE("FactorsOfOneNameAreToldApart") {
    const ConcreteRule rule =
        rule_of("aten::pixel_shuffle", {"f32[8, 16, 6, 6]"}, {{"upscale_factor", std::int64_t{2}}});
    CHECK(to_string(rule) ==
          "*d0 (c r! r_2!) h w -> d0 c (h r) (w r_2) {d0=8 nonempty, c=4 nonempty, h=6 nonempty, "
          "w=6 nonempty, r=2, r_2=2}; any");
    CHECK(parse_rule(to_string(rule)) == rule);
  }

  TEST_CASE("WhatMakesRulesDiffer") {
    const ConcreteRule rule = parse_rule("*m k, *k n -> m n {m=8, k=16, n=32}");
    CHECK(parse_rule("*a b, *b c -> a c {a=8, b=16, c=32}") == rule);
    CHECK(parse_rule("*3 m k, *3 k n -> m n {m=8, k=16, n=32}") == rule);
    for (const char* other : {
             "*m k, *1 k n -> m n {m=8, k=16, n=32}",
             "*m k, k n -> m n {m=8, k=16, n=32}",
             "*m k, *k n -> m n {m=8, k=16 nonempty, n=32}",
             "*m k!, *k n -> m n {m=8, k=16, n=32}",
             "*m k/R, *k n -> m n {m=8, k=16, n=32}",
             "*m k, *k n -> m n {m=8, k=16, n=32}; max",
             "*m k, *k n -> m n {m=8, k=16, n=32}; view",
             "*m k, *k n -> n m {m=8, k=16, n=32}",
             "*m k, *k n -> m n {m=8, n=32, k=16}",
         }) {
      CAPTURE(other);
      CHECK_FALSE(parse_rule(other) == rule);
    }
  }

  TEST_CASE("ErrorsShowThePlace") {
    CHECK(failure("*m k -> m {m=8}") ==
          "[HP-S050] rule notation: the size of each letter expected before at place 15\n"
          "  text  *m k -> m {m=8}\n"
          "  form  *m k, *k n -> m n {m=8, k=16, n=4}\n"
          "  try   docs/notation.md has the grammar");
    CHECK(failure("m -> m").starts_with("[HP-S050] rule notation: \"m\" has no size"));
    CHECK(failure("... -> ...").starts_with("[HP-S050] rule notation: \"...\" and \"@\""));
    CHECK(failure("a -> = {a=3}").starts_with("[HP-S050] rule notation: \"=\", \"?\" and \"^\""));
    CHECK(failure("a -> a {a=3, a=4}").starts_with("[HP-S050] rule notation: each letter once"));
    CHECK(failure("a -> a {a=3 wide}").starts_with("[HP-S050] rule notation: nonempty, plain"));
    CHECK(failure("a -> a {a=3}; writes 0->1").starts_with("[HP-S050] rule notation: no result 1"));
    CHECK(failure("(a b) -> a {a=1000000000000000, b=1000000000000000}")
              .starts_with("[HP-S050] rule notation: a dim is too long"));
    // Sizes belong to one call: a row has none.
    CHECK(error([] {
            parse_notation("m -> m {m=8}");
          }).starts_with("[HP-S050] rule notation: a name expected"));
  }
}

}  // namespace hyper_parallel::rules::test
