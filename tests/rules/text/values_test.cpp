#include "hyper_parallel/rules/text/values.h"

#include "hyper_parallel/core/error.h"
#include "tests/support/doctest.h"

namespace hyper_parallel::rules {
namespace {

template <class Call>
std::string code_of(Call call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.code();
  }
  return "no error";
}

TEST_SUITE("Values") {
  TEST_CASE("OperandsReadAndPrint") {
    const char* const kTexts[] = {"f32[8, 16] dp=2 tp=4: S(0) R", "bf16[] R S(0)", "i64[-1, 4]",
                                  "bool[0]"};
    for (const char* text : kTexts) {
      CAPTURE(text);
      CHECK(to_string(parse_operand(text)) == text);
    }
    CHECK(parse_operand(" f32 [8,16,]  on x=2: S(0) ") == OperandText{"f32", {8, 16}, "x=2: S(0)"});
    CHECK(parse_operand("torch.float32[1]").dtype == "f32");
    CHECK(parse_operand("double[1]").dtype == "f64");
    CHECK(short_dtype("f8e4") == "f8e4");
  }

  TEST_CASE("OtherOperandsAreRefused") {
    const char* const kTexts[] = {"",         "f32",     "[8]",       "f32[8",
                                  "f32]8[",   "f32[a]",  "f32[8,,4]", "f32[99999999999999999999]",
                                  "f32[1.5]", "f32[8 4]"};
    for (const char* text : kTexts) {
      CAPTURE(text);
      CHECK(code_of([&] { parse_operand(text); }) == "HP-S043");
    }
  }

  TEST_CASE("ListsAndAbsentOperandsStandInOrder") {
    const OperandTexts made = parse_operands("f32[8]; -; {f32[4]; -; i64[2] S(0)}; {}; f32[1]");
    CHECK(made.list_lengths == std::vector<int>{-1, -1, 3, 0, -1});
    REQUIRE(made.operands.size() == 6);
    CHECK(made.operands[0]->sizes == Shape{8});
    CHECK_FALSE(made.operands[1].has_value());
    CHECK_FALSE(made.operands[3].has_value());
    CHECK(made.operands[4]->layout == "S(0)");
    CHECK(parse_operands("").operands.empty());
    CHECK(code_of([] { parse_operands("{f32[4]"); }) == "HP-S043");
    CHECK(code_of([] { parse_operands("f32[4]; what"); }) == "HP-S043");
  }

  TEST_CASE("AttributesReadAndPrint") {
    const auto attrs = parse_attrs(
        "dim=-1 keepdim=True other=None p=2.5 e=1e-05 shape=[2, 3] empty=[] "
        "equation='ij, jk' mode=mean");
    CHECK(attrs.size() == 9);
    const std::pair<const char*, const char*> kPrinted[] = {
        {"dim", "-1"},   {"keepdim", "True"},      {"other", "None"},
        {"p", "2.5"},    {"e", "1e-05"},           {"shape", "[2, 3]"},
        {"empty", "[]"}, {"equation", "'ij, jk'"}, {"mode", "'mean'"}};
    for (const auto& [name, text] : kPrinted) {
      CAPTURE(name);
      const Attr& value = attrs.find(name)->second;
      CHECK(to_string(value) == text);
      CHECK(parse_attrs("x=" + to_string(value)).at("x") == value);
    }
    CHECK(to_string(Attr(2.0)) == "2.0");
    CHECK(parse_attrs("  ").empty());
  }

  TEST_CASE("OtherAttributesAreRefused") {
    for (const char* text : {"dim", "=1", "a b=1", "dim=", "shape=[2", "shape=[2, a]", "e='ij"}) {
      CAPTURE(text);
      CHECK(code_of([&] { parse_attrs(text); }) == "HP-S042");
    }
  }
}

}  // namespace
}  // namespace hyper_parallel::rules
