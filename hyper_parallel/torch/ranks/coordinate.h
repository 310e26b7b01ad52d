#pragma once

#include <vector>

#include "hyper_parallel/core/mesh.h"

namespace hyper_parallel::torch_layer {

/// The calling rank's place in `mesh`, one number an axis; kept per thread.
/// Throws UsageError if the mesh is larger than the world or the rank is not a member.
const std::vector<int>& my_coordinate(const Mesh* mesh);

}  // namespace hyper_parallel::torch_layer
