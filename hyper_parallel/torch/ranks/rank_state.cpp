#include "hyper_parallel/torch/ranks/rank_state.h"

#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>
#include <string_view>

namespace hyper_parallel::torch_layer {
namespace {

// torch carries this chain of slots to the engine's threads, and run_local to its ranks.
constexpr std::string_view kName = "HYPER_PARALLEL_SETTINGS";
constexpr c10::DebugInfoKind kKind(&kName);

struct Slot final : c10::DebugInfoBase {
  explicit Slot(const Settings& settings) : value(settings) {}
  Settings value;
};

Slot* slot() { return static_cast<Slot*>(c10::ThreadLocalDebugInfo::get(kKind)); }

// The main thread has its slot from the start: one that came while a profiler runs would lie above
// the profiler's, which then does not find its own at its end.
const bool main_thread_has_slot = (separate_settings(), true);

}  // namespace

const Settings& settings() {
  static constexpr Settings defaults;
  const Slot* mine = slot();
  return mine == nullptr ? defaults : mine->value;
}

Settings& change_settings() {
  if (slot() == nullptr) separate_settings();
  return slot()->value;
}

void separate_settings() {
  c10::ThreadLocalDebugInfo::_push(kKind, std::make_shared<Slot>(settings()));
}

}  // namespace hyper_parallel::torch_layer
