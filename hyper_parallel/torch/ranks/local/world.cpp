#include "hyper_parallel/torch/ranks/local/world.h"

#include <algorithm>
#include <utility>

#include <c10/core/ScalarType.h>

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/base/dtype.h"

namespace hyper_parallel::torch_layer {
namespace {

// From here on, two more wake-ups a rank cost less than one thread moving all the data.
constexpr std::size_t kShareWorkBytes = std::size_t{1} << 20;

// Some 10 microseconds: less than a sleep and a wake-up.
constexpr int kSpins = 2000;

constexpr int kStatesShown = 32;

std::atomic<std::uint64_t> next_world_id{0};

WaitHooks& wait_hooks() {
  static WaitHooks hooks;
  return hooks;
}

std::string text_of(const std::vector<int>& ranks) {
  std::string out = "[";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(ranks[i]);
  }
  return out + "]";
}

std::string short_name(at::ScalarType type) {
  const DType dtype = dtype_of(type);
  return dtype == DType::other ? c10::toString(type) : std::string(to_string(dtype));
}

const char* name_of(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return "sum";
    case c10d::ReduceOp::AVG:
      return "avg";
    case c10d::ReduceOp::PRODUCT:
      return "prod";
    case c10d::ReduceOp::MIN:
      return "min";
    case c10d::ReduceOp::MAX:
      return "max";
    case c10d::ReduceOp::BAND:
      return "band";
    case c10d::ReduceOp::BOR:
      return "bor";
    case c10d::ReduceOp::BXOR:
      return "bxor";
    default:
      return "unknown";
  }
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The first reason why `shares` are not one collective.
std::optional<std::string> disagreement(const std::vector<Share*>& shares) {
  const Share& first = *shares.front();
  for (const Share* share : shares) {
    if (std::string_view(share->op) != first.op) return "different operations";
    if (share->reduce != first.reduce) return "different reductions";
    if (share->root != first.root) return "different roots";
    if (share->tensors.size() != first.tensors.size()) return "different numbers of tensors";
    for (std::size_t i = 0; i < first.tensors.size(); ++i) {
      const at::Tensor &a = share->tensors[i], &b = first.tensors[i];
      if (a.scalar_type() != b.scalar_type()) return "different element types";
      if (first.same_shape && a.sizes() != b.sizes()) return "different sizes";
    }
  }
  return first.check == nullptr ? std::nullopt : first.check(shares);
}

// Nothing may leave a meeting half-way: the others would wait for ever.
std::optional<Message> work(const std::vector<Share*>& shares, int worker, int workers) {
  const Share& first = *shares.front();
  try {
    if (first.work != nullptr) first.work(shares, worker, workers);
  } catch (const std::exception& error) {
    return Message("HP-X001", std::string(first.op) + ": " + error.what());
  }
  return std::nullopt;
}

}  // namespace

std::size_t Block::bytes() const {
  return static_cast<std::size_t>(count) * c10::elementSize(dtype);
}

std::string describe(const Share& share) {
  std::string out = share.op;
  if (share.reduce) out += std::string("(") + name_of(*share.reduce) + ")";
  if (share.root >= 0) out += "(root " + std::to_string(share.root) + ")";
  constexpr std::size_t kTensorsShown = 3;
  for (std::size_t i = 0; i < std::min(share.tensors.size(), kTensorsShown); ++i) {
    const at::Tensor& tensor = share.tensors[i];
    out += (i == 0 ? " " : ", ") + short_name(tensor.scalar_type()) + "[";
    for (std::int64_t d = 0; d < tensor.dim(); ++d) {
      out += (d == 0 ? "" : ", ") + std::to_string(tensor.size(d));
    }
    out += "]";
  }
  if (share.tensors.size() > kTensorsShown) {
    out += " and " + std::to_string(share.tensors.size() - kTensorsShown) + " more";
  }
  return out;
}

