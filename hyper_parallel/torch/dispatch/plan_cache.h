#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "hyper_parallel/torch/dispatch/call_plan.h"

namespace hyper_parallel::torch_layer {

/// The key of a plan: a flat list of words, complete (None, tags, shapes, layouts, policy).
using PlanKey = c10::SmallVector<std::uint64_t, 64>;

/// Plans of one thread, bounded: when full, it starts anew.
class PlanCache {
 public:
  /// The cache of the calling thread. It is emptied when the thread serves another rank context or
  /// when rules were registered since.
  static PlanCache& of_thread();

  /// Null if there is none. Whoever runs a plan holds it: a nested call may empty the cache.
  std::shared_ptr<const OpPlan> find(const PlanKey& key, std::uint64_t hash) const;
  std::shared_ptr<const OpPlan> insert(const PlanKey& key, std::uint64_t hash,
                                       std::shared_ptr<const OpPlan> plan);
  std::size_t size() const { return count_; }
  void clear();

  std::uint64_t hits = 0;
  std::uint64_t misses = 0;

 private:
  struct Entry {
    std::uint64_t hash = 0;
    PlanKey key;
    std::shared_ptr<const OpPlan> plan;
  };
  static constexpr std::size_t kSlots = 16384;  // a power of two
  static constexpr std::size_t kLimit = 8192;
  std::vector<std::unique_ptr<Entry>> slots_ = std::vector<std::unique_ptr<Entry>>(kSlots);
  std::size_t count_ = 0;
  std::uint64_t generation_ = 0;
};

/// Empty the caches of all threads (each at its next use).
void forget_plans();

}  // namespace hyper_parallel::torch_layer
