#pragma once

#include "hyper_parallel/torch/dispatch/frame.h"

/// Calls whose tensors do not lie on one mesh.
namespace hyper_parallel::torch_layer {

/// A call of an op that does the same with each member of its lists (`_foreach_*`, `_fused_*`), on
/// plain tensors and DTensors or on DTensors of several meshes: the members of one kind are run
/// together, and results are put back in order. False if there is one kind: nothing was run.
///
/// A number beside the lists (a tensor of 0 dims: a norm, a step size) is taken by value where it
/// lies on another mesh. Throws UsageError HP-D002 for a larger tensor there.
bool run_in_groups(Frame& frame);

/// Replace numbers (tensors of 0 dims) on another mesh than the other operands by their values.
/// Throws UsageError HP-D002 for any other tensor of another mesh.
void take_numbers_by_value(Frame& frame, const Operands& operands);

}  // namespace hyper_parallel::torch_layer
