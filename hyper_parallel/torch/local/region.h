#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hyper_parallel/core/mesh.h"

/// The borders of code that runs on local tensors (custom_shard, DFunction).
///
/// Inside, what ranks do may depend on data: an expert without tokens leaves a collective's result
/// unused on one rank only. Backward passes would then skip a collective there, and the others
/// would wait for ever. So the graph of a region has the same collectives on every rank: each
/// hangs on the region's `anchor`, and each result of the region hangs on all of them.
namespace hyper_parallel::torch_layer {

/// The locals as the region uses them: same values, one node. In backward an input that nothing
/// reached gets zeros, so that every rank has a gradient for it. Tensors that need no grad are
/// returned as they are.
std::vector<at::Tensor> enter_region(const std::vector<at::Tensor>& locals, const Mesh* mesh);

/// An empty tensor that requires grad and depends on all `entered`; no gradient flows through it.
/// Undefined if none of them requires grad.
at::Tensor region_anchor(const std::vector<at::Tensor>& entered);

/// The results as the outside uses them: same values, one node that also depends on `ties`, which
/// get no gradient but are reached. `forced`: floating-point results require grad even where they
/// do not depend on any input on this rank; their graph then begins at the ties.
std::vector<at::Tensor> leave_region(const std::vector<at::Tensor>& results,
                                     const std::vector<at::Tensor>& ties, bool forced,
                                     const Mesh* mesh);

/// A mark in the graph: nodes made from now on come after it.
std::uint64_t graph_mark();

/// True if `tensors` depend on something that requires grad, was there at `since`, and did not come
/// in by `enter_region`: what a function closes over. Its gradient would be this rank's part alone.
bool reaches_outside(const std::vector<at::Tensor>& tensors, std::uint64_t since);

/// The mesh of the region whose backward pass this thread runs now; null outside.
const Mesh* backward_mesh();

}  // namespace hyper_parallel::torch_layer
