// Internal to the verifier: what to run for one case on one mesh.
#pragma once

#include <memory>
#include <vector>

#include "hyper_parallel/torch/verify/session.h"

namespace hyper_parallel::torch_layer {

/// Add the items of one case: every set of choices of its rule, and sets of layouts for the
/// dispatch; look for missing strategies. `reference` is made where it is null. Findings and counts
/// go to `report`.
void add_items(std::size_t which, const VerifyCase& c, const Mesh* mesh,
               const VerifyOptions& options, std::shared_ptr<const Reference>& reference,
               VerifyReport& report, std::vector<VerifyItem>& items);

}  // namespace hyper_parallel::torch_layer
