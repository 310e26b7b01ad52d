#include "hyper_parallel/torch/dispatch/plan_cache.h"

#include <thread>

#include "hyper_parallel/torch/ranks/ranks.h"
#include "tests/support/doctest.h"

namespace hyper_parallel::torch_layer {
namespace {

PlanKey key_of(std::uint64_t n) { return {n, n + 1}; }

TEST_SUITE("PlanCache") {
  TEST_CASE("FindsWhatWasPutIn") {
    PlanCache cache;
    CHECK(cache.find(key_of(1), 7) == nullptr);
    const auto one = cache.insert(key_of(1), 7, std::make_unique<OpPlan>());
    CHECK(cache.find(key_of(1), 7) == one);
    CHECK(cache.size() == 1);
  }

  TEST_CASE("EqualHashesAndSlotsAreNotEqualKeys") {
    PlanCache cache;
    const auto one = cache.insert(key_of(1), 7, std::make_unique<OpPlan>());
    const auto two = cache.insert(key_of(2), 7, std::make_unique<OpPlan>());
    const auto same_slot = cache.insert(key_of(3), 7 + 16384, std::make_unique<OpPlan>());
    CHECK(cache.find(key_of(1), 7) == one);
    CHECK(cache.find(key_of(2), 7) == two);
    CHECK(cache.find(key_of(3), 7 + 16384) == same_slot);
    CHECK(cache.find(key_of(3), 7) == nullptr);
    CHECK(cache.find({1}, 7) == nullptr);
  }

  TEST_CASE("SlotsAtTheEndGoOnAtTheFront") {
    PlanCache cache;
    const auto last = cache.insert(key_of(1), 16383, std::make_unique<OpPlan>());
    const auto first = cache.insert(key_of(2), 16383, std::make_unique<OpPlan>());
    CHECK(cache.find(key_of(1), 16383) == last);
    CHECK(cache.find(key_of(2), 16383) == first);
  }

  TEST_CASE("StartsAnewWhenFull") {
    PlanCache cache;
    std::shared_ptr<const OpPlan> in_use;
    for (std::uint64_t i = 0; i < 8192; ++i) {
      in_use = cache.insert(key_of(i), i, std::make_unique<OpPlan>());
    }
    CHECK(cache.size() == 8192);
    cache.insert(key_of(9000), 9000, std::make_unique<OpPlan>());
    CHECK(cache.size() == 1);
    CHECK(cache.find(key_of(8191), 8191) == nullptr);
    CHECK(in_use.use_count() == 1);  // an outer call still has its plan
  }

  TEST_CASE("ForgetsWithTheRulesAndTheContext") {
    PlanCache& cache = PlanCache::of_thread();
    cache.insert(key_of(1), 1, std::make_unique<OpPlan>());
    CHECK(&PlanCache::of_thread() == &cache);
    CHECK(cache.size() == 1);
    forget_plans();
    CHECK(PlanCache::of_thread().size() == 0);
    cache.insert(key_of(1), 1, std::make_unique<OpPlan>());
    set_process_context(std::make_shared<RankContext>(0, 1, nullptr));
    CHECK(PlanCache::of_thread().size() == 0);
    set_process_context(nullptr);
    std::thread([&] { CHECK(&PlanCache::of_thread() != &cache); }).join();
  }
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
