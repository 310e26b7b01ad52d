#include "hyper_parallel/torch/ranks/ranks.h"

#include "hyper_parallel/torch/ranks/rank_state.h"
#include "hyper_parallel/torch/ranks/rank_stream.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/AutogradState.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/ranks/local/group.h"

namespace hyper_parallel::torch_layer {
namespace {

std::atomic<std::uint64_t> next_generation{1};

struct Process {
  std::mutex mutex;
  std::atomic<RankContext*> context{nullptr};
  std::vector<std::shared_ptr<RankContext>> all;  // old ones too: references stay valid
  std::function<std::shared_ptr<RankContext>()> provider;
};

Process& process() {
  // Never destroyed: rank threads and Python may outlive static destructors.
  static auto* const instance = new Process;
  return *instance;
}

RankContext& alone() {
  static auto* const context = new RankContext(0, 1, nullptr);
  return *context;
}

// The context of a rank thread, and the groups that it made.
struct LocalRank {
  std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> groups;
  std::vector<std::string> names;
  std::unique_ptr<RankContext> context;

  ~LocalRank() {
    for (const std::string& name : names) c10d::unregister_process_group(name);
  }
};

thread_local std::unique_ptr<LocalRank> local_rank;

std::string listed(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (const int rank : ranks) parts.push_back(std::to_string(rank));
  return "[" + join(parts) + "]";
}

std::unique_ptr<LocalRank> make_local_rank(const std::shared_ptr<LocalWorld>& world, int rank) {
  auto local = std::make_unique<LocalRank>();
  local->context = std::make_unique<RankContext>(
      rank, world->size(), [world, rank, self = local.get()](const std::vector<int>& ranks) {
        const auto place = std::find(ranks.begin(), ranks.end(), rank);
        // Threads share one registry: the name holds the world and the rank.
        const std::string name = "hp.local." + std::to_string(world->id()) + "." + listed(ranks) +
                                 ".rank" + std::to_string(rank);
        auto group = make_local_group(world, ranks, static_cast<int>(place - ranks.begin()), name);
        c10d::register_process_group(name, group);
        self->groups.push_back(std::move(group));
        self->names.push_back(name);
        return name;
      });
  return local;
}

template <class E>
[[noreturn]] void rethrow_naming(const E& error, const std::string& rank) {
  // The text is "[code] rest".
  const std::string text = error.what();
  throw E(Message(error.code(), text.substr(std::min(text.size(), error.code().size() + 3)))
              .fact("on rank", rank));
}

[[noreturn]] void rethrow(const std::exception_ptr& error, const std::string& rank) {
  try {
    std::rethrow_exception(error);
  } catch (const UsageError& e) {
    rethrow_naming(e, rank);
  } catch (const UnsupportedError& e) {
    rethrow_naming(e, rank);
  } catch (const CommError& e) {
    rethrow_naming(e, rank);
  } catch (const InternalError& e) {
    rethrow_naming(e, rank);
  } catch (c10::Error& e) {
    e.add_context("on rank " + rank);
    throw;
  }
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace

RankContext::RankContext(int rank, int world_size, GroupMaker maker, Alive alive)
    : rank_(rank),
      world_size_(world_size),
      generation_(next_generation++),
      maker_(std::move(maker)),
      alive_(std::move(alive)) {}

const std::string& RankContext::group_name(const std::vector<int>& ranks) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = names_.find(ranks); found != names_.end()) return found->second;
  }
  check_internal(ranks.size() >= 2, "a group of " + listed(ranks) + " needs no communication");
  check_internal(std::find(ranks.begin(), ranks.end(), rank_) != ranks.end(),
                 "rank " + std::to_string(rank_) + " asks for the group " + listed(ranks));
  std::vector<int> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  check_internal(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
                 "a rank is repeated in the group " + listed(ranks));
  if (sorted.front() < 0 || sorted.back() >= world_size_ || maker_ == nullptr) {
    throw UsageError(Message("HP-C010", "the mesh needs ranks that this run does not have")
                         .fact("group", listed(ranks))
                         .fact("ranks", std::to_string(world_size_))
                         .hint("start with torchrun, or call inside run_local(fn, world)"));
  }
  // Not under the lock: a maker may wait for Python's lock, whose holder may want ours.
  std::string name = maker_(ranks);
  const std::lock_guard lock(mutex_);
  return names_.emplace(ranks, std::move(name)).first->second;
}

