#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>

/// Timing for the benchmarks of this folder.
namespace bench {

inline double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// Seconds of one call of `fn`: the best of `repeats` bursts of about a millisecond, so that one
/// burst at least is not broken into.
template <class Fn>
double seconds(Fn&& fn, int repeats = 25) {
  double begin = now();
  fn();
  const int calls = std::max(1, static_cast<int>(1e-3 / std::max(now() - begin, 1e-9)));
  double best = 1e9;
  for (int r = 0; r < repeats; ++r) {
    begin = now();
    for (int i = 0; i < calls; ++i) fn();
    best = std::min(best, (now() - begin) / calls);
  }
  return best;
}

/// Print one line: `  name      1.23 us`.
template <class Fn>
void show(const char* name, Fn&& fn) {
  std::printf("  %-40s%10.2f us\n", name, seconds(fn) * 1e6);
}

}  // namespace bench
