#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/plan/build_internal.h"

namespace hyper_parallel::plan {
namespace {

StepKind transpose(StepKind kind) {
  switch (kind) {
    case StepKind::cut:
      return StepKind::pad;
    case StepKind::pad:
      return StepKind::cut;
    case StepKind::all_gather:
      return StepKind::reduce_scatter;
    case StepKind::reduce_scatter:
      return StepKind::all_gather;
    default:
      return kind;
  }
}

}  // namespace

Plan transpose(const Plan& plan) {
  Plan out = plan;
  out.id = 0;
  out.from = plan.to->dual();
  out.to = plan.from->dual();
  std::reverse(out.steps.begin(), out.steps.end());
  for (Step& step : out.steps) {
    step.kind = transpose(step.kind);
    std::swap(step.from_dim, step.to_dim);
    const Layout* const before = step.before;
    step.before = step.after->dual();
    step.after = before->dual();
  }
  // Steps may lie on a refinement of the meshes of `from` and `to`.
  const Layout* first = out.steps.empty() ? out.from : out.steps.front().before;
  const Layout* last = out.steps.empty() ? out.to : out.steps.back().after;
  out.lower_bound = lower_bound(first, last, out.meta, *out.topology);
  return out;
}

}  // namespace hyper_parallel::plan
