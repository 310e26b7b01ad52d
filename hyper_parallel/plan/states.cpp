#include "hyper_parallel/plan/states_internal.h"

#include <algorithm>

namespace hyper_parallel::plan {
namespace {

bool same_style(const Split& a, const Split& b) {
  return a.block == b.block && a.segments == b.segments;
}

std::int64_t length(const Interval* pieces, std::size_t parts) {
  std::int64_t out = 0;
  for (std::size_t i = 0; i < parts; ++i) out += pieces[i].size();
  return out;
}

/// Length of what two ascending lists share.
std::int64_t shared(const Interval* a, std::size_t parts_a, const Interval* b,
                    std::size_t parts_b) {
  std::int64_t out = 0;
  for (std::size_t i = 0, k = 0; i < parts_a && k < parts_b;) {
    out +=
        std::max<std::int64_t>(0, std::min(a[i].end, b[k].end) - std::max(a[i].begin, b[k].begin));
    if (a[i].end < b[k].end) {
      ++i;
    } else {
      ++k;
    }
  }
  return out;
}

/// Steps through all coordinates over some axes, in row-major order.
class Counter {
 public:
  Counter(const Mesh* mesh, std::vector<int> axes)
      : mesh_(mesh), axes_(std::move(axes)), at_(static_cast<std::size_t>(mesh->ndim()), 0) {}

  const std::vector<int>& at() const { return at_; }
  bool next() {
    for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
      int& value = at_[static_cast<std::size_t>(*axis)];
      if (++value < mesh_->size(*axis)) return true;
      value = 0;
    }
    return false;
  }
  /// The row-major number of the coordinate over `axes`.
  std::size_t place(const std::vector<int>& axes) const {
    std::size_t out = 0;
    for (int axis : axes) {
      out = out * static_cast<std::size_t>(mesh_->size(axis)) +
            static_cast<std::size_t>(at_[static_cast<std::size_t>(axis)]);
    }
    return out;
  }

 private:
  const Mesh* mesh_;
  std::vector<int> axes_;
  std::vector<int> at_;
};

}  // namespace

struct States::Sums {
  double ranks = 0;
  double before = 0;  // elements held, all ranks together
  double after = 0;
  double largest_after = 0;     // of one rank
  double largest_received = 0;  // after, less what it had
  double largest_sent = 0;      // before, less what it keeps
  bool same_shapes = true;
};

States::States(const Layout* from, const Layout* to, const TensorMeta& meta,
               const Topology& topology)
    : mesh_(from->mesh()), from_(from), topology_(topology) {
  unit_bytes_ = bytes_of(meta.dtype);
  std::uint32_t takes_part = 0;
  std::uint32_t fixed = 0;
  for (int d = 0; d < static_cast<int>(meta.sizes.size()); ++d) {
    const Split* a = from->split(d);
    const Split* b = to->split(d);
    const std::int64_t size = meta.sizes[static_cast<std::size_t>(d)];
    if (a == b || (a != nullptr && b != nullptr && *a == *b)) {
      const std::vector<int> first(static_cast<std::size_t>(mesh_->ndim()), 0);
      unit_bytes_ *= static_cast<double>(local_size(from, d, size, first));
      continue;
    }
    Dim dim{.dim = d, .size = size};
    dim.cuts.push_back({.largest = size, .pieces = {{0, size}}});
    if (a != nullptr) dim.styles.push_back({d, {}, a->block, a->segments});
    if (b != nullptr && (a == nullptr || !same_style(*a, *b))) {
      dim.styles.push_back({d, {}, b->block, b->segments});
    }
    if (a != nullptr && b != nullptr && dim.styles.size() == 1) {
      const auto ends =
          std::mismatch(a->axes.begin(), a->axes.end(), b->axes.begin(), b->axes.end());
      dim.fixed = static_cast<std::size_t>(ends.first - a->axes.begin());
    }
    for (const Split* s : {a, b}) {
      if (s == nullptr) continue;
      for (std::size_t i = 0; i < s->axes.size(); ++i) {
        (i < dim.fixed ? fixed : takes_part) |= 1U << s->axes[i];
      }
    }
    dims_.push_back(std::move(dim));
  }
  for (int axis = 0; axis < mesh_->ndim(); ++axis) {
    const Placement p = from->placement(axis);
    if (p.is_partial() && p != to->placement(axis)) {
      takes_part |= 1U << axis;
      start_.pending |= 1U << axis;
      op_ = p.op();
    }
    if ((takes_part >> axis & 1U) != 0) axes_.push_back(axis);
    if (((takes_part | fixed) >> axis & 1U) != 0) rank_axes_.push_back(axis);
  }
  if (!fits()) return;
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    const Split* a = from->split(dims_[i].dim);
    const Split* b = to->split(dims_[i].dim);
    const int last = static_cast<int>(dims_[i].styles.size()) - 1;
    if (a != nullptr) {
      for (int axis : a->axes) start_.cuts[i] = append(i, start_.cuts[i], axis, 0);
    }
    if (b != nullptr) {
      for (int axis : b->axes) goal_.cuts[i] = append(i, goal_.cuts[i], axis, last);
    }
  }
}

