#include "hyper_parallel/plan/redistribute.h"

#include <algorithm>
#include <limits>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/plan/build_internal.h"
#include "hyper_parallel/plan/cache_internal.h"
#include "hyper_parallel/plan/cost.h"
#include "hyper_parallel/plan/search_internal.h"

namespace hyper_parallel::plan {
namespace {

// The axes that a search can change: four take milliseconds, five tens of them, six seconds.
constexpr std::size_t kMostAxes = 5;

// Local tensors up to this size may exceed source and target if that saves time.
constexpr double kSmallBytes = 1 << 20;

using Partials = std::vector<std::optional<ReduceOp>>;

Partials partials_of(const Layout* layout) {
  Partials out;
  for (const Placement& p : layout->placements()) {
    out.push_back(p.is_partial() ? std::optional(p.op()) : std::nullopt);
  }
  return out;
}

bool is_linear(ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::avg; }

[[noreturn]] void throw_no_step(const Layout* from, const Layout* to, const TensorMeta& meta,
                                int axis) {
  const Placement target = to->placement(axis);
  throw UnsupportedError(Message("HP-R002", "redistribute: cannot turn " +
                                                to_string(from->placement(axis)) + " into " +
                                                to_string(target) + " on mesh axis \"" +
                                                from->mesh()->name(axis) + "\"")
                             .fact("tensor", to_string(meta, from))
                             .fact("to", to->to_string())
                             .hint("only P(sum) and P(avg) can be made from other placements"));
}

/// Pending ops are combined one group after the other; that has one result only if they commute.
void check_ops(const Layout* from, const Layout* to, const TensorMeta& meta) {
  std::optional<ReduceOp> reduced;
  for (int axis = 0; axis < from->mesh()->ndim(); ++axis) {
    const Placement p = from->placement(axis);
    if (p.is_partial() && p != to->placement(axis)) reduced = p.op();
  }
  if (!reduced) return;
  for (const Placement& p : from->placements()) {
    if (!p.is_partial() || p.op() == *reduced || (is_linear(p.op()) && is_linear(*reduced))) {
      continue;
    }
    throw UnsupportedError(
        Message("HP-R003", "redistribute: the pending " + to_string(p) + " and " +
                               to_string(Placement::partial(*reduced)) + " do not commute")
            .fact("tensor", to_string(meta, from))
            .hint("reduce each one before the next becomes pending"));
  }
}

void check_tensor(const Layout* layout, const TensorMeta& meta) {
  const std::vector<int> first(static_cast<std::size_t>(layout->mesh()->ndim()), 0);
  local_shape(layout, meta.sizes, first);  // throws if a dim is out of range, segments do not fit
  if (layout->mesh()->ndim() > 32) {
    throw UnsupportedError(Message("HP-R004", "redistribute: a mesh of more than 32 axes")
                               .fact("mesh", layout->mesh()->to_string()));
  }
}

Step scale(const Layout* before, const Layout* after, double factor, std::vector<int> axes,
           const Topology& topology) {
  return {.kind = StepKind::scale,
          .axes = std::move(axes),
          .factor = factor,
          .before = before,
          .after = after,
          .seconds = topology.local_launch_seconds};
}

/// P(avg) that must change: made P(sum) at once, since all else then has one op only.
const Layout* sum_averages(const Layout* from, const Layout* to, Plan& plan) {
  Partials partials = partials_of(from);
  std::vector<int> axes;
  double factor = 1;
  for (int axis = 0; axis < from->mesh()->ndim(); ++axis) {
    if (from->placement(axis).is_partial(ReduceOp::avg) &&
        from->placement(axis) != to->placement(axis)) {
      partials[static_cast<std::size_t>(axis)] = ReduceOp::sum;
      factor /= from->mesh()->size(axis);
      axes.push_back(axis);
    }
  }
  if (axes.empty()) return from;
  if (is_integral(plan.meta.dtype)) {
    throw UnsupportedError(Message("HP-R005", "redistribute: P(avg) of integers has no exact value")
                               .fact("tensor", to_string(plan.meta, from))
                               .hint("average in a floating point dtype"));
  }
  const Layout* after = Layout::get(from->mesh(), from->splits(), partials);
  plan.steps.push_back(scale(from, after, factor, std::move(axes), *plan.topology));
  return after;
}

/// The layout that the search aims at: `to`, but R where `to` is partial and `from` is not, and
/// P(sum) where only averaging remains. `finish` does the rest.
const Layout* search_goal(const Layout* from, const Layout* to, const TensorMeta& meta) {
  Partials partials = partials_of(to);
  for (int axis = 0; axis < to->mesh()->ndim(); ++axis) {
    const Placement a = from->placement(axis);
    const Placement b = to->placement(axis);
    if (!b.is_partial() || a == b) continue;
    const bool linear = is_linear(b.op()) && (!a.is_partial() || is_linear(a.op()));
    if (!linear) throw_no_step(from, to, meta, axis);
    partials[static_cast<std::size_t>(axis)] =
        a.is_partial() ? std::optional(ReduceOp::sum) : std::nullopt;
  }
  return Layout::get(to->mesh(), to->splits(), partials);
}

/// From what the search reached to `to`. R is P(avg) as it is; P(sum) becomes P(avg) by a factor.
void finish(const Layout* reached, const Layout* to, Plan& plan) {
  std::vector<int> owned;
  std::vector<int> averaged;
  double factor = 1;
  Partials partials = partials_of(reached);
  for (int axis = 0; axis < to->mesh()->ndim(); ++axis) {
    const Placement a = reached->placement(axis);
    const Placement b = to->placement(axis);
    if (a == b) continue;
    if (a.is_partial()) {
      averaged.push_back(axis);
      factor *= to->mesh()->size(axis);
    } else if (b.op() == ReduceOp::sum) {
      owned.push_back(axis);
    }
    partials[static_cast<std::size_t>(axis)] = b.op();
  }
  if (!owned.empty()) {
    plan.steps.push_back({.kind = StepKind::own,
                          .axes = std::move(owned),
                          .before = reached,
                          .after = averaged.empty() ? to : reached,
                          .seconds = plan.topology->local_launch_seconds});
    if (!averaged.empty()) {
      for (int axis : averaged) partials[static_cast<std::size_t>(axis)] = ReduceOp::sum;
      reached = Layout::get(to->mesh(), to->splits(), partials);
      plan.steps.back().after = reached;
    }
  }
  if (!averaged.empty()) {
    plan.steps.push_back(scale(reached, to, factor, std::move(averaged), *plan.topology));
  }
}

/// The tensor dim of which the cut changes in the given way; -1: none or several.
template <class Changes>
int changed_dim(const States& states, const State& before, const State& after, Changes changes) {
  int out = -1;
  for (std::size_t i = 0; i < states.dims().size(); ++i) {
    if (before.cuts[i] == after.cuts[i]) continue;
    if (!changes(states.cut(before, i).depth(), states.cut(after, i).depth())) continue;
    if (out >= 0) return -1;
    out = states.dims()[i].dim;
  }
  return out;
}

void add_searched_steps(const Layout* from, const Layout* to, Plan& plan) {
  States states(from, to, plan.meta, *plan.topology);
  if (!states.fits() || states.axes().size() > kMostAxes) return add_plain_steps(from, to, plan);
  const double memory = std::max(
      {states.local_bytes(states.start()), states.local_bytes(states.goal()), kSmallBytes});
  auto path = search(states, memory);
  if (!path) {
    path = search(states, std::numeric_limits<double>::infinity());
    plan.note = "no plan stays within the larger of source and target";
  }
  check_internal(path.has_value(),
                 "redistribute: no path from " + from->to_string() + " to " + to->to_string());
  State state = states.start();
  for (const Move& move : *path) {
    const State last = std::exchange(state, move.after);
    if (move.free) continue;
    const auto shrinks = [](std::size_t a, std::size_t b) { return b <= a && a > 0; };
    const auto grows = [](std::size_t a, std::size_t b) { return b >= a && b > 0; };
    plan.steps.push_back({.kind = move.kind,
                          .axes = {move.axes.begin(), move.axes.end()},
                          .from_dim = changed_dim(states, last, state, shrinks),
                          .to_dim = changed_dim(states, last, state, grows),
                          .op = move.is_reduction() ? states.op() : ReduceOp::sum,
                          .before = states.layout(last),
                          .after = states.layout(state),
                          .bytes = move.bytes,
                          .seconds = move.seconds});
  }
}

}  // namespace

bool Step::communicates() const {
  switch (kind) {
    case StepKind::all_gather:
    case StepKind::reduce_scatter:
    case StepKind::all_reduce:
      return true;
    case StepKind::all_to_all:
    case StepKind::permute:
      return bytes > 0;
    default:
      return false;
  }
}

double lower_bound(const Layout* from, const Layout* to, const TensorMeta& meta,
                   const Topology& topology) {
  if (from->mesh() != to->mesh()) return 0;
  // Zeros beside a shard make it P(sum), so nothing need move there.
  for (int axis = 0; axis < to->mesh()->ndim(); ++axis) {
    if (to->placement(axis).is_partial() && from->placement(axis).is_shard()) return 0;
  }
  Partials source = partials_of(from);
  Partials target = partials_of(to);
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (!source[i]) target[i] = std::nullopt;           // R -> P: local
    if (source[i] && target[i]) target[i] = source[i];  // P(sum) <-> P(avg): local
  }
  States states(from, Layout::get(to->mesh(), to->splits(), target), meta, topology);
  return states.fits() ? states.needed_bytes(states.start()) : 0;
}

