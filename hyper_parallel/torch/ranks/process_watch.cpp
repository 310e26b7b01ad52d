// The watch of this process, and its settings.

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/ranks/watch.h"

namespace hyper_parallel::torch_layer {
namespace {

using std::chrono::milliseconds;

std::chrono::milliseconds seconds_from(const char* name, milliseconds otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(value >= 0) || value > 1e8) {
    throw UsageError(
        Message("HP-C016", std::string(name) + " is \"" + text + "\", not a number of seconds"));
  }
  return milliseconds(static_cast<std::int64_t>(value * 1000));
}

struct Watches {
  std::mutex mutex;
  std::shared_ptr<Watch> current;
  std::vector<std::shared_ptr<Watch>> all;  // a thread that hangs may use one for ever
  c10::weak_intrusive_ptr<c10d::ProcessGroup> world{c10::intrusive_ptr<c10d::ProcessGroup>()};
};

Watches& watches() {
  static auto* const instance = new Watches;
  return *instance;
}

}  // namespace

WatchSettings WatchSettings::from_environment() {
  WatchSettings out;
  out.death = seconds_from("HYPER_PARALLEL_DEATH_SECONDS", out.death);
  out.progress = seconds_from("HYPER_PARALLEL_PROGRESS_SECONDS", out.progress);
  if (const char* text = std::getenv("HYPER_PARALLEL_LOG_DIRECTORY")) out.log_directory = text;
  return out;
}

std::shared_ptr<Watch> process_watch() {
  const std::lock_guard lock(watches().mutex);
  return watches().current;
}

std::shared_ptr<Watch> watch_of(const c10::intrusive_ptr<c10d::ProcessGroup>& world, int rank,
                                int size) {
  Watches& state = watches();
  const std::lock_guard lock(state.mutex);
  if (state.current != nullptr && !state.world.expired() && state.world.lock() == world) {
    return state.current;
  }
  WatchSettings settings = WatchSettings::from_environment();
  if (settings.death.count() == 0) return nullptr;
  // Of its own, since a connection may block. The number tells launches apart that use one store.
  const auto own = world->getStore()->clone();
  const auto starts = own->add("hyper_parallel.watch/starts" + std::to_string(rank), 1);
  const auto store =
      c10::make_intrusive<c10d::PrefixStore>("hyper_parallel.watch/" + std::to_string(starts), own);
  state.current = std::make_shared<Watch>(rank, size, store, world, std::move(settings));
  state.all.push_back(state.current);
  state.world = c10::weak_intrusive_ptr<c10d::ProcessGroup>(world);
  return state.current;
}

void finish_watch() {
  if (const std::shared_ptr<Watch> watch = process_watch()) watch->finish();
}

}  // namespace hyper_parallel::torch_layer
