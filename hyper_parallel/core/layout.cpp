#include "hyper_parallel/core/layout.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/hash.h"

namespace hyper_parallel {
namespace {

struct LayoutTable {
  std::mutex mutex;
  std::unordered_multimap<std::size_t, std::unique_ptr<const Layout>> layouts;
};

LayoutTable& layout_table() {
  static LayoutTable* const instance = new LayoutTable;  // never destroyed: tensors point into it
  return *instance;
}

[[noreturn]] void throw_axis_twice(const Mesh* mesh, int axis) {
  throw UsageError(Message("HP-L002", "mesh axis \"" + mesh->name(axis) + "\" is used twice")
                       .fact("mesh", mesh->to_string())
                       .hint("an axis can cut one tensor dim only"));
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

Layout::Layout(const Mesh* mesh, std::vector<Split> splits, std::vector<Placement> placements)
    : mesh_(mesh), splits_(std::move(splits)), placements_(std::move(placements)) {
  std::size_t h = mesh->hash();
  for (const Placement& p : placements_) {
    has_partial_ |= p.is_partial();
    hash_combine(h, static_cast<std::size_t>(p.kind()) * 1000 + static_cast<std::size_t>(p.op()));
  }
  for (const Split& s : splits_) {
    hash_combine(h, static_cast<std::size_t>(s.dim) + 77);
    for (int axis : s.axes) hash_combine(h, static_cast<std::size_t>(axis));
    hash_combine(h, static_cast<std::size_t>(s.block));
    for (std::int64_t v : s.segments) hash_combine(h, static_cast<std::size_t>(v) + 13);
  }
  hash_ = h;
}

const Layout* Layout::get(const Mesh* mesh, std::vector<Split> splits,
                          const std::vector<std::optional<ReduceOp>>& partials) {
  if (!partials.empty() && static_cast<int>(partials.size()) != mesh->ndim()) {
    throw UsageError(Message("HP-L003", "a layout needs one placement an axis")
                         .fact("mesh", mesh->to_string())
                         .fact("given", std::to_string(partials.size())));
  }
  std::sort(splits.begin(), splits.end(),
            [](const Split& a, const Split& b) { return a.dim < b.dim; });
  std::vector<Placement> placements(static_cast<std::size_t>(mesh->ndim()), Placement::replicate());
  std::vector<char> used(placements.size(), 0);
  std::vector<Split> kept;
  for (Split& s : splits) {
    if (s.dim < 0 || (!kept.empty() && kept.back().dim == s.dim)) {
      throw UsageError(Message("HP-L004", "tensor dim " + std::to_string(s.dim) +
                                              " is negative or listed twice in a layout"));
    }
    std::vector<int> axes;
    for (int axis : s.axes) {
      if (axis < 0 || axis >= mesh->ndim()) {
        throw UsageError(Message("HP-M010", "no mesh axis number " + std::to_string(axis))
                             .fact("mesh", mesh->to_string()));
      }
      if (used[static_cast<std::size_t>(axis)] != 0) throw_axis_twice(mesh, axis);
      used[static_cast<std::size_t>(axis)] = 1;
      if (mesh->size(axis) == 1) continue;
      axes.push_back(axis);
      placements[static_cast<std::size_t>(axis)] = Placement::shard(s.dim);
    }
    if (axes.empty()) continue;
    s.axes = std::move(axes);
    s.block = std::max<std::int64_t>(s.block, 1);
    if (std::any_of(s.segments.begin(), s.segments.end(), [](auto size) { return size < 0; })) {
      throw UsageError(
          Message("HP-L007", "a segment of dim " + std::to_string(s.dim) + " has a negative size"));
    }
    if (s.segments.size() == 1) s.segments.clear();
    kept.push_back(std::move(s));
  }
  for (std::size_t i = 0; i < partials.size(); ++i) {
    if (partials[i] && used[i] == 0 && mesh->size(static_cast<int>(i)) > 1) {
      placements[i] = Placement::partial(*partials[i]);
    }
  }
  std::unique_ptr<const Layout> layout(new Layout(mesh, std::move(kept), std::move(placements)));
  LayoutTable& t = layout_table();
  std::lock_guard<std::mutex> lock(t.mutex);
  auto [begin, end] = t.layouts.equal_range(layout->hash());
  for (auto it = begin; it != end; ++it) {
    const Layout& l = *it->second;
    if (l.mesh_ == mesh && l.placements_ == layout->placements_ && l.splits_ == layout->splits_) {
      return &l;
    }
  }
  const std::size_t key = layout->hash();
  return t.layouts.emplace(key, std::move(layout))->second.get();
}

const Layout* Layout::replicated(const Mesh* mesh) { return get(mesh, std::vector<Split>{}); }

const Layout* Layout::get(const Mesh* mesh, std::span<const Placement> placements) {
  if (static_cast<int>(placements.size()) != mesh->ndim()) {
    throw UsageError(Message("HP-L003", "a layout needs one placement an axis")
                         .fact("mesh", mesh->to_string())
                         .fact("given", std::to_string(placements.size())));
  }
  std::vector<Split> splits;
  std::vector<std::optional<ReduceOp>> partials(placements.size());
  for (int axis = 0; axis < mesh->ndim(); ++axis) {
    const Placement p = placements[static_cast<std::size_t>(axis)];
    if (p.is_partial()) partials[static_cast<std::size_t>(axis)] = p.op();
    if (!p.is_shard()) continue;
    auto it = std::find_if(splits.begin(), splits.end(),
                           [&](const Split& s) { return s.dim == p.dim(); });
    if (it == splits.end()) it = splits.insert(it, Split{.dim = p.dim()});
    it->axes.push_back(axis);
  }
  return get(mesh, std::move(splits), partials);
}

const Layout* Layout::from_names(const Mesh* mesh,
                                 const std::vector<std::vector<std::string>>& dims) {
  std::vector<Split> splits;
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    Split split{.dim = static_cast<int>(dim)};
    for (const std::string& name : dims[dim]) {
      if (name != "None") split.axes.push_back(mesh->axis(name));
    }
    if (!split.axes.empty()) splits.push_back(std::move(split));
  }
  return get(mesh, std::move(splits));
}

const Split* Layout::split(int dim) const {
  for (const Split& s : splits_) {
    if (s.dim == dim) return &s;
  }
  return nullptr;
}

const std::vector<int>& Layout::axes(int dim) const {
  static const std::vector<int> kNone;
  const Split* s = split(dim);
  return s == nullptr ? kNone : s->axes;
}

int Layout::replicas() const {
  int out = 1;
  for (int axis = 0; axis < mesh_->ndim(); ++axis) {
    if (placement(axis).is_replicate()) out *= mesh_->size(axis);
  }
  return out;
}

const Layout* Layout::with(int axis, Placement p) const {
  std::vector<Split> splits;
  for (const Split& s : splits_) {
    Split copy = s;
    std::erase(copy.axes, axis);
    if (!copy.axes.empty()) splits.push_back(std::move(copy));
  }
  std::vector<std::optional<ReduceOp>> partials(placements_.size());
  for (std::size_t i = 0; i < placements_.size(); ++i) {
    if (placements_[i].is_partial()) partials[i] = placements_[i].op();
  }
  partials[static_cast<std::size_t>(axis)] = std::nullopt;
  if (p.is_partial()) partials[static_cast<std::size_t>(axis)] = p.op();
  if (p.is_shard()) {
    auto it = std::find_if(splits.begin(), splits.end(),
                           [&](const Split& s) { return s.dim == p.dim(); });
    if (it == splits.end()) it = splits.insert(it, Split{.dim = p.dim()});
    it->axes.push_back(axis);
  }
  return get(mesh_, std::move(splits), partials);
}

const Layout* Layout::dual() const {
  std::vector<std::optional<ReduceOp>> partials(placements_.size());
  for (std::size_t i = 0; i < placements_.size(); ++i) {
    const Placement p = placements_[i];
    if (p.is_replicate()) partials[i] = ReduceOp::sum;
    if (p.is_partial() && p.op() != ReduceOp::sum && p.op() != ReduceOp::avg) {
      throw UnsupportedError(
          Message("HP-G001", hyper_parallel::to_string(p) + " does not cross autograd")
              .fact("layout", to_string())
              .hint("reduce_partial() before the value needs a gradient"));
    }
  }
  return get(mesh_, splits_, partials);
}

const Layout* Layout::reduced() const { return has_partial_ ? get(mesh_, splits_) : this; }

std::string Layout::to_string() const {
  std::vector<std::string> parts;
  for (int axis = 0; axis < mesh_->ndim(); ++axis) {
    const Placement p = placement(axis);
    if (!p.is_shard()) {
      parts.push_back(hyper_parallel::to_string(p));
      continue;
    }
    const Split& s = *split(p.dim());
    std::string text = "S(" + std::to_string(p.dim());
    const auto place = std::find(s.axes.begin(), s.axes.end(), axis) - s.axes.begin();
    if (!std::is_sorted(s.axes.begin(), s.axes.end())) text += ", " + std::to_string(place);
    if (place == 0 && s.block > 1) text += "; block=" + std::to_string(s.block);
    if (place == 0 && !s.segments.empty()) {
      std::vector<std::string> sizes;
      for (std::int64_t v : s.segments) sizes.push_back(std::to_string(v));
      text += "; segments=" + join(sizes, "|");
    }
    parts.push_back(text + ")");
  }
  return join(parts, " ");
}

std::vector<Placement> normalize(const Mesh* mesh, std::span<const Placement> placements,
                                 int ndim) {
  if (static_cast<int>(placements.size()) != mesh->ndim()) {
    throw UsageError(Message("HP-L003", "a layout needs one placement an axis")
                         .fact("mesh", mesh->to_string())
                         .fact("given", std::to_string(placements.size())));
  }
  std::vector<Placement> out(placements.begin(), placements.end());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!out[i].is_shard()) continue;
    const int dim = out[i].dim() < 0 ? out[i].dim() + ndim : out[i].dim();
    if (dim < 0 || dim >= ndim) {
      throw UsageError(Message("HP-L005", "shard dim " + std::to_string(out[i].dim()) +
                                              " is out of range for a tensor of " +
                                              std::to_string(ndim) + " dims")
                           .fact("axis", mesh->name(static_cast<int>(i)))
                           .fact("mesh", mesh->to_string()));
    }
    out[i] = Placement::shard(dim);
  }
  return out;
}

