// Time of collectives between ranks that are threads: one row a size and number of ranks.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <vector>

#include <ATen/ops/ones.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "hyper_parallel/torch/ranks/ranks.h"

namespace {

using hyper_parallel::torch_layer::current_rank;
using Clock = std::chrono::steady_clock;

// Microseconds of one call: the best of 5 rounds on rank 0.
template <class Call>
double microseconds(int calls, Call call) {
  double best = 1e30;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::micro> time = Clock::now() - start;
    best = std::min(best, time.count() / calls);
  }
  return best;
}

void measure(int world, std::int64_t numel) {
  hyper_parallel::torch_layer::run_local(world, [&] {
    std::vector<int> ranks(static_cast<std::size_t>(world));
    std::iota(ranks.begin(), ranks.end(), 0);
    const auto group = current_rank().group(ranks);
    std::vector<at::Tensor> x{at::ones({numel})};
    at::Tensor whole = at::ones({numel * world});
    at::Tensor part = at::ones({numel / world});
    const int calls = numel > 100'000 ? 10 : 200;
    const double barrier = microseconds(calls, [&] { group->barrier(); });
    const double reduce = microseconds(calls, [&] { group->allreduce(x); });
    const double gather = microseconds(calls, [&] { group->all_gather_single(whole, x[0]); });
    const double scatter = microseconds(calls, [&] { group->reduce_scatter_single(part, x[0]); });
    if (current_rank().rank() != 0) return;
    std::printf("%5d %12lld %10.1f %12.1f %12.1f %16.1f\n", world,
                static_cast<long long>(numel * 4), barrier, reduce, gather, scatter);
  });
}

}  // namespace

int main() {
  std::printf("%5s %12s %10s %12s %12s %16s   (microseconds)\n", "ranks", "bytes/rank", "barrier",
              "all_reduce", "all_gather", "reduce_scatter");
  for (const int world : {2, 4}) {
    for (const std::int64_t numel : {256, 16'384, 65'536, 262'144, 4'194'304})
      measure(world, numel);
  }
  return 0;
}
