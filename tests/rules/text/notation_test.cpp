// The letter notation. The cases of docs/notation.md are printed from here.

#include "hyper_parallel/rules/text/notation.h"

#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

ConcreteRule made(std::string_view text, const std::vector<std::string>& operands,
                  Attrs attrs = {}) {
  return concretize(parse_notation(text), call("example", "x=2", operands, std::move(attrs)));
}

std::string lines(const ConcreteRule& rule) {
  std::string out;
  for (const AxisChoice& c : strategies(rule)) out += to_string(rule, c) + "\n";
  return out;
}

std::string failure(std::string_view text) {
  return error([&] { parse_notation(text); });
}

}  // namespace

TEST_SUITE("Notation") {
  TEST_CASE("ALetterIsOneDim") {
    CHECK(lines(made("m k, k n -> m n", {"f32[8, 16]", "f32[16, 32]"})) ==
          "R R -> R\n"
          "S(0) R -> S(0)    m\n"
          "S(1) S(0) -> P(sum)    k\n"
          "R S(1) -> S(1)    n\n");
  }

  TEST_CASE("DotsAreAnyLeadingDims") {
    CHECK(lines(made("... k, n k -> ... n", {"f32[2, 8, 16]", "f32[32, 16]"})) ==
          "R R -> R\n"
          "S(0) R -> S(0)    d0\n"
          "S(1) R -> S(1)    d1\n"
          "S(2) S(1) -> P(sum)    k\n"
          "R S(0) -> S(2)    n\n");
    // They broadcast together; a dim of size 1 holds nothing.
    CHECK(lines(made("... m, ... m -> ... m", {"f32[2, 1, 4]", "f32[3, 4]"})) ==
          "R R -> R\n"
          "S(0) R -> S(0)    d0\n"
          "R S(0) -> S(1)    d1\n"
          "S(2) S(1) -> S(2)    m\n");
  }

  TEST_CASE("MarksOfLetters") {
    CHECK(lines(made("a b! -> a b", {"f32[4, 6]"})) == "R -> R\nS(0) -> S(0)    a\n");
    CHECK(lines(made("a b~softmax -> =", {"f32[4, 6]"})) ==
          "R -> R\nS(0) -> S(0)    a\nS(1) -> S(1)    b ~softmax\n");
    CHECK(lines(made("a b~argmax/R -> a", {"f32[4, 6]"})) ==
          "R -> R\nS(0) -> S(0)    a\nS(1) -> R    b ~argmax\n");
  }

  TEST_CASE("MarksOfOperands") {
    CHECK(lines(made("*a, b -> a b", {"f32[4]", "f32[6]"})) ==
          "R R -> R\n"
          "S(0) R -> S(0)    a\n"
          "R S(0) -> S(1)    b\n"
          "P(sum) R -> P(sum)\n"
          "P(avg) R -> P(avg)\n");
    CHECK(lines(made("^+m n, *m k, *k n -> m n", {"f32[1, 4]", "f32[2, 3]", "f32[3, 4]"})) ==
          "R R R -> R\n"
          "R S(0) R -> S(0)    m\n"
          "S(1) R S(1) -> S(1)    n\n"
          "P(sum) S(1) S(0) -> P(sum)    k\n"
          "P(sum) P(sum) R -> P(sum)\n"
          "P(sum) R P(sum) -> P(sum)\n"
          "P(avg) P(avg) R -> P(avg)\n"
          "P(avg) R P(avg) -> P(avg)\n");
    CHECK(lines(made("a, ?a -> a", {"f32[4]", "-"})) == "R - -> R\nS(0) - -> S(0)    a\n");
    CHECK(made("#a -> a", {"f32[4]"}).inputs[0].shape_only);
  }

  TEST_CASE("DimsNamedByAnAttribute") {
    CHECK(lines(made("... d!@dim -> =", {"f32[4, 6, 8]"}, {{"dim", std::int64_t{-2}}})) ==
          "R -> R\nS(0) -> S(0)    d0\nS(2) -> S(2)    d1\n");
    const auto rule =
        made("... v@dim, i -> ... i@dim", {"f32[4, 6, 8]", "i64[3]"}, {{"dim", std::int64_t{1}}});
    CHECK(rule.outputs[0].sizes == Shape{4, 3, 8});
    const auto kept =
        made("... d@dim -> ...", {"f32[4, 6]"}, {{"dim", std::int64_t{0}}, {"keepdim", true}});
    CHECK(kept.outputs[0].sizes == Shape{1, 6});
    const auto top =
        made("... d!@dim=-1 -> ... _=k<d@dim=-1", {"f32[4, 6]"}, {{"k", std::int64_t{2}}});
    CHECK(top.outputs[0].sizes == Shape{4, 2});
    CHECK(error([] {
            made("... d!@dim=-1 -> ... _=k<d@dim=-1", {"f32[4, 6]"}, {{"k", std::int64_t{7}}});
          }) ==
          "[HP-S005] example: argument \"k\" is 7, out of range\n"
          "  range  0 to 6, the size of \"d\"");
    CHECK(error([] { made("a -> a _=k", {"f32[4]"}, {{"k", std::int64_t{-1}}}); }) ==
          "[HP-S005] example: argument \"k\" is -1, out of range");
    CHECK(error([] {
            made("a -> a _=k<b", {"f32[4]"});
          }).starts_with("[HP-S050] rule notation: a letter of an operand expected"));
  }

  TEST_CASE("TwoAttributesThatNameOneDim") {
    const Attrs same = {{"dim0", std::int64_t{1}}, {"dim1", std::int64_t{-1}}};
    CHECK(error([&] { made("... a@dim0 b@dim1 -> ...", {"f32[4, 6]"}, same); }) ==
          "[HP-S004] example: \"dim0\" and \"dim1\" name one dim");
  }

  TEST_CASE("ABroadcastOperandMayLackNamedDims") {
    CHECK(lines(made("^... a, ... a -> ... a", {"f32[]", "f32[4, 6]"})) ==
          "R R -> R\nR S(0) -> S(0)    d0\nR S(1) -> S(1)    a\n");
  }

  TEST_CASE("ADimOfSeveralLetters") {
    CHECK(lines(made("(h d), h -> h d", {"f32[12]", "f32[4]"})) ==
          "R R -> R\n"
          "S(0) S(0) -> S(0)    h\n"
          "S(0; segments=3|3|3|3) R -> S(1)    d\n");
    CHECK(error([] {
            made("(h d), h -> h d", {"f32[12]", "f32[5]"});
          }).starts_with("[HP-S002] example: operand \"arg0\": dim 0 has size 12"));
  }

  TEST_CASE("Options") {
    CHECK(lines(made("a b -> a; max", {"f32[4, 6]"})) ==
          "R -> R\nS(0) -> S(0)    a\nS(1) -> P(max)    b\n");
    CHECK(made("*a -> a; any, view", {"f32[4]"}).partial == PartialRule::any);
    CHECK(made("*a -> a; any, view", {"f32[4]"}).aliases);
    CHECK(made("a -> a; random", {"f32[4]"}).random);
    CHECK(made("a b -> a; max, nonempty", {"f32[4, 6]"}).factors[1].nonempty);
    CHECK(made("a -> a; handler sort", {"f32[4]"}).handler == "sort");
  }

  TEST_CASE("SyntaxErrorsShowThePlace") {
    CHECK(failure("m k, k n") ==
          "[HP-S050] rule notation: \"->\" expected at place 8\n"
          "  text  m k, k n\n"
          "  form  *... k, *n k, ?+n -> ... n\n"
          "  try   docs/notation.md has the grammar");
    CHECK(failure("a -> ").starts_with("[HP-S050] rule notation: dims expected"));
    CHECK(failure("... ... -> a").starts_with("[HP-S050] rule notation: at most one ..."));
    CHECK(failure("a -> a; median").find("median") != std::string::npos);
    CHECK(failure("a -> a b)").starts_with("[HP-S050]"));
    CHECK(failure("a~soft -> a")
              .starts_with("[HP-S050] rule notation: the name of a handler expected, not \"soft\" "
                           "at place 6"));
    CHECK(failure("a a -> a")
              .starts_with(
                  "[HP-S050] rule notation: \"a!\" for a letter on two dims of a tensor expected"));
    CHECK(failure("( ) -> ()").starts_with("[HP-S050] rule notation: a name expected at place 2"));
  }

  TEST_CASE("SomeOperandMustBeThere") {
    CHECK(error([] { made("?a -> =", {}); }).starts_with("[HP-S001] example"));
  }

  TEST_CASE("ADimOfSeveralLettersWithoutElements") {
    const Row row = {"mine::view", "a (b c), c -> a b c"};
    const Call c = call("mine::view", "x=2", {"f32[4, 0] S(1)", "f32[4]"});
    CHECK(answer(infer_forward(concretize(row, c), c)) == "S(1), R -> S(1)");
  }

  TEST_CASE("ARowOfOnesOwn") {
    const Row row = {"mine::scale_rows", "*... d, ... -> ... d"};
    const Call c = call("mine::scale_rows", "x=2", {"f32[8, 4] S(0)", "f32[8] R"});
    CHECK(answer(infer_forward(concretize(row, c), c)) == "S(0), S(0) -> S(0)");
  }
}

}  // namespace hyper_parallel::rules::test
