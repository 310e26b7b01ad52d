#include "hyper_parallel/torch/ranks/processes.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/ranks/ranks.h"

namespace hyper_parallel::torch_layer {
namespace {

// The processes of one launch, and the groups that this one is in.
struct Launch {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{};
  c10::intrusive_ptr<c10d::Store> store;
  std::mutex mutex;
  std::vector<std::pair<std::string, c10::intrusive_ptr<c10d::ProcessGroup>>> groups;
};

std::shared_ptr<Launch>& launch() {
  static auto* const instance = new std::shared_ptr<Launch>;
  return *instance;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value != nullptr) return value;
  throw UsageError(
      Message("HP-C011", "init_gloo_from_env: no environment variable " + std::string(name))
          .hint("start the program with torchrun, or use run_local"));
}

int number(const char* name) {
  const std::string text = variable(name);
  try {
    std::size_t end = 0;
    const int value = std::stoi(text, &end);
    if (end == text.size() && value >= 0) return value;
  } catch (const std::exception&) {
  }
  throw UsageError(Message("HP-C011", "init_gloo_from_env: " + std::string(name) + " is \"" + text +
                                          "\", not a number from 0"));
}

c10::intrusive_ptr<c10d::Store> connect(const Launch& ranks) {
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const bool agent_serves = agent != nullptr && std::string(agent) == "True";
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(number("MASTER_PORT"));
  options.isServer = ranks.rank == 0 && !agent_serves;
  options.numWorkers = static_cast<std::size_t>(ranks.size);
  options.waitWorkers = !agent_serves;
  options.timeout = ranks.timeout;
  auto store = c10::make_intrusive<c10d::TCPStore>(variable("MASTER_ADDR"), options);
  // A restarted launch must not read the keys of the one before.
  const char* attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return c10::make_intrusive<c10d::PrefixStore>(
      "hyper_parallel." + std::string(attempt != nullptr ? attempt : "0"), std::move(store));
}

std::string make_group(Launch& ranks, const std::vector<int>& members) {
  std::vector<std::string> parts;
  for (const int member : members) parts.push_back(std::to_string(member));
  const std::string name = "hp.gloo." + join(parts, "-");
  const int member =
      static_cast<int>(std::find(members.begin(), members.end(), ranks.rank) - members.begin());
  const int size = static_cast<int>(members.size());

  constexpr auto kType = c10d::ProcessGroup::BackendType::GLOO;
  const auto store = c10::make_intrusive<c10d::PrefixStore>(name, ranks.store);
  auto options = c10d::ProcessGroupGloo::Options::create_default(ranks.timeout);
  options->group_name = name;
  auto backend =
      c10::make_intrusive<c10d::ProcessGroupGloo>(store, member, size, std::move(options));
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, member, size);
  group->setBackend(at::kCPU, kType, c10::intrusive_ptr<c10d::Backend>(std::move(backend)));
  group->setDefaultBackend(kType);
  group->setGroupName(name);
  c10d::register_process_group(name, group);
  const std::lock_guard lock(ranks.mutex);
  ranks.groups.emplace_back(name, std::move(group));
  return name;
}

}  // namespace

void init_gloo_from_env(std::chrono::milliseconds timeout) {
  const auto ranks = std::make_shared<Launch>();
  ranks->rank = number("RANK");
  ranks->size = number("WORLD_SIZE");
  ranks->timeout = timeout;
  if (ranks->rank >= ranks->size) {
    throw UsageError(Message("HP-C011", "init_gloo_from_env: RANK is not below WORLD_SIZE")
                         .fact("RANK", std::to_string(ranks->rank))
                         .fact("WORLD_SIZE", std::to_string(ranks->size)));
  }
  try {
    ranks->store = connect(*ranks);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw CommError(Message("HP-C012", "init_gloo_from_env: the ranks did not meet")
                        .fact("address", variable("MASTER_ADDR") + ":" + variable("MASTER_PORT"))
                        .fact("cause", error.what()));
  }
  launch() = ranks;
  set_process_context(std::make_shared<RankContext>(
      ranks->rank, ranks->size,
      [ranks](const std::vector<int>& members) { return make_group(*ranks, members); }));
}

void shutdown_gloo() {
  const std::shared_ptr<Launch> ranks = std::exchange(launch(), nullptr);
  if (ranks == nullptr) return;
  if (ranks->size > 1) {
    // Rank 0 may serve the store that others still need for a group.
    std::vector<int> everyone(static_cast<std::size_t>(ranks->size));
    std::iota(everyone.begin(), everyone.end(), 0);
    current_rank().group(everyone)->barrier()->wait();
  }
  set_process_context(nullptr);
  const std::lock_guard lock(ranks->mutex);
  for (const auto& [name, group] : ranks->groups) c10d::unregister_process_group(name);
  ranks->groups.clear();
}

}  // namespace hyper_parallel::torch_layer
