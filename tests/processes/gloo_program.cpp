// Run by test_torchrun.py on several processes: a sum over all ranks and over the even or odd ones.

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ops/full.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "hyper_parallel/hyper_parallel.h"

namespace {

double sum_over(const std::vector<int>& ranks) {
  auto& me = hyper_parallel::current_rank();
  std::vector<at::Tensor> x{at::full({2}, me.rank() + 1.0)};
  me.group(ranks)->allreduce(x)->wait();
  return x[0][1].item<double>();
}

}  // namespace

int main() {
  using namespace hyper_parallel;
  init_gloo_from_env(std::chrono::seconds(60));
  RankContext& me = current_rank();
  std::vector<int> everyone(static_cast<std::size_t>(me.world_size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  std::vector<int> alike;
  for (const int rank : everyone) {
    if (rank % 2 == me.rank() % 2) alike.insert(alike.begin(), rank);
  }
  const double all = sum_over(everyone), some = sum_over(alike);
  std::printf("rank %d of %d: %g %g\n", me.rank(), me.world_size(), all, some);
  std::fflush(stdout);
  shutdown_gloo();
  return 0;
}