c10::intrusive_ptr<c10d::ProcessGroup> RankContext::group(const std::vector<int>& ranks) {
  return c10d::resolve_process_group(group_name(ranks));
}

RankContext& current_rank() {
  if (local_rank != nullptr) return *local_rank->context;
  Process& state = process();
  RankContext* context = state.context.load(std::memory_order_acquire);
  if (context != nullptr && context->alive()) return *context;
  if (context != nullptr) set_process_context(nullptr);
  std::function<std::shared_ptr<RankContext>()> provider;
  {
    const std::lock_guard lock(state.mutex);
    provider = state.provider;
  }
  if (std::shared_ptr<RankContext> made = provider ? provider() : nullptr) {
    RankContext& reference = *made;
    set_process_context(std::move(made));
    return reference;
  }
  return alone();
}

std::uint64_t context_generation() {
  if (local_rank != nullptr) return local_rank->context->generation();
  const RankContext* context = process().context.load(std::memory_order_acquire);
  return context != nullptr && context->alive() ? context->generation() : alone().generation();
}

void set_process_context(std::shared_ptr<RankContext> context) {
  Process& state = process();
  const std::lock_guard lock(state.mutex);
  state.context.store(context.get(), std::memory_order_release);
  if (context != nullptr) state.all.push_back(std::move(context));
}

void set_context_provider(std::function<std::shared_ptr<RankContext>()> provider) {
  const std::lock_guard lock(process().mutex);
  process().provider = std::move(provider);
}

bool inside_run_local() { return local_rank != nullptr; }

void require_outside_run_local() {
  if (!inside_run_local()) return;
  throw UsageError(Message("HP-C013", "run_local: the calling thread is a rank of run_local")
                       .hint("call run_local once, with all ranks of the mesh"));
}

RankCaller::RankCaller() : intra_op_threads_(at::get_num_threads()) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  random_state_ = generator.get_state();
}

void RankCaller::restore_threads() const { at::set_num_threads(intra_op_threads_); }

RankScope::RankScope(const std::shared_ptr<LocalWorld>& world, int rank, const RankCaller& caller) {
  require_outside_run_local();
  state_ = std::make_unique<at::ThreadLocalStateGuard>(caller.state());
  separate_settings();
  // The engine has one thread a device for the whole process: two ranks that wait for each other
  // in backward would block it.
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  at::set_num_threads(std::max(1, caller.intra_op_threads() / world->size()));
  local_rank = make_local_rank(world, rank);
  begin_rank_stream(caller.random_state());
}

RankScope::~RankScope() { local_rank.reset(); }

void run_local(int world, const std::function<void()>& fn, const RunLocalOptions& options) {
  require_outside_run_local();
  const auto meeting = std::make_shared<LocalWorld>(world, options.timeout);
  const RankCaller caller;
  std::exception_ptr cause;
  int cause_rank = -1;
  std::mutex mutex;
  const auto run_rank = [&](int rank) {
    try {
      const RankScope scope(meeting, rank, caller);
      fn();
      meeting->finish(rank);
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      if (!meeting->fail(rank, text_of(error))) return;
      const std::lock_guard lock(mutex);
      if (!cause) cause = error;
      cause_rank = rank;
    }
  };
  std::vector<std::thread> ranks;
  try {
    for (int rank = 0; rank < world; ++rank) ranks.emplace_back(run_rank, rank);
  } catch (const std::system_error& error) {
    meeting->abort(std::string("no more threads: ") + error.what());
    cause = std::current_exception();
  }
  for (std::thread& rank : ranks) rank.join();
  caller.restore_threads();
  if (cause) rethrow(cause, std::to_string(cause_rank) + " of " + std::to_string(world));
}

}  // namespace hyper_parallel::torch_layer
