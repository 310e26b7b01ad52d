#include "hyper_parallel/torch/comm/record.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/explain/report.h"
#include "hyper_parallel/torch/face/api.h"
#include "tests/support/doctest.h"
#include "tests/support/on_ranks.h"

namespace hyper_parallel {
namespace {

const Layout* split() {
  return Layout::get(Mesh::get({2}, {"tp"}), std::vector<Placement>{Placement::shard(0)});
}

std::string differs(const std::string& what, const std::string& given, const std::string& wanted) {
  return given == wanted ? "" : what + ": " + given;
}

TEST_SUITE("CommReport") {
  TEST_CASE("ReportsNestAndEndWhereTheyStop") {
    test::on_ranks(2, [] {
      const at::Tensor x = distribute_tensor(at::ones({4}), split());
      CommReport outer;
      CommReport inner;
      outer.start();
      inner.start();
      (void)full_tensor(x);
      inner.stop();
      (void)full_tensor(x);
      outer.stop();
      (void)full_tensor(x * 2);
      const std::string counts = std::to_string(explain::count(outer.rows())) + " " +
                                 std::to_string(explain::count(inner.rows()));
      if (counts != "2 1") return "counts: " + counts;
      const CommRow row = inner.rows().at(0);
      return differs("row",
                     row.kind + " " + row.tensor + " " + row.from + " " + row.to + " " +
                         std::to_string(row.bytes) + " " + std::string(row.phase()),
                     "all_gather f32[4] S(0) R 8 forward");
    });
  }

  TEST_CASE("TheGradientOfAWholeLeafIsABackwardRow") {
    test::on_ranks(2, [] {
      const Layout* whole = Layout::replicated(split()->mesh());
      const at::Tensor w = distribute_tensor(at::ones({4}), whole).requires_grad_();
      const at::Tensor x = distribute_tensor(at::ones({4}), split());
      CommReport report;
      report.start();
      (w * x).sum().backward();
      report.stop();
      const auto rows = explain::select(report.rows(), {.phase = "backward"});
      if (rows.size() != 1) return explain::why(report.rows());
      return differs("cause", rows[0].kind + ", " + rows[0].reason,
                     "all_reduce, gradient of a replicated leaf");
    });
  }

  TEST_CASE("AReportIsNotStartedTwice") {
    test::on_ranks(2, [] {
      CommReport report;
      report.start();
      try {
        report.start();
      } catch (const UsageError& error) {
        return differs("code", error.code(), "HP-R020");
      }
      return std::string("no error");
    });
  }

  TEST_CASE("AReportEndsWithItsLife") {
    test::on_ranks(2, [] {
      {
        CommReport().start();
      }
      CommReport report;
      report.stop();
      (void)full_tensor(distribute_tensor(at::ones({4}), split()));
      return differs("rows", std::to_string(report.rows().size()), "0");
    });
  }
}

}  // namespace
}  // namespace hyper_parallel