std::vector<Interval> local_intervals(const Layout* layout, int dim, std::int64_t size,
                                      std::span<const int> coordinate) {
  const Split* split = layout->split(dim);
  if (split == nullptr) return {Interval{0, size}};
  return local_intervals(*split, layout->mesh(), size, coordinate);
}

std::vector<Interval> local_intervals(const Split& split, const Mesh* mesh, std::int64_t size,
                                      std::span<const int> coordinate) {
  std::vector<Interval> out;
  std::int64_t start = 0;
  const auto cut = [&](std::int64_t length) {
    // Lengths are counted in blocks; the last block may be short.
    std::int64_t begin = 0;
    std::int64_t end = ceil_div(length, split.block);
    for (int axis : split.axes) {
      const std::int64_t chunk = ceil_div(end - begin, mesh->size(axis));
      const std::int64_t index = coordinate[static_cast<std::size_t>(axis)];
      const std::int64_t from = std::min(begin + index * chunk, end);
      end = std::min(from + chunk, end);
      begin = from;
    }
    out.push_back({start + std::min(begin * split.block, length),
                   start + std::min(end * split.block, length)});
    start += length;
  };
  if (split.segments.empty()) {
    cut(size);
    return out;
  }
  for (std::int64_t segment : split.segments) cut(segment);
  if (start != size) {
    std::vector<std::string> sizes;
    for (std::int64_t segment : split.segments) sizes.push_back(std::to_string(segment));
    throw UsageError(Message("HP-L006", "the segments of dim " + std::to_string(split.dim) +
                                            " do not sum to its size")
                         .fact("segments", join(sizes))
                         .fact("size", std::to_string(size)));
  }
  return out;
}

