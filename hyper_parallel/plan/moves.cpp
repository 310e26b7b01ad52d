#include <algorithm>
#include <functional>
#include <numeric>

#include "hyper_parallel/plan/cost.h"
#include "hyper_parallel/plan/moves_internal.h"

namespace hyper_parallel::plan {
namespace {

/// The axes and style of each dim, open for change.
struct Draft {
  std::vector<std::vector<int>> axes;
  std::vector<int> styles;
};

class Moves {
 public:
  Moves(Space& space, const State& s)
      : space_(space), s_(s), dims_(space.dims().size()), local_bytes_(space.local_bytes(s)) {
    for (std::size_t i = 0; i < dims_; ++i) {
      draft_.axes.push_back(space.cut(s, i).axes);
      draft_.styles.push_back(space.cut(s, i).style);
    }
  }

  std::vector<Move> all() {
    reduce_scatters();
    all_reduces();
    exchanges();
    permutes();
    all_gathers();
    cuts();
    return std::move(out_);
  }

 private:
  using Emit = std::function<void(const Draft&, const std::vector<int>& placed)>;

  /// Append axes of `left`, one after the other, to `draft` in all ways, dims ascending. Calls
  /// `emit` each time (`whole`: only when none are left).
  void place(Draft& draft, std::vector<int> left, std::vector<int>& placed, std::size_t first_dim,
             bool whole, const Emit& emit) {
    if (!placed.empty() && (!whole || left.empty())) emit(draft, placed);
    for (std::size_t i = 0; i < left.size(); ++i) {
      std::vector<int> rest = left;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      placed.push_back(left[i]);
      for (std::size_t d = first_dim; d < dims_; ++d) {
        const int style = draft.styles[d];
        const bool was_whole = draft.axes[d].empty();
        draft.axes[d].push_back(left[i]);
        const int styles = was_whole ? static_cast<int>(space_.dims()[d].styles.size()) : 1;
        for (int k = 0; k < styles; ++k) {
          if (was_whole) draft.styles[d] = k;
          place(draft, rest, placed, d, whole, emit);
        }
        draft.axes[d].pop_back();
        draft.styles[d] = style;
      }
      placed.pop_back();
    }
  }

  State state(const Draft& draft) {
    State out = s_;
    for (std::size_t i = 0; i < dims_; ++i) {
      out.cuts[i] = space_.cut(i, draft.axes[i], draft.styles[i]);
    }
    return out;
  }

  /// The tensor dim at which `s` and `t` differ, given that `in` holds for it; -1: none, several.
  template <class Predicate>
  int changed_dim(const State& t, Predicate in) const {
    int out = -1;
    for (std::size_t i = 0; i < dims_; ++i) {
      if (s_.cuts[i] == t.cuts[i] || !in(space_.cut(s_, i).axes, space_.cut(t, i).axes)) continue;
      if (out >= 0) return -1;
      out = space_.dims()[i].dim;
    }
    return out;
  }

  void add(StepKind kind, const std::vector<int>& axes, const State& after, double bytes,
           bool free = false) {
    const auto shrinks = [](const auto& a, const auto& b) { return b.size() <= a.size() && !a.empty(); };
    const auto grows = [](const auto& a, const auto& b) { return b.size() >= a.size() && !b.empty(); };
    Move move{.kind = kind, .axes = axes, .free = free, .bytes = bytes, .after = after};
    move.from_dim = changed_dim(after, shrinks);
    move.to_dim = changed_dim(after, grows);
    if (!free) {
      move.seconds =
          step_seconds(kind, space_.ranks(axes), bytes, space_.link(axes), space_.topology());
    }
    out_.push_back(std::move(move));
  }

  void cuts() {
    std::vector<int> placed;
    place(draft_, space_.whole_axes(s_), placed, 0, false,
          [&](const Draft& draft, const std::vector<int>& axes) {
            add(StepKind::cut, axes, state(draft), 0);
          });
  }

  void all_reduces() {
    const std::vector<int> pending = space_.pending_axes(s_);
    for (unsigned subset = (1U << pending.size()) - 1; subset > 0; --subset) {
      std::vector<int> axes;
      State after = s_;
      for (std::size_t i = 0; i < pending.size(); ++i) {
        if ((subset >> i & 1U) == 0) continue;
        axes.push_back(pending[i]);
        after.pending &= ~(1U << pending[i]);
      }
      add(StepKind::all_reduce, axes, after, all_reduce_bytes(space_.ranks(axes), local_bytes_));
    }
  }

  void reduce_scatters() {
    std::vector<int> placed;
    place(draft_, space_.pending_axes(s_), placed, 0, false,
          [&](const Draft& draft, const std::vector<int>& axes) {
            State after = state(draft);
            for (int axis : axes) after.pending &= ~(1U << axis);
            add(StepKind::reduce_scatter, axes, after,
                reduce_scatter_bytes(space_.ranks(axes), space_.local_bytes(after)));
          });
  }

