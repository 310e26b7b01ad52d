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

/// One run of code on local tensors, of the calling thread.
class LocalRegion {
 public:
  /// `joined`: all results depend on all collectives, as data may decide what a rank uses.
  explicit LocalRegion(const Mesh* mesh, bool joined = true);

  const Mesh* mesh() const { return mesh_; }

  /// The locals as the code uses them.
  std::vector<at::Tensor> enter(const std::vector<at::Tensor>& locals);

  /// What collectives hang on; undefined if no input requires grad.
  at::Tensor anchor();

  /// Let the results hang on that of a collective.
  void tie(const at::Tensor& result) { ties_.push_back(result); }

  /// True if the code used tensors that require grad and came in by another way.
  bool reaches_outside(const std::vector<at::Tensor>& results) const;

  /// The results as the outside uses them.
  std::vector<at::Tensor> leave(const std::vector<at::Tensor>& results);

 private:
  const Mesh* mesh_;
  bool joined_;
  std::uint64_t since_;
  std::vector<at::Tensor> entered_;
  at::Tensor anchor_;
  std::vector<at::Tensor> ties_;
};

/// The region whose code runs on this thread; null outside.
LocalRegion* current_region();

/// Makes `region` the current one for its life; null: none.
class RegionGuard {
 public:
  explicit RegionGuard(LocalRegion* region);
  ~RegionGuard();
  RegionGuard(const RegionGuard&) = delete;
  RegionGuard& operator=(const RegionGuard&) = delete;

 private:
  LocalRegion* before_;
};

/// Set the current region, null for none; returns the one before.
LocalRegion* set_current_region(LocalRegion* region);

/// The mesh of the region whose backward pass this thread runs now; null outside.
const Mesh* backward_mesh();

}  // namespace hyper_parallel::torch_layer