std::int16_t States::append(std::size_t index, std::int16_t parent, int axis, int style) {
  Dim& dim = dims_[index];
  const auto axes = static_cast<std::size_t>(mesh_->ndim());
  {
    DimSplit& above = dim.cuts[static_cast<std::size_t>(parent)];
    if (parent != 0) style = above.style;
    if (above.children.empty()) above.children.resize(axes * dim.styles.size(), -1);
    const std::int16_t known =
        above.children[static_cast<std::size_t>(style) * axes + static_cast<std::size_t>(axis)];
    if (known >= 0) return known;
  }
  const auto id = static_cast<std::int16_t>(dim.cuts.size());
  DimSplit cut{.axes = dim.cuts[static_cast<std::size_t>(parent)].axes,
               .parent = parent,
               .style = static_cast<std::int16_t>(style)};
  cut.axes.push_back(axis);
  Split split = dim.styles[static_cast<std::size_t>(style)];
  split.axes = cut.axes;
  cut.parts = std::max<std::size_t>(1, split.segments.size());
  std::int64_t ways = split.block;
  for (int a : cut.axes) ways *= mesh_->size(a);
  for (std::int64_t part : split.segments) cut.even &= part % ways == 0;
  if (split.segments.empty()) cut.even = dim.size % ways == 0;
  const std::vector<int> first(axes, 0);
  for (const Interval& i : local_intervals(split, mesh_, dim.size, first)) cut.largest += i.size();
  dim.cuts.push_back(std::move(cut));
  dim.cuts[static_cast<std::size_t>(parent)]
      .children[static_cast<std::size_t>(style) * axes + static_cast<std::size_t>(axis)] = id;
  return id;
}

void States::fill_pieces(const Dim& dim, DimSplit& cut) const {
  Split split = dim.styles[static_cast<std::size_t>(cut.style)];
  split.axes = cut.axes;
  Counter counter(mesh_, cut.axes);
  do {
    const std::vector<Interval> piece = local_intervals(split, mesh_, dim.size, counter.at());
    cut.pieces.insert(cut.pieces.end(), piece.begin(), piece.end());
  } while (counter.next());
}

/// The sums where all pieces are equally long: on each dim, either one cut continues the other, and
/// every rank keeps the smaller piece, or some rank keeps nothing.
bool States::even_sums(const State& before, const State& after, Sums& out) const {
  double held = 1;
  double wanted = 1;
  double kept = 1;
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    const DimSplit& a = cut(before, i);
    const DimSplit& b = cut(after, i);
    const bool both = !a.axes.empty() && !b.axes.empty();
    if (!a.even || !b.even || (both && a.style != b.style)) return false;
    held *= static_cast<double>(a.largest);
    wanted *= static_cast<double>(b.largest);
    const auto [end_a, end_b] =
        std::mismatch(a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end());
    const bool nested = end_a == a.axes.end() || end_b == b.axes.end();
    kept *= nested ? static_cast<double>(std::min(a.largest, b.largest)) : 0.0;
    out.same_shapes &= a.largest == b.largest;
  }
  out.ranks = 1;
  for (int axis : rank_axes_) out.ranks *= mesh_->size(axis);
  out.before = held * out.ranks;
  out.after = wanted * out.ranks;
  out.largest_after = wanted;
  out.largest_received = wanted - kept;
  out.largest_sent = held - kept;
  return true;
}

