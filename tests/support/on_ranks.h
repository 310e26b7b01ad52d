#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "hyper_parallel/torch/ranks/ranks.h"
#include "tests/support/doctest.h"

namespace hyper_parallel::test {

/// Run `fn` on each of `world` ranks. doctest's checks are not safe for threads, so `fn` returns
/// what is wrong, empty if nothing is.
inline void on_ranks(int world, const std::function<std::string()>& fn) {
  std::mutex mutex;
  std::vector<std::string> wrong;
  torch_layer::run_local(world, [&] {
    const std::string text = fn();
    if (text.empty()) return;
    const std::lock_guard lock(mutex);
    wrong.push_back("rank " + std::to_string(torch_layer::current_rank().rank()) + ": " + text);
  });
  for (const std::string& text : wrong) FAIL_CHECK(text);
  CHECK(wrong.empty());
}

}  // namespace hyper_parallel::test
