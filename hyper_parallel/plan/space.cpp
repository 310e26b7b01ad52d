#include <algorithm>

#include "hyper_parallel/plan/space_internal.h"

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
    out += std::max<std::int64_t>(0, std::min(a[i].end, b[k].end) - std::max(a[i].begin, b[k].begin));
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

struct Space::Sums {
  std::int64_t ranks = 0;
  std::int64_t before = 0;            // elements held, all ranks together
  std::int64_t after = 0;
  std::int64_t largest_after = 0;     // of one rank
  std::int64_t largest_received = 0;  // after, less what it had
  std::int64_t largest_sent = 0;      // before, less what it keeps
  bool same_shapes = true;
};

Space::Space(const Layout* from, const Layout* to, const TensorMeta& meta,
             const Topology& topology)
    : mesh_(from->mesh()), from_(from), topology_(topology) {
  unit_bytes_ = bytes_of(meta.dtype);
  std::uint32_t takes_part = 0;
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
    if (a != nullptr) dim.styles.push_back({d, {}, a->block, a->segments});
    if (b != nullptr && (a == nullptr || !same_style(*a, *b))) {
      dim.styles.push_back({d, {}, b->block, b->segments});
    }
    if (a != nullptr && b != nullptr && dim.styles.size() == 1) {
      const auto ends = std::mismatch(a->axes.begin(), a->axes.end(), b->axes.begin(), b->axes.end());
      dim.fixed = static_cast<std::size_t>(ends.first - a->axes.begin());
    }
    for (const Split* s : {a, b}) {
      if (s == nullptr) continue;
      for (std::size_t i = dim.fixed; i < s->axes.size(); ++i) takes_part |= 1U << s->axes[i];
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
  }
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    const Split* a = from->split(dims_[i].dim);
    const Split* b = to->split(dims_[i].dim);
    const int last = static_cast<int>(dims_[i].styles.size()) - 1;
    start_.cuts.push_back(cut(i, a == nullptr ? std::vector<int>{} : a->axes, 0));
    goal_.cuts.push_back(cut(i, b == nullptr ? std::vector<int>{} : b->axes, last));
  }
}

const Cut& Space::cut(const State& s, std::size_t dim) const {
  return dims_[dim].cuts[static_cast<std::size_t>(s.cuts[dim])];
}

std::int16_t Space::cut(std::size_t index, const std::vector<int>& axes, int style) {
  Dim& dim = dims_[index];
  if (axes.empty()) style = 0;
  for (std::size_t i = 0; i < dim.cuts.size(); ++i) {
    if (dim.cuts[i].style == style && dim.cuts[i].axes == axes) return static_cast<std::int16_t>(i);
  }
  Cut cut{.axes = axes, .style = style};
  fill_pieces(dim, cut);
  dim.cuts.push_back(std::move(cut));
  return static_cast<std::int16_t>(dim.cuts.size() - 1);
}

void Space::fill_pieces(Dim& dim, Cut& cut) const {
  if (cut.axes.empty()) {
    cut.pieces = {{0, dim.size}};
    cut.largest = dim.size;
    return;
  }
  Split split = dim.styles[static_cast<std::size_t>(cut.style)];
  split.axes = cut.axes;
  cut.parts = std::max<std::size_t>(1, split.segments.size());
  Counter counter(mesh_, cut.axes);
  do {
    const std::vector<Interval> piece = local_intervals(split, mesh_, dim.size, counter.at());
    cut.largest = std::max(cut.largest, length(piece.data(), piece.size()));
    cut.pieces.insert(cut.pieces.end(), piece.begin(), piece.end());
  } while (counter.next());
}

