#include "hyper_parallel/explain/plan_text.h"

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/explain/text_table.h"
#include "tests/support/doctest.h"

namespace hyper_parallel::explain {
namespace {

constexpr const char* kSource = "f32[4096, 1024] on dp=2 tp=4: S(0) R";

TEST_SUITE("ExplainPlan") {
  TEST_CASE("EachStepHasItsLayoutItsBytesAndItsTime") {
    CHECK(plan_text(*read_plan(kSource, "R S(1)")) ==
          "f32[4096, 1024] on dp=2 tp=4: S(0) R -> R S(1)\n"
          "cut dim 1 over tp, local           S(0) S(1)   1.0 us\n"
          "all_gather dim 0 over dp, 2.0 MiB  R S(1)     31.1 us\n"
          "total 2.0 MiB, 1.00x the lower bound; about 32.1 us on uniform");
    CHECK(plan_text(*read_plan(kSource, "S(0) R")) ==
          "f32[4096, 1024] on dp=2 tp=4: S(0) R -> S(0) R\nnothing to do");
  }

  TEST_CASE("AnotherMeshIsNamed") {
    const std::string text = plan_text(*read_plan(kSource, "all=8: S(1)"));
    CHECK(text.starts_with("f32[4096, 1024] on dp=2 tp=4: S(0) R -> all=8: S(1)\n"));
  }

  TEST_CASE("JsonHasTheSame") {
    CHECK(plan_json(*read_plan(kSource, "R S(1)", plan::topology("h100"))) ==
          "{\"tensor\": \"f32[4096, 1024]\", \"source\": \"dp=2 tp=4: S(0) R\", \"target\": "
          "\"dp=2 tp=4: R S(1)\", \"topology\": \"h100\", \"steps\": [\n"
          "  {\"step\": \"cut dim 1 over tp, local\", \"kind\": \"cut\", \"axes\": [\"tp\"], "
          "\"after\": \"S(0) S(1)\", \"bytes\": 0, \"seconds\": 1e-06},\n"
          "  {\"step\": \"all_gather dim 0 over dp, 2.0 MiB\", \"kind\": \"all_gather\", "
          "\"axes\": [\"dp\"], \"after\": \"R S(1)\", \"bytes\": 2097152, \"seconds\": "
          "1.18603378e-05}\n"
          "], \"bytes\": 2097152, \"lower_bound_bytes\": 2097152, \"seconds\": 1.28603378e-05, "
          "\"note\": \"\"}\n");
  }

  TEST_CASE("OtherTextIsRefused") {
    CHECK_THROWS_AS(read_plan("f32[4", "R"), UsageError);
    CHECK_THROWS_AS(read_plan("f32[4, 4]", "R"), UsageError);
    CHECK_THROWS_AS(read_plan(kSource, "R"), UsageError);
    CHECK_THROWS_AS(read_plan(kSource, "R S(2)"), UsageError);
    CHECK_THROWS_AS(read_plan(kSource, "P(max) R"), UnsupportedError);
  }

  TEST_CASE("TimesHaveTheirUnit") {
    CHECK(time_text(0) == "0.0 us");
    CHECK(time_text(1.25e-5) == "12.5 us");
    CHECK(time_text(0.004) == "4.0 ms");
    CHECK(time_text(1.5) == "1.5 s");
  }
}

}  // namespace
}  // namespace hyper_parallel::explain
