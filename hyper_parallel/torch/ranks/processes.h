#pragma once

#include <chrono>

namespace hyper_parallel::torch_layer {

/// Make this process a rank among processes that a launcher started, without Python.
///
/// Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them, meets the others
/// and sets the context of the process. Groups use Gloo and are made by their members when first
/// needed. `timeout` holds for meeting and for each collective.
///
/// Throws UsageError: a variable is missing or no number. CommError: the others did not come.
void init_gloo_from_env(std::chrono::milliseconds timeout = std::chrono::minutes(30));

/// Wait for all ranks, then drop the groups and the context that `init_gloo_from_env` made.
void shutdown_gloo();

}  // namespace hyper_parallel::torch_layer
