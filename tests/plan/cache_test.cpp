// Plans are shared: one question has one answer, on all threads.

#include <doctest/doctest.h>

#include <set>
#include <thread>

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/plan/redistribute.h"

namespace hyper_parallel::test {
namespace {

std::shared_ptr<const plan::Plan> ask(const std::string& from, std::string_view to,
                                      std::string_view topology = "uniform") {
  const Described d = parse_described(from);
  return plan::redistribute(d.layout, parse_layout(d.layout->mesh(), to), d.meta,
                            plan::topology(topology));
}

}  // namespace

TEST_SUITE("PlanCache") {
  TEST_CASE("one question has one answer") {
    const auto plan = ask("f32[8, 6] on x=2 y=2: S(0) P(sum)", "R S(1)");
    CHECK(ask("f32[8, 6] on x=2 y=2: S(0) P(sum)", "R S(1)") == plan);
    CHECK(plan->id != 0);
  }

  TEST_CASE("whatever matters makes another") {
    std::set<std::uint64_t> ids;
    for (const auto& plan :
         {ask("f32[16, 6] on x=2: S(0)", "R"), ask("f32[16, 7] on x=2: S(0)", "R"),
          ask("f64[16, 6] on x=2: S(0)", "R"), ask("f32[16, 6] on x=2: S(1)", "R"),
          ask("f32[16, 6] on x=2: S(0)", "S(1)"), ask("f32[16, 6] on y=2: S(0)", "R"),
          ask("f32[16, 6] on x=2: S(0; block=2)", "R"),
          ask("f32[16, 6] on x=2: S(0)", "R", "h100")}) {
      ids.insert(plan->id);
    }
    CHECK(ids.size() == 8);
  }

  TEST_CASE("the transpose is kept with its plan, and has an id of its own") {
    const auto plan = ask("f32[9, 6] on x=2 y=2: S(0) P(sum)", "R S(1)");
    const auto back = plan::transposed(plan);
    CHECK(plan::transposed(plan) == back);
    CHECK(back->id != plan->id);
    CHECK(back->from == plan->to->dual());
    CHECK(back->to == plan->from->dual());
    CHECK(to_string(*back) == to_string(plan::transpose(*plan)));
    CHECK(plan::transposed(back)->from == plan->from);
  }

  TEST_CASE("threads that ask at once get the same") {
    constexpr int kThreads = 4;
    constexpr int kPlans = 64;
    std::vector<std::vector<std::shared_ptr<const plan::Plan>>> got(kThreads);
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&got, t] {
          for (int i = 0; i < kPlans; ++i) {
            const std::string size = std::to_string(1000 + i);
            got[static_cast<std::size_t>(t)].push_back(ask("f32[" + size + "] on x=4: S(0)", "R"));
          }
        });
      }
    }
    for (const auto& plans : got) CHECK(plans == got.front());
  }

  TEST_CASE("the cache is bounded, and plans in hand stay valid") {
    const auto first = ask("f32[7, 3] on x=2: S(0)", "R");
    const std::string text = to_string(*first);
    for (int i = 0; i < (1 << 14); ++i)
      ask("f32[" + std::to_string(20000 + i) + "] on x=2: S(0)", "R");
    CHECK(to_string(*first) == text);
    const auto again = ask("f32[7, 3] on x=2: S(0)", "R");
    CHECK(again != first);  // it had left
    CHECK(to_string(*again) == text);
    CHECK(again->id != first->id);
  }
}

}  // namespace hyper_parallel::test
