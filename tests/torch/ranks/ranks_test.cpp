// Ranks as threads from C++: results, errors, groups of some ranks.

#include "hyper_parallel/torch/ranks/ranks.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "hyper_parallel/core/error.h"
#include "tests/support/doctest.h"

namespace hyper_parallel::torch_layer {
namespace {

at::Tensor all_reduce(const at::Tensor& x, const std::string& group) {
  static const auto reduce =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("_c10d_functional::all_reduce", "")
          .typed<at::Tensor(const at::Tensor&, std::string, const c10::IValue&)>();
  static const auto wait = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("_c10d_functional::wait_tensor", "")
                               .typed<at::Tensor(const at::Tensor&)>();
  return wait.call(reduce.call(x, "sum", group));
}

const std::string& whole_world() {
  std::vector<int> ranks;
  for (int rank = 0; rank < current_rank().world_size(); ++rank) ranks.push_back(rank);
  return current_rank().group_name(ranks);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST_SUITE("Ranks") {
  TEST_CASE("AProcessAloneIsRankZeroOfOne") {
    CHECK(current_rank().rank() == 0);
    CHECK(current_rank().world_size() == 1);
    CHECK_FALSE(inside_run_local());
  }

  TEST_CASE("EachRankIsAThreadAndSumsMeet") {
    for (const int world : {1, 2, 3, 4}) {
      std::atomic<int> ranks_seen{0};
      run_local(world, [&] {
        RankContext& me = current_rank();
        ranks_seen += 1 << me.rank();
        REQUIRE(me.world_size() == world);
        if (world == 1) return;
        const at::Tensor sum = all_reduce(at::full({3}, me.rank() + 1.0), whole_world());
        REQUIRE(at::equal(sum, at::full({3}, world * (world + 1) / 2.0)));
      });
      CHECK(ranks_seen == (1 << world) - 1);
    }
  }

  TEST_CASE("GroupsAreMadeByTheirMembersOnly") {
    run_local(4, [] {
      RankContext& me = current_rank();
      const std::vector<int> pair =
          me.rank() % 2 == 0 ? std::vector<int>{2, 0} : std::vector<int>{1, 3};
      const at::Tensor sum = all_reduce(at::full({1}, double(me.rank())), me.group_name(pair));
      REQUIRE(sum.item<double>() == pair[0] + pair[1]);
      REQUIRE(&me.group_name(pair) == &me.group_name(pair));
      REQUIRE(me.group(pair)->getSize() == 2);
      REQUIRE(pair[std::size_t(me.group(pair)->getRank())] == me.rank());
    });
  }

  TEST_CASE("TheFirstErrorIsRethrownAsItself") {
    const auto body = [] {
      if (current_rank().rank() == 1) throw std::out_of_range("boom");
      all_reduce(at::full({1}, 1.0), whole_world());
    };
    CHECK_THROWS_AS_MESSAGE(run_local(3, body), std::out_of_range, "boom");
  }

  TEST_CASE("ErrorsOfTheLibraryNameTheRank") {
    const std::string text = error_of([] {
      run_local(2, [] {
        if (current_rank().rank() == 1) throw UsageError(Message("HP-C999", "bad").fact("a", "b"));
        all_reduce(at::full({1}, 1.0), whole_world());
      });
    });
    CHECK(text == "[HP-C999] bad\n  a  b\n  on rank  1 of 2");
  }

  TEST_CASE("ALateRankIsATimeOut") {
    RunLocalOptions options;
    options.timeout = std::chrono::milliseconds(200);
    const std::string text = error_of([&] {
      run_local(
          2,
          [] {
            if (current_rank().rank() == 0) {
              all_reduce(at::full({2}, 1.0), whole_world());
            } else {
              std::this_thread::sleep_for(std::chrono::milliseconds(600));
            }
          },
          options);
    });
    CHECK(text.find("[HP-C002] all_reduce: rank 0 waited 200 ms for ranks [1] of [0, 1]") == 0);
    CHECK(text.find("rank 1   has met nobody yet") != std::string::npos);
  }

  TEST_CASE("RanksDoNotNest") {
    CHECK_THROWS_AS(run_local(2, [] { run_local(2, [] {}); }), UsageError);
    CHECK_THROWS_AS(run_local(0, [] {}), UsageError);
  }

  TEST_CASE("TheCallersSettingsHold") {
    const int threads = at::get_num_threads();
    const at::NoGradGuard guard;
    run_local(2, [&] {
      REQUIRE_FALSE(at::GradMode::is_enabled());
      REQUIRE(at::get_num_threads() == std::max(1, threads / 2));
    });
    CHECK(at::get_num_threads() == threads);
  }

  TEST_CASE("EveryContextHasItsOwnGeneration") {
    std::mutex mutex;
    std::set<std::uint64_t> seen{context_generation()};
    for (int run = 0; run < 2; ++run) {
      run_local(3, [&] {
        const std::lock_guard lock(mutex);
        seen.insert(context_generation());
      });
    }
    CHECK(seen.size() == 7);
  }

  TEST_CASE("AProcessContextIsAskedForOnceAndDroppedWhenDead") {
    bool alive = true;
    int asked = 0;
    set_context_provider([&]() -> std::shared_ptr<RankContext> {
      if (++asked > 1) return nullptr;
      return std::make_shared<RankContext>(
          2, 4, [](const std::vector<int>&) { return "made"; }, [&] { return alive; });
    });
    CHECK(current_rank().rank() == 2);
    CHECK(current_rank().group_name({2, 3}) == "made");
    CHECK(asked == 1);
    alive = false;
    CHECK(current_rank().world_size() == 1);
    CHECK(asked == 2);
    set_context_provider(nullptr);
    set_process_context(nullptr);
  }

  TEST_CASE("AGroupOfOneIsOurMistake") {
    CHECK_THROWS_AS(current_rank().group_name({0}), InternalError);
    CHECK_THROWS_AS(current_rank().group_name({0, 1}), UsageError);
  }
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
