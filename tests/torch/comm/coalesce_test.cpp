// Several plans at once: what goes out together, and that values are those of each alone.

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include <set>

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/comm/record.h"
#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "tests/support/on_ranks.h"

namespace hyper_parallel::torch_layer {
namespace {

using test::on_ranks;
using PlanPtr = std::shared_ptr<const plan::Plan>;

PlanPtr plan_of(const char* from, const char* to) {
  const Described d = parse_described(from);
  return plan::redistribute(d.layout, parse_layout(d.layout->mesh(), to), d.meta);
}

at::Tensor local_of(const PlanPtr& plan) {
  const Shape shape = local_shape(plan->from, plan->meta.sizes, my_coordinate(plan->from->mesh()));
  return at::arange(product(shape), at::kDouble).view(shape) * (1 + current_rank().rank());
}

TEST_CASE("several plans at once give what each gives alone") {
  const std::vector<PlanPtr> plans = {
      plan_of("f64[5, 3] on dp=2 tp=2: P(sum) R", "R R"),
      plan_of("f64[7] on dp=2 tp=2: P(sum) R", "R R"),
      plan_of("f64[4, 2] on dp=2 tp=2: P(sum) P(sum)", "R R"),
      plan_of("f64[5, 3] on dp=2 tp=2: S(0) R", "R R"),
      plan_of("f64[6, 2] on dp=2 tp=2: S(1) R", "R R"),
      plan_of("f64[1, 3] on dp=2 tp=2: S(0) S(0)", "R S(0)"),
      plan_of("f64[5, 3] on dp=2 tp=2: P(sum) R", "S(0) R"),
      plan_of("f64[6, 2] on dp=2 tp=2: P(sum) R", "S(1) R"),
      plan_of("f64[6, 2] on dp=2 tp=2: P(sum) S(0)", "S(0) S(1)"),
      plan_of("f64[6, 2] on dp=2 tp=2: R R", "R R"),
      plan_of("f64[6, 2] on dp=2 tp=2: P(avg) R", "R R"),
      plan_of("f64[0, 2] on dp=2 tp=2: P(sum) S(1)", "R R"),
      plan_of("f64[6, 2] on dp=2 tp=2: R R", "S(0) R"),
      nullptr,
  };
  on_ranks(4, [&]() -> std::string {
    std::vector<at::Tensor> locals;
    for (const PlanPtr& p : plans) {
      const Shape shape = p == nullptr
                              ? Shape{2}
                              : local_shape(p->from, p->meta.sizes, my_coordinate(p->from->mesh()));
      std::int64_t count = 1;
      for (std::int64_t size : shape) count *= size;
      locals.push_back(at::arange(count, at::kDouble).view(shape) * (1 + current_rank().rank()));
    }
    std::size_t steps = 0;
    std::size_t collectives = 0;
    std::vector<at::Tensor> joined;
    {
      CommReport report;
      report.start();
      joined = execute_coalesced(plans, locals);
      std::set<int> numbers;
      for (const CommRow& row : report.rows()) {
        if (row.joined != 0) numbers.insert(row.joined);
      }
      steps = report.rows().size();
      collectives = numbers.size();
    }
    std::size_t expected_steps = 0;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const at::Tensor alone = plans[i] == nullptr ? locals[i] : execute(*plans[i], locals[i]);
      if (!at::equal(joined[i], alone)) return "plan " + std::to_string(i);
      if (plans[i] == nullptr || plans[i]->meta.numel() == 0) continue;
      for (const plan::Step& step : plans[i]->steps) expected_steps += step.communicates() ? 1 : 0;
    }
    // All-reduces, gathers and reduce-scatters over dp; the others have no partner.
    if (collectives != 3) return std::to_string(collectives) + " joined collectives";
    if (joined.back().is_same(locals.back()) == false) return "null plan";
    return steps == expected_steps ? "" : std::to_string(steps) + " steps seen";
  });
}

TEST_CASE("several coalesced sets are under way at once") {
  const std::vector<PlanPtr> one = {plan_of("f64[5, 3] on tp=2: S(0)", "R"),
                                    plan_of("f64[4] on tp=2: S(0)", "R"), nullptr,
                                    plan_of("f64[0, 3] on tp=2: S(0)", "R")};
  const std::vector<PlanPtr> two = {plan_of("f64[5, 3] on tp=2: P(sum)", "S(0)"),
                                    plan_of("f64[4] on tp=2: P(sum)", "R")};
  on_ranks(2, [&]() -> std::string {
    const auto locals = [](const std::vector<PlanPtr>& plans) {
      std::vector<at::Tensor> out;
      for (const PlanPtr& p : plans) out.push_back(p == nullptr ? at::ones({2}) : local_of(p));
      return out;
    };
    PendingPlans first(one, locals(one));
    PendingPlans second(two, locals(two));
    const auto check = [&](const std::vector<PlanPtr>& plans, std::vector<at::Tensor> given) {
      for (std::size_t i = 0; i < plans.size(); ++i) {
        if (plans[i] == nullptr) continue;
        if (!at::equal(given[i], execute(*plans[i], local_of(plans[i])))) return false;
      }
      return true;
    };
    // The waits first: all ranks issue in one order.
    const std::vector<at::Tensor> a = first.wait();
    const std::vector<at::Tensor> b = second.wait();
    if (!check(one, a)) return "first";
    return check(two, b) ? "" : "second";
  });
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