void add_totals(Plan& plan) {
  plan.bytes = 0;
  plan.seconds = 0;
  for (const Step& step : plan.steps) {
    plan.bytes += step.bytes;
    plan.seconds += step.seconds;
  }
}

void add_steps(const Layout* from, const Layout* to, Plan& plan) {
  if (from == to) return;
  check_ops(from, to, plan.meta);
  const Layout* source = sum_averages(from, to, plan);
  const Layout* goal = search_goal(source, to, plan.meta);
  if (source != goal) add_searched_steps(source, goal, plan);
  finish(goal, to, plan);
}

std::shared_ptr<const Plan> redistribute(const Layout* from, const Layout* to,
                                         const TensorMeta& meta, const Topology& topology) {
  return cached(from, to, meta, topology, [&] {
    check_tensor(from, meta);
    check_tensor(to, meta);
    Plan plan{.from = from, .to = to, .meta = meta, .topology = &topology};
    if (meta.numel() == 0) return plan;  // an executor makes the empty result by itself
    if (from->mesh() == to->mesh()) {
      add_steps(from, to, plan);
      plan.lower_bound = lower_bound(from, to, meta, topology);
    } else {
      add_steps_across_meshes(from, to, plan);
    }
    add_totals(plan);
    return plan;
  });
}

}  // namespace hyper_parallel::plan
