#pragma once

#include <optional>
#include <vector>

#include "hyper_parallel/plan/moves_internal.h"

namespace hyper_parallel::plan {

/// The cheapest moves from start to goal with local tensors of at most `memory_bytes`, by A* with
/// the bytes still needed as the bound; nothing if there are none. Equal costs are decided by
/// bytes, then steps, then the order of `Moves`: all ranks find the same.
std::optional<std::vector<Move>> search(States& states, double memory_bytes);

}  // namespace hyper_parallel::plan