LocalWorld::LocalWorld(int size, std::chrono::milliseconds timeout)
    : id_(next_world_id++),
      timeout_(timeout),
      spin_(static_cast<int>(std::thread::hardware_concurrency()) > size) {
  if (size < 1 || timeout.count() <= 0) {
    throw UsageError(Message("HP-C007", "run_local: needs at least one rank and a time-out above 0")
                         .fact("ranks", std::to_string(size))
                         .fact("timeout", std::to_string(timeout.count()) + " ms"));
  }
  ranks_.resize(static_cast<std::size_t>(size));
}

LocalWorld::~LocalWorld() = default;

LocalWorld::Room& LocalWorld::room(const std::vector<int>& ranks) {
  const Lock lock(mutex_);
  std::unique_ptr<Room>& slot = rooms_[ranks];
  if (slot == nullptr) {
    slot = std::make_unique<Room>();
    slot->ranks = ranks;
    slot->shares.resize(ranks.size());
    slot->sequence.resize(ranks.size());
  }
  return *slot;
}

void LocalWorld::meet(Room& room, int member, Share& share) {
  Lock lock(mutex_);
  ++room.sequence[static_cast<std::size_t>(member)];
  Trace& trace = enter(room, member, share.op);
  trace.share = &share;
  // The share dies with the caller's frame, whichever way it is left.
  const std::unique_ptr<Trace, void (*)(Trace*)> on_exit(&trace,
                                                         [](Trace* t) { t->share = nullptr; });

  room.shares[static_cast<std::size_t>(member)] = &share;
  const std::uint64_t turn = room.turn.load();
  if (++room.arrived < static_cast<int>(room.ranks.size())) {
    if (spin_) {
      lock.unlock();
      for (int i = 0; i < kSpins && room.turn.load(std::memory_order_acquire) == turn; ++i) {
      }
      lock.lock();
    }
    await(lock, room, member, [&] { return room.turn.load() != turn; });
  } else {
    complete(lock, room, share);
  }
  if (room.working > 0) run_together(lock, room, member);
  trace.inside = false;
  if (room.mismatch) throw CommError(*room.mismatch);
}

// The last one to arrive checks what all brought. Small data it moves by itself, which saves a
// second meeting: the others sleep meanwhile and their memory is safe to use.
void LocalWorld::complete(Lock& lock, Room& room, const Share& share) {
  room.busy = true;
  lock.unlock();
  std::size_t bytes = 0;
  for (const Share* each : room.shares) {
    for (const Block& block : each->sends) bytes += block.bytes();
  }
  const std::optional<std::string> reason = disagreement(room.shares);
  std::optional<Message> mismatch;
  if (reason) {
    mismatch.emplace("HP-C001", std::string(share.op) + ": ranks " + text_of(room.ranks) +
                                    " do not bring the same collective (" + *reason + ")");
    for (std::size_t i = 0; i < room.ranks.size(); ++i) {
      mismatch->fact("rank " + std::to_string(room.ranks[i]),
                     describe(*room.shares[i]) + " #" + std::to_string(room.sequence[i]));
    }
    mismatch->hint("all ranks of a group must call the same collectives in the same order");
  }
  const bool together = !mismatch && bytes >= kShareWorkBytes && room.ranks.size() > 1;
  if (!mismatch && !together) mismatch = work(room.shares, 0, 1);
  lock.lock();
  room.mismatch = std::move(mismatch);
  room.working = together ? static_cast<int>(room.ranks.size()) : 0;
  room.busy = false;
  room.arrived = 0;
  if (!together) std::fill(room.shares.begin(), room.shares.end(), nullptr);
  room.turn.fetch_add(1, std::memory_order_release);
  room.changed.notify_all();
}

// No time-out here: every rank is inside this function and only moves data.
void LocalWorld::run_together(Lock& lock, Room& room, int member) {
  const std::uint64_t turn = room.turn.load();
  lock.unlock();
  std::optional<Message> error = work(room.shares, member, static_cast<int>(room.ranks.size()));
  lock.lock();
  if (error) room.mismatch = std::move(error);
  if (--room.working == 0) {
    std::fill(room.shares.begin(), room.shares.end(), nullptr);
    room.turn.fetch_add(1, std::memory_order_release);
    room.changed.notify_all();
  }
  room.changed.wait(lock, [&] { return room.turn.load() != turn; });
}

