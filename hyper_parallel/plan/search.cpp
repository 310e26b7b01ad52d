#include "hyper_parallel/plan/search_internal.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

namespace hyper_parallel::plan {
namespace {

struct Node {
  State state;
  double seconds = 0;  // from the start
  double bytes = 0;
  int steps = 0;
  double ahead = 0;    // seconds to the goal, at least
  int parent = -1;
  Move move = {};
  bool done = false;
};

/// Seconds from `s` to the goal, at least.
double bound(Space& space, const State& s) {
  const double bytes = space.needed_bytes(s);
  if (bytes == 0) return 0;
  const Topology& t = space.topology();
  return t.launch_seconds +
         bytes / std::max(t.inside_host.bytes_per_second, t.between_hosts.bytes_per_second);
}

}  // namespace

std::optional<std::vector<Move>> search(Space& space, double memory_bytes) {
  // Entries that a better way has overtaken stay in the queue and are skipped. The last member
  // is the node's number, so that ties go to the one met first, on all ranks alike.
  using Entry = std::tuple<double, double, int, int>;
  std::vector<Node> nodes;
  std::map<State, int> known;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  const auto push = [&](int i) {
    const Node& n = nodes[static_cast<std::size_t>(i)];
    queue.emplace(n.seconds + n.ahead, n.bytes, n.steps, i);
  };
  nodes.push_back({.state = space.start(), .ahead = bound(space, space.start())});
  known[space.start()] = 0;
  push(0);
  while (!queue.empty()) {
    const int at = std::get<3>(queue.top());
    queue.pop();
    if (nodes[static_cast<std::size_t>(at)].done) continue;
    nodes[static_cast<std::size_t>(at)].done = true;
    const Node here = nodes[static_cast<std::size_t>(at)];
    if (here.state == space.goal()) {
      std::vector<Move> path;
      for (int i = at; i > 0; i = nodes[static_cast<std::size_t>(i)].parent) {
        path.push_back(nodes[static_cast<std::size_t>(i)].move);
      }
      std::reverse(path.begin(), path.end());
      return path;
    }
    for (Move& move : moves(space, here.state)) {
      if (space.local_bytes(move.after) > memory_bytes) continue;
      Node next{.state = move.after,
                .seconds = here.seconds + move.seconds,
                .bytes = here.bytes + move.bytes,
                .steps = here.steps + (move.free ? 0 : 1),
                .parent = at};
      const auto [found, is_new] = known.try_emplace(move.after, static_cast<int>(nodes.size()));
      const auto index = static_cast<std::size_t>(found->second);
      if (is_new) {
        next.ahead = bound(space, move.after);
        next.move = std::move(move);
        nodes.push_back(std::move(next));
        push(static_cast<int>(index));
        continue;
      }
      Node& old = nodes[index];
      if (old.done || std::tie(next.seconds, next.bytes, next.steps) >=
                          std::tie(old.seconds, old.bytes, old.steps)) {
        continue;
      }
      next.ahead = old.ahead;
      next.move = std::move(move);
      old = std::move(next);
      push(static_cast<int>(index));
    }
  }
  return std::nullopt;
}

}  // namespace hyper_parallel::plan
