#include "hyper_parallel/torch/dispatch/plan_cache.h"

#include <atomic>
#include <cstring>

#include "hyper_parallel/torch/ranks/rank_state.h"

namespace hyper_parallel::torch_layer {
namespace {

std::atomic<std::uint64_t> plans_generation{1};

}  // namespace

PlanCache& PlanCache::of_thread() {
  PlanCache& cache = PerRank<PlanCache>::get();
  if (const std::uint64_t now = plans_generation.load(std::memory_order_acquire);
      cache.generation_ != now) {
    cache.clear();
    cache.generation_ = now;
  }
  return cache;
}

std::shared_ptr<const OpPlan> PlanCache::find(const PlanKey& key, std::uint64_t hash) const {
  for (std::size_t i = hash & (kSlots - 1); slots_[i] != nullptr; i = (i + 1) & (kSlots - 1)) {
    const Entry& e = *slots_[i];
    if (e.hash == hash && e.key.size() == key.size() &&
        std::memcmp(e.key.data(), key.data(), key.size() * sizeof(key[0])) == 0) {
      return e.plan;
    }
  }
  return nullptr;
}

std::shared_ptr<const OpPlan> PlanCache::insert(const PlanKey& key, std::uint64_t hash,
                                                std::shared_ptr<const OpPlan> plan) {
  if (count_ >= kLimit) clear();
  std::size_t i = hash & (kSlots - 1);
  while (slots_[i] != nullptr) i = (i + 1) & (kSlots - 1);
  slots_[i] = std::make_unique<Entry>(Entry{hash, key, std::move(plan)});
  ++count_;
  return slots_[i]->plan;
}

void PlanCache::clear() {
  for (auto& slot : slots_) slot.reset();
  count_ = 0;
}

void forget_plans() { plans_generation.fetch_add(1, std::memory_order_acq_rel); }

}  // namespace hyper_parallel::torch_layer