LocalWorld::Trace& LocalWorld::enter(Room& room, int member, const char* op) {
  const std::size_t rank = static_cast<std::size_t>(room.ranks[static_cast<std::size_t>(member)]);
  Trace& trace = ranks_[rank];
  trace.op = op;
  trace.sequence = room.sequence[static_cast<std::size_t>(member)];
  trace.room = &room;
  if (trace.thread == std::thread::id()) trace.thread = std::this_thread::get_id();
  if (trace.thread != std::this_thread::get_id()) one_thread_each_ = false;
  throw_if_failed(trace);
  trace.inside = true;
  return trace;
}

void LocalWorld::await(Lock& lock, Room& room, int member, const c10::function_ref<bool()>& ready) {
  const int rank = room.ranks[static_cast<std::size_t>(member)];
  Trace& trace = ranks_[static_cast<std::size_t>(rank)];
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  trace.ready = &ready;
  ++waiting_;
  const auto done = [this, &trace](void*) {
    trace.ready = nullptr;
    --waiting_;
  };
  const std::unique_ptr<Trace, decltype(done)> on_exit(&trace, done);
  check_progress();
  while (!ready()) {
    // While data moves, leaving would free memory that another rank reads.
    if (room.busy) {
      room.changed.wait(lock);
      continue;
    }
    throw_if_failed(trace);
    if (room.changed.wait_until(lock, deadline) == std::cv_status::timeout && !ready() &&
        !room.busy && !failure_) {
      std::vector<int> absent;
      for (std::size_t i = 0; i < room.ranks.size(); ++i) {
        if (trace.share != nullptr && room.shares[i] == nullptr) absent.push_back(room.ranks[i]);
      }
      std::string line = std::string(trace.op) + ": rank " + std::to_string(rank) + " waited " +
                         std::to_string(timeout_.count()) + " ms for ranks " + text_of(absent) +
                         " of " + text_of(room.ranks);
      stop(with_states(Message("HP-C002", line)));
    }
  }
}

void LocalWorld::send(Room& room, int from, int to, int tag, at::Tensor message) {
  const Lock lock(mutex_);
  enter(room, from, "send").inside = false;
  Mail& mail = mail_[{&room, to}];
  for (auto it = mail.posted.begin(); it != mail.posted.end(); ++it) {
    Receive& receive = **it;
    if ((receive.from == from || receive.from < 0) && receive.tag == tag) {
      receive.from = from;
      receive.message = std::move(message);
      mail.posted.erase(it);
      room.changed.notify_all();
      return;
    }
  }
  mail.sent.push_back({from, tag, std::move(message)});
}

std::shared_ptr<LocalWorld::Receive> LocalWorld::post(Room& room, int member, int from, int tag) {
  const Lock lock(mutex_);
  enter(room, member, "recv").inside = false;
  auto receive = std::make_shared<Receive>();
  receive->from = from;
  receive->tag = tag;
  Mail& mail = mail_[{&room, member}];
  for (auto it = mail.sent.begin(); it != mail.sent.end(); ++it) {
    if ((it->from == from || from < 0) && it->tag == tag) {
      receive->from = it->from;
      receive->message = std::move(it->message);
      mail.sent.erase(it);
      return receive;
    }
  }
  mail.posted.push_back(receive);
  return receive;
}

const at::Tensor& LocalWorld::wait(Room& room, int member, Receive& receive) {
  Lock lock(mutex_);
  if (!receive.message) {
    Trace& trace = enter(room, member, "recv");
    if (receive.from >= 0) trace.awaited = room.ranks[static_cast<std::size_t>(receive.from)];
    await(lock, room, member, [&] { return receive.message.has_value(); });
    trace.awaited = -1;
    trace.inside = false;
  }
  return *receive.message;
}

