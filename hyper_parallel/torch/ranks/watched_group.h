#pragma once

#include <vector>

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class ProcessGroup;
}

namespace hyper_parallel::torch_layer {

/// Watch over `group`, of which this process is a member: collectives that Gloo runs on host memory
/// are logged from now on, and their waits end with a CommError when the watch gives a verdict.
/// Other backends are left alone. Watching twice changes nothing.
///
/// `ranks`: the world ranks of the group, in its order. `world`: the group of all ranks, whose
/// store the watch uses. `rank`, `size`: of this process in it.
void watch_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::vector<int>& ranks,
                 const c10::intrusive_ptr<c10d::ProcessGroup>& world, int rank, int size);

}  // namespace hyper_parallel::torch_layer