  /// Calls `f` with each choice of minor axes to take away: the draft without them, and them.
  void take_away(std::size_t dim, Draft& draft, std::vector<int>& taken, const Emit& f) {
    if (dim == dims_) {
      if (!taken.empty()) f(draft, taken);
      return;
    }
    const std::vector<int> axes = draft.axes[dim];
    const std::size_t before = taken.size();
    for (std::size_t keep = axes.size() + 1; keep-- > space_.dims()[dim].fixed;) {
      const auto kept = axes.begin() + static_cast<std::ptrdiff_t>(keep);
      taken.insert(taken.end(), kept, axes.end());
      draft.axes[dim].assign(axes.begin(), kept);
      take_away(dim + 1, draft, taken, f);
      taken.resize(before);
    }
    draft.axes[dim] = axes;
  }

  void all_gathers() {
    std::vector<int> taken;
    Draft draft = draft_;
    take_away(0, draft, taken, [&](const Draft& rest, const std::vector<int>& axes) {
      add(StepKind::all_gather, axes, state(rest),
          all_gather_bytes(space_.ranks(axes), local_bytes_));
    });
  }

  void exchanges() {
    std::vector<int> taken;
    Draft draft = draft_;
    take_away(0, draft, taken, [&](const Draft& rest, const std::vector<int>& axes) {
      Draft target = rest;
      std::vector<int> placed;
      place(target, axes, placed, 0, true, [&](const Draft& end, const std::vector<int>&) {
        // An axis that comes back to its place was not worth taking.
        for (std::size_t d = 0; d < dims_; ++d) {
          const std::size_t kept = rest.axes[d].size();
          if (draft_.axes[d].size() > kept && end.axes[d].size() > kept &&
              draft_.axes[d][kept] == end.axes[d][kept] && draft_.styles[d] == end.styles[d]) {
            return;
          }
        }
        const State after = state(end);
        const Exchange e = space_.exchange(s_, after);
        add(StepKind::all_to_all, axes, after, std::max(e.received_bytes, e.sent_bytes),
            e.identical);
      });
    });
  }

  /// Axes of equal size exchange places, at least one of them R. (Without an R axis it is an
  /// exchange.)
  void permutes() {
    const std::vector<int>& axes = space_.axes();
    const std::vector<int> whole = space_.whole_axes(s_);
    if (whole.empty()) return;
    std::vector<std::size_t> image(axes.size());
    std::iota(image.begin(), image.end(), 0);
    while (std::next_permutation(image.begin(), image.end())) {
      permute(axes, whole, image);
    }
  }

  void permute(const std::vector<int>& axes, const std::vector<int>& whole,
               const std::vector<std::size_t>& image) {
    std::vector<int> moved;
    bool has_whole = false;
    const auto is_whole = [&](int a) { return std::find(whole.begin(), whole.end(), a) != whole.end(); };
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const int to = axes[image[i]];
      if (image[i] == i) continue;
      if (space_.mesh()->size(axes[i]) != space_.mesh()->size(to)) return;
      if ((s_.pending >> axes[i] & 1U) != 0 || is_fixed(axes[i])) return;
      if (is_whole(axes[i]) && is_whole(to)) return;  // a smaller permutation does the same
      has_whole |= is_whole(axes[i]);
      moved.push_back(axes[i]);
    }
    if (!has_whole) return;
    Draft draft = draft_;
    for (std::vector<int>& order : draft.axes) {
      for (int& axis : order) {
        const auto i = std::find(axes.begin(), axes.end(), axis) - axes.begin();
        if (i < static_cast<std::ptrdiff_t>(axes.size())) axis = axes[image[static_cast<std::size_t>(i)]];
      }
    }
    const State after = state(draft);
    if (after == s_) return;
    const Exchange e = space_.exchange(s_, after);
    add(StepKind::permute, moved, after, e.received_bytes == 0 ? 0 : local_bytes_, e.identical);
  }

  bool is_fixed(int axis) const {
    for (std::size_t d = 0; d < dims_; ++d) {
      const std::vector<int>& order = draft_.axes[d];
      const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(order.size(), space_.dims()[d].fixed));
      if (std::find(order.begin(), end, axis) != end) return true;
    }
    return false;
  }

  Space& space_;
  const State& s_;
  std::size_t dims_;
  double local_bytes_;
  Draft draft_;
  std::vector<Move> out_;
};

}  // namespace

std::vector<Move> moves(Space& space, const State& s) { return Moves(space, s).all(); }

}  // namespace hyper_parallel::plan
