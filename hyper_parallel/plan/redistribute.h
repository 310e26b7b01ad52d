#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/core/tensor_meta.h"
#include "hyper_parallel/plan/topology.h"

namespace hyper_parallel::plan {

/// What a step does to the axes that it names.
enum class StepKind : std::uint8_t {
  cut,             // R -> S, local
  all_gather,      // S -> R
  reduce_scatter,  // P -> S
  all_reduce,      // P -> R
  all_to_all,      // S -> S on another dim, or on the same dim in other chunks
  permute,         // the same shards on other ranks
  scale,           // P(avg) <-> P(sum): times `factor`, local
  own,             // R -> P(sum): rank 0 of the group keeps its value, others hold zero; local
  pad,             // S -> P(sum): zeros around the shard; local, only as the transpose of cut
};

/// One collective or local cut.
struct Step {
  StepKind kind = StepKind::cut;
  std::vector<int> axes = {};   // of the mesh of `before`: one flattened group, major to minor
  int from_dim = -1;            // the tensor dim that stops being cut; -1: none or several
  int to_dim = -1;              // the tensor dim that is cut now; -1: none or several
  ReduceOp op = ReduceOp::sum;  // of reductions
  double factor = 1;            // of scale
  const Layout* before = nullptr;
  const Layout* after = nullptr;
  double bytes = 0;  // sent or received by one rank, the largest over ranks
  double seconds = 0;

  /// True if ranks exchange data. An exchange of no bytes is local too.
  bool communicates() const;
};

/// How a tensor gets from one layout to another.
struct Plan {
  const Layout* from = nullptr;
  const Layout* to = nullptr;
  TensorMeta meta = {};
  const Topology* topology = nullptr;
  std::vector<Step> steps = {};  // empty: the local tensors are the same already
  double bytes = 0;              // sum over steps
  double lower_bound = 0;        // bytes that some rank must send or receive in any plan
  double seconds = 0;
  std::string note = {};  // why a bound was given up, empty otherwise

  /// Names this plan in the caches of executors; unlike for any two plans made. Set it to 0 in a
  /// copy that you change.
  std::uint64_t id = 0;
};

/// Find the cheapest plan. The search tries all sequences of steps and is exact where the layouts
/// differ on three axes at most. Where they differ on four it tries sequences with at most one
/// all_to_all or permute. Where they differ on more it reduces, gathers and cuts, and `note` says
/// so.
///
/// An axis on which the layouts agree takes no part: it never carries traffic. P(op) stays
/// pending where both layouts have it. R becomes P(sum) by `own`. A local tensor stays within the
/// larger of source and target, or 1 MiB (`note` says so if no such plan exists). At equal cost the
/// plan with fewer bytes, then with fewer steps is taken; the choice depends on the arguments
/// alone, so all ranks agree.
///
/// Layouts on two meshes of the same ranks: by a common refinement of the meshes where sizes
/// allow, else through R.
///
/// The result is shared and cached (bounded, safe for threads).
/// Throws UsageError: a layout cuts a dim that the tensor lacks. UnsupportedError: R -> P(max),
/// P(sum) -> P(max), pending ops that do not commute, meshes of different ranks.
std::shared_ptr<const Plan> redistribute(const Layout* from, const Layout* to,
                                         const TensorMeta& meta,
                                         const Topology& topology = default_topology());

/// The transposed linear map, step by step in reverse: from dual(to) to dual(from).
///
///     all_reduce <-> all_reduce    all_gather <-> reduce_scatter    cut <-> pad
///     all_to_all, permute <-> inverse    scale, own: themselves
///
/// Throws UnsupportedError: a layout has P(max), P(min) or P(prod).
Plan transpose(const Plan& plan);

/// The transpose, cached like the plan itself.
std::shared_ptr<const Plan> transposed(const std::shared_ptr<const Plan>& plan);

/// Write a step as `all_gather dim 0 over tp, 3.0 MiB`.
std::string to_string(const Step& step);

/// One line a step, then the total: `total 3.0 MiB, 1.00x the lower bound`.
std::string to_string(const Plan& plan);

/// Write `all_gather`.
std::string_view to_string(StepKind kind);

}  // namespace hyper_parallel::plan
