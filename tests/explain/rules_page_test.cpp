#include "hyper_parallel/explain/rules_page.h"

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/explain/rule_samples.h"
#include "hyper_parallel/rules/query/read_call.h"
#include "hyper_parallel/rules/text/print.h"
#include "tests/support/doctest.h"

namespace hyper_parallel::explain {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_SUITE("RulesPage") {
  TEST_CASE("ATableShowsEachStrategyWithItsGradients") {
    const std::string text = rules_table("mm", "f32[4, 6]; f32[6, 2]");
    CHECK(
        text.starts_with("mm, by aten::mm    *m k, *k n -> m n\nfamily matmul\n"
                         "call f32[4, 6]; f32[6, 2]\n"
                         "rule *m k, *k n -> m n {m=4, k=6, n=2}\n\nR R -> R"));
    CHECK(has(text, "\nS(1) S(0) -> P(sum)    k                      grad S(1) S(0)"));
  }

  TEST_CASE("WithoutOperandsTheSampleIsAsked") {
    const std::string text = rules_table("topk");
    CHECK(text.starts_with("topk, by aten::topk    "));
    CHECK(has(text, "\ncall f32[8, 16], dim=-1 k=2\nrule "));
    CHECK(has(text, "\n\n~topk: local top k"));
    CHECK(has(rules_table("topk", "", "dim=0"), ", dim=-1 k=2 dim=0\nrule "));
  }

  TEST_CASE("EveryRowHasASampleThatItsRuleTakes") {
    for (const rules::RowInfo& row : rules::rows()) {
      CAPTURE(row.op);
      CHECK_FALSE(rule_sample(row.op, row.spec).empty());
      CHECK(has(rules_table(row.op), " -> "));
    }
  }

  TEST_CASE("TheRuleOfEverySampleReadsBack") {
    for (const rules::RowInfo& row : rules::rows()) {
      CAPTURE(row.op);
      const std::string sample = rule_sample(row.op, row.spec);
      const std::size_t bar = std::min(sample.find('|'), sample.size());
      const std::string attrs = bar < sample.size() ? sample.substr(bar + 1) : "";
      const rules::Query query = rules::read_call(row.op, sample.substr(0, bar), attrs);
      const std::string text = rules::to_string(query.rule);
      const bool on_lists = text.starts_with("[") || text.starts_with("handler fused");
      CHECK(on_lists == (row.spec.starts_with("each") || row.spec.starts_with("fused")));
      if (!on_lists) CHECK(rules::parse_rule(text) == query.rule);
    }
  }

  TEST_CASE("ThePageAndTheListNameEveryRow") {
    const std::string page = rules_markdown();
    const std::string list = rules_listing();
    for (const rules::RowInfo& row : rules::rows()) {
      CAPTURE(row.op);
      CHECK(has(page, "\n| `" + row.op + "` | `"));
      CHECK(has(list, "\n  " + row.op + " "));
    }
    CHECK(page.ends_with(" |\n"));
  }

  TEST_CASE("UnknownNamesAreRefusedWithNearOnes") {
    try {
      (void)rules_table("topkk");
      FAIL_CHECK("no error");
    } catch (const UsageError& error) {
      CHECK(error.code() == "HP-S040");
      CHECK(has(error.what(), "topk"));
    }
    CHECK_THROWS_AS(rules_table("mm", "f32[4]"), UsageError);
  }
}

}  // namespace
}  // namespace hyper_parallel::explain