States::Sums States::sums(const State& before, const State& after) {
  Sums out;
  if (even_sums(before, after, out)) return out;
  out = {};
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    for (const State* s : {&before, &after}) {
      DimSplit& c = dims_[i].cuts[static_cast<std::size_t>(s->cuts[i])];
      if (c.pieces.empty()) fill_pieces(dims_[i], c);
    }
  }
  Counter counter(mesh_, rank_axes_);
  do {
    std::int64_t held = 1;
    std::int64_t wanted = 1;
    std::int64_t kept = 1;
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      const DimSplit& a = cut(before, i);
      const DimSplit& b = cut(after, i);
      const Interval* from = &a.pieces[counter.place(a.axes) * a.parts];
      const Interval* to = &b.pieces[counter.place(b.axes) * b.parts];
      const std::int64_t length_from = length(from, a.parts);
      const std::int64_t length_to = length(to, b.parts);
      held *= length_from;
      wanted *= length_to;
      kept *= shared(from, a.parts, to, b.parts);
      out.same_shapes &= length_from == length_to;
    }
    out.ranks += 1;
    out.before += static_cast<double>(held);
    out.after += static_cast<double>(wanted);
    out.largest_after = std::max(out.largest_after, static_cast<double>(wanted));
    out.largest_received = std::max(out.largest_received, static_cast<double>(wanted - kept));
    out.largest_sent = std::max(out.largest_sent, static_cast<double>(held - kept));
  } while (counter.next());
  return out;
}

double States::local_bytes(const State& s) const {
  double out = unit_bytes_;
  for (std::size_t i = 0; i < dims_.size(); ++i) out *= static_cast<double>(cut(s, i).largest);
  return out;
}

Exchange States::exchange(const State& before, const State& after) {
  const Sums all = sums(before, after);
  return {unit_bytes_ * all.largest_received, unit_bytes_ * all.largest_sent,
          all.largest_received == 0 && all.largest_sent == 0 && all.same_shapes};
}

double States::needed_bytes(const State& s) {
  const Sums all = sums(s, goal_);
  if (s.pending == 0) {
    // Without copies, what a rank gives away must leave it.
    const double sent = whole_axes(s) == 0 ? all.largest_sent : 0;
    return unit_bytes_ * std::max(all.largest_received, sent);
  }
  // A value of k partials that m ranks want takes k - 1 messages to combine and m - 1 to spread;
  // and every rank must get a message for each value.
  int partials = 1;
  int copies = 1;
  const std::uint32_t whole = whole_axes(s);
  for (int axis : axes_) {
    if ((s.pending >> axis & 1U) != 0) partials *= mesh_->size(axis);
    if ((whole >> axis & 1U) != 0) copies *= mesh_->size(axis);
  }
  const double elements = all.before / partials / copies;
  const double messages = elements * (partials - 2) + all.after;
  return unit_bytes_ * std::max(all.largest_after, messages / all.ranks);
}

const Layout* States::layout(const State& s) const {
  std::vector<Split> splits;
  for (const Split& split : from_->splits()) {
    const bool fixed =
        std::none_of(dims_.begin(), dims_.end(), [&](const Dim& d) { return d.dim == split.dim; });
    if (fixed) splits.push_back(split);
  }
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    const DimSplit& c = cut(s, i);
    if (c.axes.empty()) continue;
    splits.push_back(dims_[i].styles[static_cast<std::size_t>(c.style)]);
    splits.back().axes = c.axes;
  }
  std::vector<std::optional<ReduceOp>> partials(static_cast<std::size_t>(mesh_->ndim()));
  for (int axis = 0; axis < mesh_->ndim(); ++axis) {
    const bool moves = std::find(axes_.begin(), axes_.end(), axis) != axes_.end();
    const bool pending =
        moves ? (s.pending >> axis & 1U) != 0 : from_->placement(axis).is_partial();
    if (pending) partials[static_cast<std::size_t>(axis)] = from_->placement(axis).op();
  }
  return Layout::get(mesh_, std::move(splits), partials);
}

int States::ranks(const AxisList& axes) const {
  int out = 1;
  for (int axis : axes) out *= mesh_->size(axis);
  return out;
}

const Link& States::link(const AxisList& axes) {
  if (topology_.ranks_per_host == 0) return topology_.inside_host;
  std::uint32_t bits = 0;
  for (int axis : axes) bits |= 1U << axis;
  const Link*& link = links_[bits];
  if (link == nullptr) link = &plan::link(topology_, mesh_, {axes.begin(), axes.end()});
  return *link;
}

std::uint32_t States::whole_axes(const State& s) const {
  std::uint32_t used = s.pending;
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    for (int axis : cut(s, i).axes) used |= 1U << axis;
  }
  std::uint32_t out = 0;
  for (int axis : axes_) out |= (1U << axis) & ~used;
  return out;
}

}  // namespace hyper_parallel::plan
