#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/ThreadLocalState.h>
#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

namespace c10d {
class ProcessGroup;
}

namespace hyper_parallel::torch_layer {

class LocalWorld;

/// Who the calling rank is and how it reaches others. Safe for threads.
class RankContext {
 public:
  /// Make the group of `ranks` (two or more, this rank among them; the order counts) and return
  /// the name under which c10d knows it. Called once a list, with no lock held.
  using GroupMaker = std::function<std::string(const std::vector<int>& ranks)>;

  /// False once the context is of no use, such as after destroy_process_group.
  using Alive = std::function<bool()>;

  RankContext(int rank, int world_size, GroupMaker maker, Alive alive = nullptr);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  /// A number that no other context of the process has or had.
  std::uint64_t generation() const { return generation_; }
  bool alive() const { return alive_ == nullptr || alive_(); }

  /// The name for functional collectives. The group is made by the first call, which only its
  /// members make. The reference lives as long as the context.
  /// Throws InternalError: fewer than two ranks, one repeated, this rank missing.
  /// Throws UsageError: a rank outside the world.
  const std::string& group_name(const std::vector<int>& ranks);
  c10::intrusive_ptr<c10d::ProcessGroup> group(const std::vector<int>& ranks);

 private:
  const int rank_;
  const int world_size_;
  const std::uint64_t generation_;
  const GroupMaker maker_;
  const Alive alive_;
  std::mutex mutex_;
  std::map<std::vector<int>, std::string> names_;
};

/// The context of the calling thread: that of its rank inside `run_local`, else the one of the
/// process, else rank 0 of 1. Asks the provider where there is none, so do not call it per op:
/// key a cache by `context_generation()`.
RankContext& current_rank();

/// The generation of the context that this thread used last; never asks the provider.
std::uint64_t context_generation();

/// Set the context of the process; null takes it away. References to old ones stay valid.
void set_process_context(std::shared_ptr<RankContext> context);

/// Called by `current_rank` where the process has no live context; null: there is none yet.
void set_context_provider(std::function<std::shared_ptr<RankContext>()> provider);

/// True on a thread that is a rank of `run_local`.
bool inside_run_local();

/// Throw UsageError on such a thread.
void require_outside_run_local();

/// What ranks take over from the thread that starts them, as it is when this is made.
class RankCaller {
 public:
  RankCaller();

  const at::ThreadLocalState& state() const { return state_; }      // grad mode, autocast, settings
  const at::Tensor& random_state() const { return random_state_; }  // of the default generator
  int intra_op_threads() const { return intra_op_threads_; }

  /// Set the intra-op threads again: the setting of rank threads is one of the process.
  void restore_threads() const;

 private:
  at::ThreadLocalState state_;
  at::Tensor random_state_;
  int intra_op_threads_;
};

/// Makes the calling thread a rank of `world` for its life: context, the state of `caller`, one
/// share of the intra-op threads, backward on this thread.
///
/// Throws UsageError: this thread is a rank already.
class RankScope {
 public:
  RankScope(const std::shared_ptr<LocalWorld>& world, int rank, const RankCaller& caller);
  ~RankScope();
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;

 private:
  std::unique_ptr<at::ThreadLocalStateGuard> state_;
};

/// Options of `run_local`.
struct RunLocalOptions {
  /// How long a rank waits for the others in one collective.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

/// Run `fn` on `world` ranks, each a thread of this process, and wait for all.
///
/// If ranks fail, the error that came first is rethrown with its own type; errors of this
/// library and of torch also name the rank. The other ranks stop at their next collective.
/// Throws UsageError: called on a rank, `world` below 1.
void run_local(int world, const std::function<void()>& fn, const RunLocalOptions& options = {});

}  // namespace hyper_parallel::torch_layer
