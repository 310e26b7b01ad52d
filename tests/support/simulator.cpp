#include "tests/support/simulator.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>

namespace hyper_parallel::test {
namespace {

using plan::Step;
using plan::StepKind;

std::int64_t numel(const Shape& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

/// A number that looks random, the same everywhere.
double noise(std::int64_t element, std::int64_t salt) {
  const std::uint64_t x = static_cast<std::uint64_t>(element * 7919 + salt * 104729 + 17);
  return static_cast<double>((x * x / 7) % 19) - 9;
}

double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::prod:
      return a * b;
    default:
      return a + b;
  }
}

std::vector<int> partial_axes(const Layout* layout) {
  std::vector<int> out;
  for (int axis = 0; axis < layout->mesh()->ndim(); ++axis) {
    if (layout->placement(axis).is_partial()) out.push_back(axis);
  }
  return out;
}

int index_along(const Mesh* mesh, const std::vector<int>& axes, const std::vector<int>& at) {
  int out = 0;
  for (int axis : axes) out = out * mesh->size(axis) + at[static_cast<std::size_t>(axis)];
  return out;
}

/// Places in the mesh of the group of `at`, in group order.
std::vector<std::size_t> group(const Mesh* mesh, const std::vector<int>& axes,
                               const std::vector<int>& at) {
  const auto all = coordinates(mesh);
  std::map<int, std::size_t> members;
  for (std::size_t p = 0; p < all.size(); ++p) {
    bool same = true;
    for (int axis = 0; axis < mesh->ndim(); ++axis) {
      const bool along = std::find(axes.begin(), axes.end(), axis) != axes.end();
      same &= along || all[p][static_cast<std::size_t>(axis)] == at[static_cast<std::size_t>(axis)];
    }
    if (same) members[index_along(mesh, axes, all[p])] = p;
  }
  std::vector<std::size_t> out;
  for (const auto& [index, place] : members) out.push_back(place);
  return out;
}

/// Where the shard of the rank at `to` comes from in a permutation: axes that cut stand for those
/// that cut in their place before, the other axes of the step for each other in order.
std::vector<int> permute_source(const Step& step, const std::vector<int>& to) {
  std::vector<int> before;
  std::vector<int> after;
  for (const Split& s : step.after->splits()) {
    const std::vector<int>& old = step.before->axes(s.dim);
    before.insert(before.end(), old.begin(), old.end());
    after.insert(after.end(), s.axes.begin(), s.axes.end());
  }
  for (int axis : step.axes) {
    if (!step.before->placement(axis).is_shard()) before.push_back(axis);
    if (!step.after->placement(axis).is_shard()) after.push_back(axis);
  }
  std::vector<int> out = to;
  for (std::size_t i = 0; i < before.size(); ++i) {
    out[static_cast<std::size_t>(before[i])] = to[static_cast<std::size_t>(after[i])];
  }
  return out;
}

bool has_copies(const Step& step) {
  return std::any_of(step.axes.begin(), step.axes.end(),
                     [&](int axis) { return !step.before->placement(axis).is_shard(); });
}

}  // namespace

std::vector<std::vector<int>> coordinates(const Mesh* mesh) {
  std::vector<std::vector<int>> out;
  for (int p = 0; p < mesh->size(); ++p) {
    out.push_back(*mesh->coordinate(mesh->ranks()[static_cast<std::size_t>(p)]));
  }
  return out;
}

std::vector<std::int64_t> held(const Layout* layout, const Shape& sizes,
                               const std::vector<int>& coordinate) {
  std::vector<std::int64_t> out = {0};
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    std::vector<std::int64_t> next;
    const auto pieces = local_intervals(layout, static_cast<int>(d), sizes[d], coordinate);
    for (std::int64_t base : out) {
      for (const Interval& piece : pieces) {
        for (std::int64_t i = piece.begin; i < piece.end; ++i) next.push_back(base * sizes[d] + i);
      }
    }
    out = std::move(next);
  }
  return out;
}

Locals encode(const std::vector<double>& global, const Layout* layout, const Shape& sizes) {
  const Mesh* mesh = layout->mesh();
  const std::vector<int> axes = partial_axes(layout);
  int ranks = 1;
  int averaged = 1;
  for (int axis : axes) {
    ranks *= mesh->size(axis);
    if (layout->placement(axis).op() == ReduceOp::avg) averaged *= mesh->size(axis);
  }
  Locals out;
  for (const auto& at : coordinates(mesh)) {
    const int k = index_along(mesh, axes, at);
    Local local;
    for (std::int64_t e : held(layout, sizes, at)) {
      const double value = global[static_cast<std::size_t>(e)];
      const int owner = static_cast<int>(e % ranks);
      if (axes.empty()) {
        local.push_back(value);
        continue;
      }
      switch (layout->placement(axes[0]).op()) {
        case ReduceOp::max:
          local.push_back(k == owner ? value : value - 1 - (k + e) % 3);
          break;
        case ReduceOp::min:
          local.push_back(k == owner ? value : value + 1 + (k + e) % 3);
          break;
        case ReduceOp::prod:
          local.push_back(k == owner ? value : 1);
          break;
        default: {
          double rest = value * averaged;
          for (int i = 0; i < ranks; ++i) rest -= i == owner ? 0 : noise(e, i);
          local.push_back(k == owner ? rest : noise(e, k));
        }
      }
    }
    out.push_back(std::move(local));
  }
  return out;
}

