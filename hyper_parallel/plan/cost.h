#pragma once

#include "hyper_parallel/plan/redistribute.h"

namespace hyper_parallel::plan {

/// The one place of these formulas: plans, rules, handlers and the collectives of local code price
/// and report by them.
///
/// Bytes that one of `ranks` ranks sends or receives, the largest over ranks, with n = `ranks` and
/// local tensors that are padded to the largest: what the executor really moves.
///
///     all_gather      (n - 1) * part            part: local bytes before
///     reduce_scatter  (n - 1) * part            part: local bytes after
///     all_reduce      2 (n - 1) / n * whole     whole: local bytes
///     broadcast       whole                     whole: local bytes
///     all_to_all      (n - 1) / n * whole       whole: local bytes, in equal shares
///
/// An all-to-all of other shares, and permute, move what overlaps, exactly; see `States::exchange`.
/// Source: ring algorithms; Thakur, Rabenseifner, Gropp 2005, "Optimization of Collective
/// Communication Operations in MPICH".
double all_gather_bytes(int ranks, double part);
double reduce_scatter_bytes(int ranks, double part);
double all_reduce_bytes(int ranks, double whole);
double broadcast_bytes(int ranks, double whole);
double all_to_all_bytes(int ranks, double whole);

/// Time of one step that moves `bytes` among `ranks` ranks: launch + hops * latency + bytes /
/// bandwidth. Hops are ceil(log2 n), twice that for all_reduce: what trees and recursive doubling
/// need (NCCL has them for all_reduce, and since 2.23 for gathers and scatters). A ring's n - 1
/// would make one flattened collective dearer than two nested ones, which it never is for small
/// tensors.
double step_seconds(StepKind kind, int ranks, double bytes, const Link& link,
                    const Topology& topology);

}  // namespace hyper_parallel::plan
