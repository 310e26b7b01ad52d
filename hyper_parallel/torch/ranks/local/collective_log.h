#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace hyper_parallel::torch_layer {

/// A collective that a rank took part in, as its log keeps it.
struct Logged {
  enum class State : char { issued = '+', waits = '>', done = '.', failed = 'x' };

  std::string group;         // c10d's name, the same on all members
  std::vector<int> ranks;    // world ranks of the group
  std::uint64_t number = 0;  // from 1, within the group
  std::string what;          // all_reduce(sum) f32[6, 6]
  bool same_shape = true;    // all ranks bring the shape that `what` shows
  std::string op;            // the op that asked, "" outside of ops
  State state = State::issued;
  std::chrono::steady_clock::time_point since;  // of the state; not sent to other ranks
};

/// Write one as `#7 all_reduce(sum) f32[6, 6] on ranks [0, 1] for t`.
std::string to_string(const Logged& logged);

/// What ranks must agree on: `what`, without the shape where each rank has its own.
std::string signature(const Logged& logged);

/// The last collectives of one rank, oldest first. Safe for threads. Memory is bounded.
/// Cost of an entry: under a microsecond.
class CollectiveLog {
 public:
  static constexpr std::size_t kKept = 64;

  /// Add one; `number` and `since` are set here. Returns what `change` takes.
  std::uint64_t add(Logged logged);
  void change(std::uint64_t entry, Logged::State state);

  std::vector<Logged> last(std::size_t count = kKept) const;

  /// How many collectives of each group there were.
  std::map<std::string, std::uint64_t> counts() const;

  /// The log as lines of text, "" if there is nothing in it.
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::deque<Logged> entries_;
  std::uint64_t first_ = 0;  // of entries_
  std::map<std::string, std::uint64_t> counts_;
};

/// What a process tells the others, over the store of the launch.
struct RankNote {
  enum class State : char { runs = 'r', failed = 'f', finished = 'e' };

  std::uint64_t beat = 0;  // goes up while the process lives
  State state = State::runs;
  std::string error;  // of a failed one
  std::map<std::string, std::uint64_t> counts;
  std::vector<Logged> last;  // oldest first

  /// The number of collectives of `group`.
  std::uint64_t count(const std::string& group) const;
  const Logged* find(const std::string& group, std::uint64_t number) const;
};

/// Write a note as lines of fields that tabs part.
std::string to_text(const RankNote& note);

/// Read what `to_text` wrote. None for another text.
std::optional<RankNote> parse_note(const std::string& text);

/// What a rank does and its last collectives, for errors.
std::string summary(const RankNote& note);

}  // namespace hyper_parallel::torch_layer
