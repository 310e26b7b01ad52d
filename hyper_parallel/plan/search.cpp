#include "hyper_parallel/plan/search_internal.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "hyper_parallel/core/hash.h"

namespace hyper_parallel::plan {
namespace {

struct Node {
  State state;
  double seconds = 0;  // from the start
  double bytes = 0;
  int steps = 0;
  double ahead = 0;  // seconds to the goal, at least
  int parent = -1;
  Move move = {};

  double total() const { return seconds + ahead; }
};

struct StateHash {
  std::size_t operator()(const State& s) const {
    std::size_t out = s.pending * 2 + s.phase;
    for (std::int16_t cut : s.cuts) hash_combine(out, static_cast<std::size_t>(cut));
    return out;
  }
};

/// Seconds from `s` to the goal, at least.
double bound(States& states, const State& s) {
  const double bytes = states.needed_bytes(s);
  if (bytes == 0) return 0;
  const Topology& t = states.topology();
  return t.launch_seconds +
         bytes / std::max(t.inside_host.bytes_per_second, t.between_hosts.bytes_per_second);
}

class Search {
 public:
  Search(States& states, double memory_bytes) : states_(states), memory_bytes_(memory_bytes) {}

  std::optional<std::vector<Move>> run() {
    const Moves::Filter filter = [&](const State& after, double seconds) {
      return worth(after, seconds);
    };
    const Moves::Emit emit = [&](const Move& move) { take(move); };
    Moves moves(states_, filter, emit);
    nodes_.push_back({.state = states_.start(), .ahead = bound(states_, states_.start())});
    known_[states_.start()] = 0;
    push(0);
    while (!queue_.empty()) {
      const auto [total, bytes, steps, at] = queue_.top();
      queue_.pop();
      here_ = nodes_[static_cast<std::size_t>(at)];
      at_ = at;
      const bool overtaken = total != here_.total() || bytes != here_.bytes || steps != here_.steps;
      if (overtaken) continue;
      if (here_.state.same_layout(states_.goal())) return path(at);
      moves.from(here_.state);
    }
    return std::nullopt;
  }

 private:
  // The last member is the node's number, so that ties go to the one met first, on all ranks
  // alike.
  using Entry = std::tuple<double, double, int, int>;

  void push(int i) {
    const Node& n = nodes_[static_cast<std::size_t>(i)];
    queue_.emplace(n.total(), n.bytes, n.steps, i);
  }

  /// False if a step to `after` of `seconds` or more is of no use.
  bool worth(const State& after, double seconds) const {
    if (states_.local_bytes(after) > memory_bytes_) return false;
    if (here_.seconds + seconds > best_) return false;
    const auto found = known_.find(after);
    return found == known_.end() ||
           nodes_[static_cast<std::size_t>(found->second)].seconds >= here_.seconds + seconds;
  }

  void take(const Move& move) {
    Node next{.state = move.after,
              .seconds = here_.seconds + move.seconds,
              .bytes = here_.bytes + move.bytes,
              .steps = here_.steps + (move.free ? 0 : 1),
              .parent = at_,
              .move = move};
    const auto [found, is_new] = known_.try_emplace(move.after, static_cast<int>(nodes_.size()));
    const auto index = static_cast<std::size_t>(found->second);
    if (is_new) {
      next.ahead = bound(states_, move.after);
    } else {
      const Node& old = nodes_[index];
      if (std::tie(next.seconds, next.bytes, next.steps) >=
          std::tie(old.seconds, old.bytes, old.steps)) {
        return;
      }
      next.ahead = old.ahead;
    }
    if (move.after.same_layout(states_.goal())) best_ = std::min(best_, next.seconds);
    const bool hopeless = next.total() > best_ * (1 + 1e-12);
    if (is_new) {
      nodes_.push_back(std::move(next));
    } else {
      nodes_[index] = std::move(next);
    }
    if (!hopeless) push(static_cast<int>(index));
  }

  std::vector<Move> path(int at) const {
    std::vector<Move> out;
    for (int i = at; i > 0; i = nodes_[static_cast<std::size_t>(i)].parent) {
      out.push_back(nodes_[static_cast<std::size_t>(i)].move);
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

  States& states_;
  const double memory_bytes_;
  std::vector<Node> nodes_;
  std::unordered_map<State, int, StateHash> known_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  Node here_;
  int at_ = 0;
  double best_ = std::numeric_limits<double>::infinity();  // of a way to the goal
};

}  // namespace

std::optional<std::vector<Move>> search(States& states, double memory_bytes) {
  return Search(states, memory_bytes).run();
}

}  // namespace hyper_parallel::plan
