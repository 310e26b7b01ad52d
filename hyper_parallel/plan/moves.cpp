#include "hyper_parallel/plan/moves_internal.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "hyper_parallel/plan/cost.h"

namespace hyper_parallel::plan {
namespace {

// With more axes that change, a plan has one exchange at most: a search that allows two takes ten
// times as long, and finds better plans only for mixed links and very uneven pieces.
constexpr std::size_t kMostAxesForTwo = 3;

}  // namespace

Moves::Moves(States& states, const Filter& filter, const Emit& emit)
    : states_(states), filter_(filter), emit_(emit), dims_(states.dims().size()) {}

void Moves::from(const State& s) {
  s_ = s;
  local_bytes_ = states_.local_bytes(s);
  reduce_scatters();
  all_reduces();
  if (s.phase == 0) {
    exchanges();
    permutes();
  }
  all_gathers();
  cuts();
}

/// Put axes of `left`, one after the other, below the cuts of `s` in all ways, dims ascending.
/// Calls `visit(s, placed, left)` each time.
template <class Visit>
void Moves::place(State& s, std::uint32_t left, AxisList& placed, std::size_t first_dim,
                  const Visit& visit) {
  for (std::uint32_t rest = left; rest != 0; rest &= rest - 1) {
    const int axis = std::countr_zero(rest);
    placed.push(axis);
    for (std::size_t d = first_dim; d < dims_; ++d) {
      const std::int16_t old = s.cuts[d];
      const int styles = old == 0 ? static_cast<int>(states_.dims()[d].styles.size()) : 1;
      for (int style = 0; style < styles; ++style) {
        s.cuts[d] = states_.append(d, old, axis, style);
        const std::uint32_t now_left = left & ~(1U << axis);
        if (!visit(s, placed, now_left, d, old)) continue;
        place(s, now_left, placed, d, visit);
      }
      s.cuts[d] = old;
    }
    placed.pop();
  }
}

/// Calls `visit(rest, taken)` with each choice of minor axes to take away.
template <class Visit>
void Moves::take_away(State& rest, AxisList& taken, std::size_t dim, const Visit& visit) {
  if (dim == dims_) {
    if (taken.count != 0) visit(rest, taken);
    return;
  }
  const std::int16_t whole = rest.cuts[dim];
  const std::int8_t before = taken.count;
  const DimSplit* cut = &states_.cut(rest, dim);
  const std::size_t depth = cut->depth();
  for (std::size_t keep = depth + 1; keep-- > states_.dims()[dim].fixed;) {
    taken.count = before;
    const std::vector<int>& axes = states_.dims()[dim].cuts[static_cast<std::size_t>(whole)].axes;
    for (std::size_t i = keep; i < depth; ++i) taken.push(axes[i]);
    take_away(rest, taken, dim + 1, visit);
    if (keep > 0) rest.cuts[dim] = states_.cut(rest, dim).parent;
  }
  rest.cuts[dim] = whole;
  taken.count = before;
}

void Moves::add(StepKind kind, const AxisList& axes, const State& after, double bytes) {
  const double seconds =
      step_seconds(kind, states_.ranks(axes), bytes, states_.link(axes), states_.topology());
  if (!filter_(after, seconds)) return;
  emit_({.kind = kind, .axes = axes, .bytes = bytes, .seconds = seconds, .after = after});
}

void Moves::add_exchange(StepKind kind, const AxisList& axes, State after) {
  const Exchange e = states_.exchange(s_, after);
  double bytes = std::max(e.received_bytes, e.sent_bytes);
  // A permutation that moves anything moves whole shards.
  if (kind == StepKind::permute) bytes = e.received_bytes == 0 ? 0 : local_bytes_;
  if (e.identical) {
    if (filter_(after, 0)) emit_({.kind = kind, .axes = axes, .free = true, .after = after});
    return;
  }
  if (states_.axes().size() > kMostAxesForTwo) after.phase = 1;
  add(kind, axes, after, bytes);
}

void Moves::cuts() {
  State s = s_;
  AxisList placed;
  place(s, states_.whole_axes(s_), placed, 0,
        [&](const State& after, const AxisList& axes, std::uint32_t, std::size_t, std::int16_t) {
          add(StepKind::cut, axes, after, 0);
          return true;
        });
}

void Moves::all_reduces() {
  for (std::uint32_t subset = s_.pending; subset != 0; subset = (subset - 1) & s_.pending) {
    AxisList axes;
    for (std::uint32_t rest = subset; rest != 0; rest &= rest - 1)
      axes.push(std::countr_zero(rest));
    State after = s_;
    after.pending &= ~subset;
    add(StepKind::all_reduce, axes, after, all_reduce_bytes(states_.ranks(axes), local_bytes_));
  }
}

void Moves::reduce_scatters() {
  State s = s_;
  AxisList placed;
  place(s, s_.pending, placed, 0,
        [&](State after, const AxisList& axes, std::uint32_t left, std::size_t, std::int16_t) {
          after.pending = left;
          add(StepKind::reduce_scatter, axes, after,
              reduce_scatter_bytes(states_.ranks(axes), states_.local_bytes(after)));
          return true;
        });
}

void Moves::all_gathers() {
  State s = s_;
  AxisList taken;
  take_away(s, taken, 0, [&](const State& after, const AxisList& axes) {
    add(StepKind::all_gather, axes, after, all_gather_bytes(states_.ranks(axes), local_bytes_));
  });
}

void Moves::exchanges() {
  State s = s_;
  AxisList taken;
  take_away(s, taken, 0, [&](const State& rest, const AxisList& axes) {
    std::uint32_t bits = 0;
    for (int axis : axes) bits |= 1U << axis;
    State target = rest;
    AxisList placed;
    place(target, bits, placed, 0,
          [&](const State& after, const AxisList&, std::uint32_t left, std::size_t d,
              std::int16_t above) {
            // An axis that comes back to its place was not worth taking.
            const DimSplit& old = states_.cut(s_, d);
            if (above == rest.cuts[d] && old.axes.size() > states_.cut(rest, d).axes.size()) {
              const DimSplit& now = states_.cut(after, d);
              const bool same_style = now.style == old.style;
              if (same_style && old.axes[now.depth() - 1] == now.axes.back()) return false;
            }
            if (left == 0 && filter_(after, 0)) add_exchange(StepKind::all_to_all, axes, after);
            return true;
          });
  });
}

/// Axes of equal size exchange places, at least one of them R. (Without an R axis it is an
/// exchange.)
void Moves::permutes() {
  const std::uint32_t whole = states_.whole_axes(s_);
  if (whole == 0) return;
  std::vector<std::size_t> image(states_.axes().size());
  std::iota(image.begin(), image.end(), 0);
  while (std::next_permutation(image.begin(), image.end())) permute(image, whole);
}

void Moves::permute(const std::vector<std::size_t>& image, std::uint32_t whole) {
  const std::vector<int>& axes = states_.axes();
  std::array<int, 32> becomes;
  std::iota(becomes.begin(), becomes.end(), 0);
  AxisList moved;
  bool has_whole = false;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (image[i] == i) continue;
    const int from = axes[i];
    const int to = axes[image[i]];
    if (states_.mesh()->size(from) != states_.mesh()->size(to)) return;
    if ((s_.pending >> from & 1U) != 0) return;
    const bool from_whole = (whole >> from & 1U) != 0;
    if (from_whole && (whole >> to & 1U) != 0) return;  // a smaller permutation does the same
    has_whole |= from_whole;
    becomes[static_cast<std::size_t>(from)] = to;
    moved.push(from);
  }
  if (!has_whole) return;
  State after = s_;
  for (std::size_t d = 0; d < dims_; ++d) {
    const DimSplit cut = states_.cut(s_, d);
    after.cuts[d] = 0;
    for (int axis : cut.axes) {
      after.cuts[d] =
          states_.append(d, after.cuts[d], becomes[static_cast<std::size_t>(axis)], cut.style);
    }
  }
  if (!after.same_layout(s_)) add_exchange(StepKind::permute, moved, after);
}

}  // namespace hyper_parallel::plan
