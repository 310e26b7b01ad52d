#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/ranks/local/collective_log.h"

namespace hyper_parallel::torch_layer {

/// A piece of contiguous memory on the host. `count` is in elements of `dtype`.
struct Block {
  std::byte* data = nullptr;
  std::int64_t count = 0;
  at::ScalarType dtype = at::kFloat;

  std::size_t bytes() const;
};

/// What one rank brings to one collective. It lives on that rank's stack while all meet.
///
/// Between each source and destination travel `blocks` blocks, one a tensor. `sends` lists them
/// by destination, or once if all destinations get the same; `receives` by source, or once if
/// there is one source or the sources are combined. Empty: not a source, not a destination.
struct Share {
  using Check = std::optional<std::string> (*)(const std::vector<Share*>& shares);
  using Work = void (*)(const std::vector<Share*>& shares, int worker, int workers);

  const char* op = "";                              // a literal, such as "all_reduce"
  std::optional<c10d::ReduceOp::RedOpType> reduce;  // how blocks are combined, if they are
  int root = -1;                                    // the one source or destination, or -1
  bool same_shape = false;                          // `tensors` must have equal sizes
  std::vector<at::Tensor> tensors;                  // the caller's, for checks and texts
  std::size_t blocks = 1;
  std::vector<Block> sends;
  std::vector<Block> receives;
  Check check = nullptr;  // the reason why `shares` do not fit
  Work work = nullptr;    // part `worker` of `workers`
};

/// Write a share as `all_reduce(sum) f32[4, 4]`.
std::string describe(const Share& share);

/// The meeting point of ranks that are threads of one process: who waits where, who failed.
///
/// One mutex guards it all; it is held for well under a microsecond, never while data moves.
/// When a rank fails, times out or leaves while it is needed, every rank that waits now or
/// meets later gets a CommError. All functions may be called from any thread.
class LocalWorld {
 public:
  /// The meeting place of one list of ranks.
  struct Room {
    std::vector<int> ranks;  // world ranks by member
    std::vector<Share*> shares;
    std::vector<std::uint64_t> sequence;  // collectives entered, by member
    int arrived = 0;
    int working = 0;                     // members still busy with a shared piece of work
    bool busy = false;                   // data moves: nobody may leave
    std::atomic<std::uint64_t> turn{0};  // goes up when a wait is over
    std::optional<Message> mismatch;     // the outcome of the last collective
    std::condition_variable changed;
  };

  /// A posted receive. `message` is there once a send matched it.
  struct Receive {
    int from = -1;  // member, -1: any
    int tag = 0;
    std::optional<at::Tensor> message;
  };

  /// Throws UsageError: `size` below 1, `timeout` not positive.
  LocalWorld(int size, std::chrono::milliseconds timeout);

  ~LocalWorld();

  int size() const { return static_cast<int>(ranks_.size()); }

  /// The last collectives of a rank.
  CollectiveLog& log(int rank) { return *ranks_[static_cast<std::size_t>(rank)].log; }
  std::uint64_t id() const { return id_; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  /// The room of `ranks`, the same object for every caller with the same list.
  Room& room(const std::vector<int>& ranks);

  /// Bring `share` and return when the collective is done: from then on no other rank touches
  /// the caller's memory. Throws CommError: ranks disagree, time-out, a rank failed or left.
  /// Cost: one wake-up a rank; a second one when the data is large enough to share the work.
  void meet(Room& room, int member, Share& share);

  /// Leave `message` for member `to`; never waits. The world keeps the tensor.
  void send(Room& room, int from, int to, int tag, at::Tensor message);

  /// Post a receive for `member`; messages match in the order of posting.
  std::shared_ptr<Receive> post(Room& room, int member, int from, int tag);

  /// Wait for the message of `receive`. Throws CommError as `meet`.
  const at::Tensor& wait(Room& room, int member, Receive& receive);
  bool arrived(const Receive& receive);

  /// Record that `rank` failed with `text` and wake all. True for the first one: the cause.
  bool fail(int rank, const std::string& text);

  /// Record that `rank` will meet nobody any more.
  void finish(int rank);

  /// Stop all ranks with `reason` (an interrupt, a shutdown).
  void abort(const std::string& reason);

  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

 private:
  /// What one rank does, for time-outs and deadlocks.
  struct Trace {
    const char* op = nullptr;  // the last one entered
    std::uint64_t sequence = 0;
    Room* room = nullptr;
    const Share* share = nullptr;  // while inside
    bool inside = false;
    bool finished = false;
    const c10::function_ref<bool()>* ready = nullptr;  // while it waits
    int awaited = -1;                                  // the sender that a receive waits for
    std::thread::id thread;
    std::shared_ptr<CollectiveLog> log = std::make_shared<CollectiveLog>();
  };

  struct Mail {
    std::deque<std::shared_ptr<Receive>> posted;
    struct Sent {
      int from;
      int tag;
      at::Tensor message;
    };
    std::deque<Sent> sent;
  };

  using Lock = std::unique_lock<std::mutex>;

  Trace& enter(Room& room, int member, const char* op);
  void await(Lock& lock, Room& room, int member, const c10::function_ref<bool()>& ready);
  void run_together(Lock& lock, Room& room, int member);
  void complete(Lock& lock, Room& room, const Share& share);
  void throw_if_failed(const Trace& trace) const;
  void stop(Message message);
  void leave(int rank);
  void check_progress();
  std::string state_of(std::size_t rank) const;
  Message with_states(Message message) const;

  const std::uint64_t id_;
  const std::chrono::milliseconds timeout_;
  const bool spin_;  // more cores than ranks
  mutable std::mutex mutex_;
  std::vector<Trace> ranks_;
  std::map<std::vector<int>, std::unique_ptr<Room>> rooms_;
  std::map<std::pair<Room*, int>, Mail> mail_;
  std::optional<Message> failure_;
  int waiting_ = 0;  // ranks inside a wait, woken ones included
  int finished_ = 0;
  bool cause_known_ = false;
  bool one_thread_each_ = true;
};

/// Functions that a language binding sets so that no interpreter lock is held while a rank
/// waits: `release` returns what `restore` needs, or null. Both are called with no lock held.
struct WaitHooks {
  void* (*release)() = nullptr;
  void (*restore)(void*) = nullptr;
};
void set_wait_hooks(WaitHooks hooks);

/// Calls the hooks around a wait.
class WaitScope {
 public:
  WaitScope();
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  void* token_;
};

}  // namespace hyper_parallel::torch_layer
