// What a rank knows: settings that go with its work, state of a rank, caches of facts about it.

#include "hyper_parallel/torch/ranks/rank_state.h"

#include <ATen/ThreadLocalState.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "tests/support/doctest.h"

namespace hyper_parallel::torch_layer {
namespace {

void on_thread(const std::function<void()>& call) { std::thread(call).join(); }

/// Changes the settings for its life.
struct Changed {
  Changed() {
    Settings& s = change_settings();
    s = {.policy = Policy::strict,
         .checking = true,
         .skip = true,
         .random = RandomMode::by_index,
         .grad_sync = false};
  }
  ~Changed() { change_settings() = before; }
  Settings before = settings();
};

bool changed() {
  const Settings& s = settings();
  return s.policy == Policy::strict && s.checking && s.skip && !s.grad_sync &&
         s.random == RandomMode::by_index;
}

bool defaults() {
  const Settings& s = settings();
  return s.policy == Policy::automatic && !s.checking && !s.skip && s.grad_sync &&
         s.random == RandomMode::automatic;
}

TEST_SUITE("RankState") {
  TEST_CASE("AThreadBeginsWithTheDefaults") {
    const Changed here;
    CHECK(changed());
    on_thread([] { CHECK(defaults()); });
  }

  // The engine takes the state of the caller of backward to its threads in this way.
  TEST_CASE("SettingsGoWithTheStateOfAThread") {
    std::unique_ptr<at::ThreadLocalState> state;
    {
      const Changed here;
      state = std::make_unique<at::ThreadLocalState>();
      on_thread([&] {
        {
          const at::ThreadLocalStateGuard guard(*state);
          CHECK(changed());
        }
        CHECK(defaults());
      });
    }
    CHECK(defaults());
  }

  TEST_CASE("BlocksOnTwoThreadsDoNotSeeEachOther") {
    std::atomic<int> step{0};
    const auto until = [&](int n) {
      while (step < n) std::this_thread::yield();
    };
    std::thread other([&] {
      until(1);
      CHECK(defaults());
      {
        const Changed mine;
        step = 2;
        until(3);
        CHECK(changed());
      }
      CHECK(defaults());
    });
    {
      const Changed mine;
      step = 1;
      until(2);
    }
    CHECK(defaults());
    step = 3;
    other.join();
  }

  TEST_CASE("RanksHaveCopiesOfTheSettingsOfTheirCaller") {
    const Changed here;
    run_local(2, [] {
      CHECK(changed());
      if (current_rank().rank() == 0) change_settings() = {};
      CHECK(changed() == (current_rank().rank() == 1));
    });
    CHECK(changed());
  }

  TEST_CASE("AValueOfTheRankIsOneForAllThreadsOfAProcess") {
    struct Number {
      int value = 0;
    };
    of_rank<Number>().value = 5;
    on_thread([] { CHECK(of_rank<Number>().value == 5); });
    run_local(2, [] {
      CHECK(of_rank<Number>().value == 0);
      of_rank<Number>().value = 7 + current_rank().rank();
    });
    CHECK(of_rank<Number>().value == 5);
  }

  TEST_CASE("ACacheIsEmptiedWithTheContext") {
    struct Numbers : std::vector<int> {};
    Numbers& mine = PerRank<Numbers>::get();
    mine.push_back(1);
    CHECK(&PerRank<Numbers>::get() == &mine);
    CHECK(mine.size() == 1);
    set_process_context(std::make_shared<RankContext>(0, 1, nullptr));
    CHECK(PerRank<Numbers>::get().empty());
    mine.push_back(2);
    set_process_context(nullptr);
    CHECK(PerRank<Numbers>::get().empty());
    run_local(1, [&] { CHECK(&PerRank<Numbers>::get() != &mine); });
  }
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