Space::Sums Space::sums(const State& before, const State& after) {
  std::vector<int> axes = axes_;
  for (const Dim& dim : dims_) {
    axes.insert(axes.end(), dim.cuts[0].axes.begin(),
                dim.cuts[0].axes.begin() + static_cast<std::ptrdiff_t>(dim.fixed));
  }
  Sums out;
  Counter counter(mesh_, std::move(axes));
  do {
    std::int64_t held = 1;
    std::int64_t wanted = 1;
    std::int64_t kept = 1;
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      const Cut& a = cut(before, i);
      const Cut& b = cut(after, i);
      const Interval* from = &a.pieces[counter.place(a.axes) * a.parts];
      const Interval* to = &b.pieces[counter.place(b.axes) * b.parts];
      const std::int64_t length_from = length(from, a.parts);
      const std::int64_t length_to = length(to, b.parts);
      held *= length_from;
      wanted *= length_to;
      kept *= shared(from, a.parts, to, b.parts);
      out.same_shapes &= length_from == length_to;
    }
    ++out.ranks;
    out.before += held;
    out.after += wanted;
    out.largest_after = std::max(out.largest_after, wanted);
    out.largest_received = std::max(out.largest_received, wanted - kept);
    out.largest_sent = std::max(out.largest_sent, held - kept);
  } while (counter.next());
  return out;
}

double Space::local_bytes(const State& s) const {
  double out = unit_bytes_;
  for (std::size_t i = 0; i < dims_.size(); ++i) out *= static_cast<double>(cut(s, i).largest);
  return out;
}

Exchange Space::exchange(const State& before, const State& after) {
  const Sums all = sums(before, after);
  return {unit_bytes_ * static_cast<double>(all.largest_received),
          unit_bytes_ * static_cast<double>(all.largest_sent),
          all.largest_received == 0 && all.largest_sent == 0 && all.same_shapes};
}

double Space::needed_bytes(const State& s) {
  const Sums all = sums(s, goal_);
  // While partial, every value must still be combined with another rank's.
  return unit_bytes_ * static_cast<double>(s.pending != 0 ? all.largest_after : all.largest_received);
}

double Space::lower_bound() {
  const Sums all = sums(start_, goal_);
  const double needed = needed_bytes(start_);
  if (start_.pending == 0) return needed;
  // A value of k partials that m ranks want takes k - 1 messages to combine and m - 1 to spread.
  const int partials = ranks(pending_axes(start_));
  const int copies = partials * ranks(whole_axes(start_));
  const double elements = static_cast<double>(all.before) / copies;
  const double messages = elements * (partials - 2) + static_cast<double>(all.after);
  return std::max(needed, unit_bytes_ * messages / static_cast<double>(all.ranks));
}

const Layout* Space::layout(const State& s) const {
  std::vector<Split> splits;
  for (const Split& split : from_->splits()) {
    const bool fixed = std::none_of(dims_.begin(), dims_.end(),
                                    [&](const Dim& d) { return d.dim == split.dim; });
    if (fixed) splits.push_back(split);
  }
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    const Cut& c = cut(s, i);
    if (c.axes.empty()) continue;
    splits.push_back(dims_[i].styles[static_cast<std::size_t>(c.style)]);
    splits.back().axes = c.axes;
  }
  std::vector<std::optional<ReduceOp>> partials(static_cast<std::size_t>(mesh_->ndim()));
  for (int axis = 0; axis < mesh_->ndim(); ++axis) {
    const bool moves = std::find(axes_.begin(), axes_.end(), axis) != axes_.end();
    const bool pending = moves ? (s.pending >> axis & 1U) != 0 : from_->placement(axis).is_partial();
    if (pending) partials[static_cast<std::size_t>(axis)] = from_->placement(axis).op();
  }
  return Layout::get(mesh_, std::move(splits), partials);
}

int Space::ranks(const std::vector<int>& axes) const {
  int out = 1;
  for (int axis : axes) out *= mesh_->size(axis);
  return out;
}

const Link& Space::link(const std::vector<int>& axes) {
  if (topology_.ranks_per_host == 0) return topology_.inside_host;
  const Link*& link = links_[axes];
  if (link == nullptr) link = &plan::link(topology_, mesh_, axes);
  return *link;
}

std::vector<int> Space::pending_axes(const State& s) const {
  std::vector<int> out;
  for (int axis : axes_) {
    if ((s.pending >> axis & 1U) != 0) out.push_back(axis);
  }
  return out;
}

std::vector<int> Space::whole_axes(const State& s) const {
  std::uint32_t used = s.pending;
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    for (int axis : cut(s, i).axes) used |= 1U << axis;
  }
  std::vector<int> out;
  for (int axis : axes_) {
    if ((used >> axis & 1U) == 0) out.push_back(axis);
  }
  return out;
}

}  // namespace hyper_parallel::plan
