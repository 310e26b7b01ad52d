// The plan without search, for layouts that differ in more axes than a search can handle.

#include <algorithm>
#include <functional>
#include <numeric>

#include "hyper_parallel/plan/build_internal.h"
#include "hyper_parallel/plan/cost.h"

namespace hyper_parallel::plan {
namespace {

double local_bytes(const Layout* layout, const TensorMeta& meta) {
  const std::vector<int> first(static_cast<std::size_t>(layout->mesh()->ndim()), 0);
  return static_cast<double>(
      TensorMeta{local_shape(layout, meta.sizes, first), meta.dtype}.bytes());
}

}  // namespace

void add_plain_steps(const Layout* from, const Layout* to, Plan& plan) {
  const Mesh* mesh = from->mesh();
  const auto step = [&](StepKind kind, std::vector<int> axes, const Layout* before,
                        const Layout* after, ReduceOp op) {
    if (axes.empty()) return;
    int ranks = 1;
    for (int axis : axes) ranks *= mesh->size(axis);
    double bytes = 0;
    if (kind == StepKind::all_reduce)
      bytes = all_reduce_bytes(ranks, local_bytes(before, plan.meta));
    if (kind == StepKind::all_gather)
      bytes = all_gather_bytes(ranks, local_bytes(before, plan.meta));
    const double seconds =
        step_seconds(kind, ranks, bytes, link(*plan.topology, mesh, axes), *plan.topology);
    plan.steps.push_back({.kind = kind,
                          .axes = std::move(axes),
                          .op = op,
                          .before = before,
                          .after = after,
                          .bytes = bytes,
                          .seconds = seconds});
  };

  std::vector<int> reduced;
  ReduceOp op = ReduceOp::sum;
  std::vector<std::optional<ReduceOp>> partials(static_cast<std::size_t>(mesh->ndim()));
  for (int axis = 0; axis < mesh->ndim(); ++axis) {
    const Placement p = from->placement(axis);
    if (!p.is_partial()) continue;
    if (to->placement(axis) == p) {
      partials[static_cast<std::size_t>(axis)] = p.op();
    } else {
      reduced.push_back(axis);
      op = p.op();
    }
  }
  const Layout* whole = Layout::get(mesh, from->splits(), partials);
  step(StepKind::all_reduce, reduced, from, whole, op);

  std::vector<Split> kept;
  std::vector<int> gathered;
  for (const Split& s : whole->splits()) {
    const Split* target = to->split(s.dim);
    if (target != nullptr && *target == s) {
      kept.push_back(s);
    } else {
      gathered.insert(gathered.end(), s.axes.begin(), s.axes.end());
    }
  }
  const Layout* common = Layout::get(mesh, kept, partials);
  step(StepKind::all_gather, gathered, whole, common, ReduceOp::sum);

  std::vector<int> cut;
  for (const Split& s : to->splits()) {
    if (common->split(s.dim) == nullptr) cut.insert(cut.end(), s.axes.begin(), s.axes.end());
  }
  step(StepKind::cut, cut, common, to, ReduceOp::sum);
  plan.note = "more axes change than a search can handle";
}

}  // namespace hyper_parallel::plan
