#include <atomic>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "hyper_parallel/core/hash.h"
#include "hyper_parallel/plan/cache_internal.h"

namespace hyper_parallel::plan {
namespace {

constexpr std::size_t kMostPlans = 1 << 14;  // per cache, each some hundred bytes

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

/// Plans by a hash that `same` refines. The oldest one leaves when it is full.
class Cache {
 public:
  Cache() { entries_.reserve(kMostPlans + 1); }  // never rehashed: `order_` holds iterators

  template <class Same>
  std::shared_ptr<const Plan> find(std::size_t hash, Same same) const {
    std::shared_lock lock(mutex_);
    return find_locked(hash, same);
  }

  /// Keep `plan`, or return the equal one that another thread has put in meanwhile.
  template <class Same>
  std::shared_ptr<const Plan> insert(std::size_t hash, Plan plan,
                                     std::shared_ptr<const Plan> source, Same same) {
    std::unique_lock lock(mutex_);
    if (auto found = find_locked(hash, same)) return found;
    plan.id = next_id();
    auto shared = std::make_shared<const Plan>(std::move(plan));
    if (order_.size() == kMostPlans) {
      entries_.erase(order_.front());
      order_.pop_front();
    }
    order_.push_back(entries_.emplace(hash, Entry{std::move(source), shared}));
    return shared;
  }

 private:
  struct Entry {
    std::shared_ptr<const Plan> source;  // of a transpose; null for others
    std::shared_ptr<const Plan> plan;
  };
  using Entries = std::unordered_multimap<std::size_t, Entry>;

  template <class Same>
  std::shared_ptr<const Plan> find_locked(std::size_t hash, Same same) const {
    auto [begin, end] = entries_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      if (same(it->second.source.get(), *it->second.plan)) return it->second.plan;
    }
    return nullptr;
  }

  mutable std::shared_mutex mutex_;
  Entries entries_;
  std::deque<Entries::iterator> order_;
};

}  // namespace

std::shared_ptr<const Plan> cached(const Layout* from, const Layout* to, const TensorMeta& meta,
                                   const Topology& topology, const std::function<Plan()>& make) {
  static Cache* const cache = new Cache;  // never destroyed: threads may outlive statics
  std::size_t hash = from->hash();
  hash_combine(hash, to->hash());
  hash_combine(hash, static_cast<std::size_t>(meta.dtype));
  for (std::int64_t size : meta.sizes) hash_combine(hash, static_cast<std::size_t>(size));
  const auto same = [&](const Plan*, const Plan& p) {
    return p.from == from && p.to == to && p.topology == &topology && p.meta == meta;
  };
  if (auto found = cache->find(hash, same)) return found;
  return cache->insert(hash, make(), nullptr, same);
}

std::shared_ptr<const Plan> transposed(const std::shared_ptr<const Plan>& plan) {
  static Cache* const cache = new Cache;
  const std::size_t hash = std::hash<const Plan*>()(plan.get());
  const auto same = [&](const Plan* source, const Plan&) { return source == plan.get(); };
  if (auto found = cache->find(hash, same)) return found;
  return cache->insert(hash, transpose(*plan), plan, same);
}

}  // namespace hyper_parallel::plan