std::int64_t local_size(const Layout* layout, int dim, std::int64_t size,
                        std::span<const int> coordinate) {
  if (layout->split(dim) == nullptr) return size;
  std::int64_t out = 0;
  for (const Interval& i : local_intervals(layout, dim, size, coordinate)) out += i.size();
  return out;
}

Shape local_shape(const Layout* layout, std::span<const std::int64_t> sizes,
                  std::span<const int> coordinate) {
  Shape out(sizes.begin(), sizes.end());
  for (const Split& s : layout->splits()) {
    const auto dim = static_cast<std::size_t>(s.dim);
    if (dim >= out.size()) {
      throw UsageError(Message("HP-L005", "shard dim " + std::to_string(s.dim) +
                                              " is out of range for a tensor of " +
                                              std::to_string(out.size()) + " dims")
                           .fact("layout", layout->to_string()));
    }
    out[dim] = local_size(layout, s.dim, out[dim], coordinate);
  }
  return out;
}

bool is_even(const Layout* layout, int dim, std::int64_t size) {
  const Split* split = layout->split(dim);
  if (split == nullptr) return true;
  std::int64_t ways = split->block;
  for (int axis : split->axes) ways *= layout->mesh()->size(axis);
  if (split->segments.empty()) return size % ways == 0;
  return std::all_of(split->segments.begin(), split->segments.end(),
                     [&](std::int64_t s) { return s % ways == 0; });
}

void Layout::check_dims(std::int64_t ndim) const {
  if (max_dim() < ndim) return;
  throw UsageError(Message("HP-L005", "shard dim " + std::to_string(max_dim()) +
                                          " is out of range for a tensor of " +
                                          std::to_string(ndim) + " dims")
                       .fact("layout", mesh_->to_string() + ": " + to_string()));
}

std::int64_t product(std::span<const std::int64_t> sizes) {
  std::int64_t out = 1;
  for (std::int64_t s : sizes) out *= s;
  return out;
}

}  // namespace hyper_parallel
