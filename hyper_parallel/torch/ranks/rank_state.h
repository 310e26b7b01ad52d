#pragma once

#include <cstdint>

#include "hyper_parallel/torch/ranks/ranks.h"

/// What a rank knows, in three kinds by how long it holds and who sees it:
///
///   settings()       what `with` blocks change; goes with the work of a thread
///   of_rank<T>()     state of the rank: one value, whichever of its threads asks
///   PerRank<T>       caches of facts about the rank: one a thread, without locks
namespace hyper_parallel::torch_layer {

/// What happens to an op that has no rule: run on whole tensors with a warning, or an error.
enum class Policy : std::uint8_t { automatic, strict };

/// Which numbers random ops on DTensors draw. Both kinds are the same under every layout and on
/// every number of ranks, and neither gathers an operand that a draw by its element needs.
enum class RandomMode : std::uint8_t {
  automatic,  // exact up to `kMostExact` numbers a draw, by index beyond
  exact,      // those of plain torch on one device; each rank draws the whole and keeps its part
  by_index,   // a function of the place of the element (torch/random/by_index.h): a rank draws its
              // part alone
};
inline constexpr std::int64_t kMostExact = std::int64_t{1} << 16;

/// Settings of a thread and of the work that it starts, as torch's grad mode is. They hold
///
/// - on the engine's threads during a backward pass, as they are on the thread that called it, so
///   also in hooks and where a checkpoint computes again (not as they were in the forward pass);
/// - on the ranks of a `run_local`, each with a copy.
///
/// A thread that is started otherwise (a loader of data) begins with the defaults, and blocks on
/// several threads of one process do not see each other.
struct Settings {
  Policy policy = Policy::automatic;
  bool checking = false;  // compare over the ranks what should be equal
  bool skip = false;      // ops take the parts of DTensors and give plain tensors
  RandomMode random = RandomMode::automatic;
  bool grad_sync = true;  // backward passes finish the gradients of leaves
};

/// The settings of the calling thread. Cost: one look at a thread-local.
const Settings& settings();

/// The same to be changed, from now on.
Settings& change_settings();

/// Give the calling thread its own copy of the settings that came with the state of its caller.
/// Ends with that state (at::ThreadLocalStateGuard).
void separate_settings();

/// A value of the calling rank, one for each type `T`: of its thread inside `run_local`, elsewhere
/// of the process, so that the threads on which the engine runs backward passes of a device see it
/// too. There `T` guards itself where two threads may meet.
template <class T>
T& of_rank() {
  static T* const process = new T{};
  thread_local T thread{};
  return inside_run_local() ? thread : *process;
}

/// A cache of what follows from the rank and immutable values alone, one for each type `T`. Each
/// thread has its own; it is emptied (`T::clear`) when the thread serves another rank context.
template <class T>
class PerRank {
 public:
  static T& get() {
    thread_local T value;
    thread_local std::uint64_t generation = 0;
    if (const std::uint64_t now = context_generation(); generation != now) {
      value.clear();
      generation = now;
    }
    return value;
  }
};

}  // namespace hyper_parallel::torch_layer