bool LocalWorld::arrived(const Receive& receive) {
  const Lock lock(mutex_);
  return receive.message.has_value();
}

bool LocalWorld::fail(int rank, const std::string& text) {
  const Lock lock(mutex_);
  leave(rank);
  stop(Message("HP-C003", "rank " + std::to_string(rank) + " failed: " + first_line(text))
           .hint("look at the error of that rank: it is the cause"));
  return !std::exchange(cause_known_, true);
}

void LocalWorld::finish(int rank) {
  const Lock lock(mutex_);
  leave(rank);
  check_progress();
}

void LocalWorld::leave(int rank) {
  bool& finished = ranks_[static_cast<std::size_t>(rank)].finished;
  if (!std::exchange(finished, true)) ++finished_;
}

void LocalWorld::abort(const std::string& reason) {
  const Lock lock(mutex_);
  stop(Message("HP-C006", "all ranks are stopped: " + reason));
}

void LocalWorld::throw_if_failed(const Trace& trace) const {
  if (!failure_) return;
  const auto rank = &trace - ranks_.data();
  throw CommError(Message(*failure_).fact(
      "seen by",
      "rank " + std::to_string(rank) + " in " + trace.op + " #" + std::to_string(trace.sequence)));
}

// The first failure stays: later ones follow from it.
void LocalWorld::stop(Message message) {
  if (failure_) return;
  failure_ = std::move(message);
  for (auto& [ranks, room] : rooms_) room->changed.notify_all();
}

// Stop early when a wait cannot end: the other side has left, or every rank waits.
void LocalWorld::check_progress() {
  if (failure_ || (finished_ == 0 && waiting_ < size())) return;
  bool all_wait = one_thread_each_, any_waits = false;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const Trace& trace = ranks_[rank];
    const bool waits = trace.ready != nullptr && !(*trace.ready)() && !trace.room->busy;
    any_waits |= waits;
    all_wait &= waits || trace.finished;
    if (!waits) continue;
    for (std::size_t i = 0; i < trace.room->ranks.size(); ++i) {
      const int other = trace.room->ranks[i];
      const bool needed =
          trace.share != nullptr ? trace.room->shares[i] == nullptr : trace.awaited == other;
      if (!needed || !ranks_[static_cast<std::size_t>(other)].finished) continue;
      stop(with_states(Message("HP-C004", std::string(trace.op) + ": rank " + std::to_string(rank) +
                                              " waits for rank " + std::to_string(other) +
                                              ", which has returned")));
      return;
    }
  }
  if (all_wait && any_waits) {
    stop(with_states(Message("HP-C005", "every rank waits for another one")));
  }
}

std::string LocalWorld::state_of(std::size_t rank) const {
  const Trace& trace = ranks_[rank];
  if (trace.op == nullptr) return trace.finished ? "returned, met nobody" : "has met nobody yet";
  const std::string where =
      " #" + std::to_string(trace.sequence) + " on ranks " + text_of(trace.room->ranks);
  if (trace.inside && !trace.finished) {
    return "waits in " + (trace.share != nullptr ? describe(*trace.share) : trace.op) + where;
  }
  return (trace.finished ? "returned, last " : "is elsewhere, last ") + std::string(trace.op) +
         where;
}

Message LocalWorld::with_states(Message message) const {
  for (std::size_t rank = 0; rank < ranks_.size() && rank < kStatesShown; ++rank) {
    message.fact("rank " + std::to_string(rank), state_of(rank));
  }
  return message.hint("all ranks of a group must call the same collectives in the same order");
}

void set_wait_hooks(WaitHooks hooks) { wait_hooks() = hooks; }

WaitScope::WaitScope() : token_(nullptr) {
  if (wait_hooks().release != nullptr) token_ = wait_hooks().release();
}

WaitScope::~WaitScope() {
  if (token_ != nullptr) wait_hooks().restore(token_);
}

}  // namespace hyper_parallel::torch_layer
