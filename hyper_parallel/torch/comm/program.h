#pragma once

#include <c10/core/SymInt.h>

#include <memory>
#include <vector>

#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/torch/comm/pieces.h"
#include "hyper_parallel/torch/comm/wire.h"

namespace hyper_parallel::torch_layer {

class Exchange;

/// One step of a plan as one rank does it: shapes and places are worked out, the group is found.
///
/// What goes on the wire is made from `out`, what comes is put together by `in`:
///
///     all_gather      my tensor, padded to `part`         -> pieces of all ranks (in)
///     reduce_scatter  pieces for all ranks (out), padded  -> mine, cut to its shape
///     all_to_all      pieces for all ranks (out)          -> pieces of all ranks (in)
struct Action {
  plan::StepKind kind = plan::StepKind::cut;
  ReduceOp op = ReduceOp::sum;
  double factor = 1;
  Group group;         // of steps that communicate
  bool first = false;  // of step `own`: this rank keeps its value, the others take zeros
  bool idle = false;   // nothing to send in this rank's group
  Shape before;        // shapes of the local tensor
  Shape after;
  Shape part;  // what one rank sends (gather) or gets (reduce-scatter)
  Pieces out;
  Pieces in;
  bool tail_padded = false;       // what `is_tail_padded` says of out or in
  std::vector<c10::SymInt> sent;  // all_to_all: rows, or elements if there is no grid
  std::vector<c10::SymInt> received;
  Region place;  // cut: what stays; pad: where it goes
};

/// A plan as one rank does it.
struct Program {
  std::shared_ptr<const Exchange> exchange;    // that runs it; set when first needed
  std::shared_ptr<const Exchange> transposed;  // likewise
  std::vector<Action> actions;
  Shape before;  // of the local tensor
  Shape after;
  bool may_alias = false;  // the result may be a view of the argument
};

/// Work out `plan` for the calling rank. Throws UsageError if it is not in the mesh.
Program compile(const plan::Plan& plan);

/// The program of `plan`, kept per thread while its rank lives (but for a plan with id 0).
std::shared_ptr<Program> program_of(const plan::Plan& plan);

/// Throws UsageError if `local` has not the shape of `plan.from` on this rank.
void check_local(const plan::Plan& plan, const Program& program, const at::Tensor& local);

/// True if the action sends something: the others are done by `run_here`.
bool sends(const Action& action);

/// An action that sends nothing.
at::Tensor run_here(const Action& action, const at::Tensor& x);

/// The halves of an action that sends: the collective is issued, and is waited for.
wire::Sent issue(const Action& action, const at::Tensor& x);
at::Tensor land(const Action& action, const at::Tensor& x, wire::Sent sent);

/// The local part of these halves.
at::Tensor before_collective(const Action& action, const at::Tensor& x);
at::Tensor after_collective(const Action& action, const at::Tensor& x, const at::Tensor& received);

}  // namespace hyper_parallel::torch_layer
