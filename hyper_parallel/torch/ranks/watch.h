#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/ranks/local/collective_log.h"

namespace hyper_parallel::torch_layer {

/// How soon processes notice that one of them is lost.
struct WatchSettings {
  std::chrono::milliseconds death{5000};      // until a process that died or stopped is named
  std::chrono::milliseconds progress{60000};  // the longest wait for a rank that lives
  std::string log_directory;  // where a failure writes `collectives.rank<r>.txt`; "": nowhere

  std::chrono::milliseconds beat() const { return death / 10; }      // between two notes
  std::chrono::milliseconds patience() const { return 2 * beat(); }  // then it looks at the others
  std::chrono::milliseconds silence() const { return 7 * beat(); }   // of one that is lost

  /// HYPER_PARALLEL_DEATH_SECONDS (0: no watch), HYPER_PARALLEL_PROGRESS_SECONDS,
  /// HYPER_PARALLEL_LOG_DIRECTORY.
  static WatchSettings from_environment();
};

/// Watches over the collectives of this process: it tells the other processes of the launch where
/// it is, twice a second over the store, and finds out who is missing when it waits for long.
/// What one process finds is the verdict for all. No collective pays for it.
///
/// A verdict is a CommError: HP-C001 other collectives than the others, HP-C002 no progress,
/// HP-C003 an error was raised, HP-C004 returned, HP-C014 died or was stopped.
class Watch {
 public:
  /// `store`: a connection that nobody else uses. `world`: the thread ends when it does.
  Watch(int rank, int size, c10::intrusive_ptr<c10d::Store> store,
        const c10::intrusive_ptr<c10d::ProcessGroup>& world, WatchSettings settings);
  ~Watch();

  int rank() const { return rank_; }
  CollectiveLog& log() { return log_; }
  const WatchSettings& settings() const { return settings_; }

  /// Throws the verdict as CommError, if there is one; not before the others can have read it.
  void throw_if_failed();

  /// The link of a collective broke with `error`: wait for the reason and throw it. Without one
  /// within twice the time of a death, throws CommError HP-C015 with `error`.
  [[noreturn]] void explain(const std::string& collective, const std::string& error);

  /// To be asked now and then in a wait that lasts; throws as `throw_if_failed`, and where the
  /// store itself does not answer. `silent` counts such answers and starts at 0.
  void check_wait(int& silent);

  /// User code failed here with `error`, which the others then name. "": it goes on after all.
  /// `final`: the process ends by it, so that all others stop at once. Blocks for about a beat.
  void note_failure(const std::string& error, bool final);

  /// Tell the others that this process is about to end.
  void finish();

 private:
  struct Seen {
    std::uint64_t beat = 0;
    std::chrono::steady_clock::time_point at;
  };

  using Notes = std::map<int, RankNote>;

  void run();
  void publish();
  void look(bool broken);
  void look_at(const Logged& mine, bool broken);
  void compare(const std::vector<int>& ranks, const Notes& notes, const RankNote& mine);
  std::optional<RankNote> read(int rank);
  RankNote own_note();
  bool silent(int rank) const;
  void decide(Message message, const Notes& notes);
  void adopt(const std::string& text);

  const int rank_;
  const int size_;
  const WatchSettings settings_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::weak_intrusive_ptr<c10d::ProcessGroup> world_;
  CollectiveLog log_;

  std::mutex mutex_;
  std::condition_variable changed_;
  RankNote::State state_ = RankNote::State::runs;
  std::string error_;
  std::string verdict_;  // the text of a CommError
  std::chrono::steady_clock::time_point verdict_at_;
  std::uint64_t beats_ = 0;
  std::chrono::steady_clock::time_point last_beat_;
  bool broken_ = false;  // a link is: do not be patient
  bool hurry_ = false;   // do not wait for the next beat
  bool stop_ = false;
  bool done_ = false;
  std::atomic<bool> failed_{false};  // verdict_ is set

  std::map<int, Seen> seen_;  // the thread's own
  std::thread thread_;
};

/// The watch over the launch of `world`, made where there is none; null if settings say so.
std::shared_ptr<Watch> watch_of(const c10::intrusive_ptr<c10d::ProcessGroup>& world, int rank,
                                int size);

/// The watch of this process, null if there is none.
std::shared_ptr<Watch> process_watch();

/// End the watch of the process: the others hear that it returned, if it did not fail.
void finish_watch();

}  // namespace hyper_parallel::torch_layer