std::vector<double> decode(const Locals& locals, const Layout* layout, const Shape& sizes) {
  const Mesh* mesh = layout->mesh();
  const std::vector<int> axes = partial_axes(layout);
  const auto all = coordinates(mesh);
  double averaged = 1;
  for (int axis : axes) {
    if (layout->placement(axis).op() == ReduceOp::avg) averaged *= mesh->size(axis);
  }
  std::vector<std::optional<double>> out(static_cast<std::size_t>(numel(sizes)));
  for (const auto& at : all) {
    const std::vector<std::int64_t> elements = held(layout, sizes, at);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      std::optional<double> value;
      for (std::size_t member : group(mesh, axes, at)) {
        if (locals[member].size() != elements.size()) throw std::runtime_error("wrong local size");
        const double x = locals[member][i];
        value = value ? combine(layout->placement(axes[0]).op(), *value, x) : x;
      }
      std::optional<double>& known = out[static_cast<std::size_t>(elements[i])];
      if (known && *known != *value / averaged) throw std::runtime_error("replicas differ");
      known = *value / averaged;
    }
  }
  std::vector<double> values;
  for (const auto& x : out) {
    if (!x) throw std::runtime_error("an element that nobody holds");
    values.push_back(*x);
  }
  return values;
}

Locals run(const plan::Plan& plan, const Locals& locals) {
  const Shape& sizes = plan.meta.sizes;
  Locals now = locals;
  for (const Step& step : plan.steps) {
    const Mesh* mesh = step.before->mesh();
    const auto all = coordinates(mesh);
    // For each rank, where each global element lies in its local tensor; -1: nowhere.
    std::vector<std::vector<std::int64_t>> places;
    for (const auto& at : all) {
      places.emplace_back(static_cast<std::size_t>(numel(sizes)), -1);
      std::int64_t place = 0;
      for (std::int64_t e : held(step.before, sizes, at)) {
        places.back()[static_cast<std::size_t>(e)] = place++;
      }
    }
    Locals next;
    for (std::size_t p = 0; p < all.size(); ++p) {
      std::vector<std::size_t> sources = group(mesh, step.axes, all[p]);
      const bool is_first = sources[0] == p;
      if (step.kind == StepKind::permute && has_copies(step)) {
        std::erase_if(sources,
                      [&](std::size_t m) { return all[m] != permute_source(step, all[p]); });
      } else if (!step.communicates() && step.kind != StepKind::all_to_all) {
        sources = {p};
      }
      const bool reduces =
          step.kind == StepKind::reduce_scatter || step.kind == StepKind::all_reduce;
      Local out;
      for (std::int64_t e : held(step.after, sizes, all[p])) {
        std::optional<double> value;
        if (step.kind == StepKind::pad) value = 0;
        for (std::size_t source : sources) {
          const std::int64_t at = places[source][static_cast<std::size_t>(e)];
          if (at < 0) continue;
          const double x = now[source][static_cast<std::size_t>(at)];
          value = value && reduces ? combine(step.op, *value, x) : x;
        }
        if (!value) throw std::runtime_error("nobody in the group has it: " + to_string(step));
        if (step.kind == StepKind::scale) *value *= step.factor;
        if (step.kind == StepKind::own && !is_first) *value = 0;
        out.push_back(*value);
      }
      next.push_back(std::move(out));
    }
    now = std::move(next);
  }
  return now;
}

std::vector<const Layout*> all_layouts(const Mesh* mesh, int ndim,
                                       const std::vector<ReduceOp>& ops) {
  std::vector<const Layout*> out;
  std::vector<int> order(static_cast<std::size_t>(mesh->ndim()));
  std::iota(order.begin(), order.end(), 0);
  do {
    const int choices = 1 + ndim + static_cast<int>(ops.size());
    std::vector<int> choice(order.size(), 0);
    while (true) {
      std::vector<Split> splits;
      std::vector<std::optional<ReduceOp>> partials(order.size());
      for (int axis : order) {
        const int c = choice[static_cast<std::size_t>(axis)];
        if (c > ndim)
          partials[static_cast<std::size_t>(axis)] = ops[static_cast<std::size_t>(c - ndim - 1)];
        if (c == 0 || c > ndim) continue;
        auto s = std::find_if(splits.begin(), splits.end(),
                              [&](const Split& x) { return x.dim == c - 1; });
        if (s == splits.end()) s = splits.insert(s, Split{.dim = c - 1});
        s->axes.push_back(axis);
      }
      const Layout* layout = Layout::get(mesh, splits, partials);
      if (std::find(out.begin(), out.end(), layout) == out.end()) out.push_back(layout);
      std::size_t i = 0;
      while (i < choice.size() && ++choice[i] == choices) choice[i++] = 0;
      if (i == choice.size()) break;
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return out;
}

namespace {

const Layout* rebuild(const Layout* layout, std::vector<Split> splits) {
  std::vector<std::optional<ReduceOp>> partials;
  for (const Placement& p : layout->placements()) {
    partials.push_back(p.is_partial() ? std::optional(p.op()) : std::nullopt);
  }
  return Layout::get(layout->mesh(), std::move(splits), partials);
}

}  // namespace

const Layout* with_block(const Layout* layout, std::int64_t block) {
  std::vector<Split> splits = layout->splits();
  for (Split& s : splits) s.block = block;
  return rebuild(layout, std::move(splits));
}

const Layout* with_segments(const Layout* layout, int dim, std::vector<std::int64_t> segments) {
  std::vector<Split> splits = layout->splits();
  for (Split& s : splits) {
    if (s.dim == dim) s.segments = segments;
  }
  return rebuild(layout, std::move(splits));
}

}  // namespace hyper_parallel::test
