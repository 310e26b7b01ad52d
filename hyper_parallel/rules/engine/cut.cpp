#include "hyper_parallel/rules/engine/cut.h"

#include <algorithm>

namespace hyper_parallel::rules {
namespace {

// Drop a block that does not move a boundary.
Split tidy(Split split, const Mesh* mesh, std::int64_t size) {
  if (split.segments.size() == 1) split.segments.clear();
  if (split.block <= 1) return split;
  const std::int64_t unit = split.block * mesh->size(split.axes);
  const bool even = split.segments.empty()
                        ? size % unit == 0
                        : std::all_of(split.segments.begin(), split.segments.end(),
                                      [&](std::int64_t s) { return s % unit == 0; });
  if (even) split.block = 1;
  return split;
}

// Pieces that hold something, neighbours joined.
std::vector<Interval> joined(const std::vector<Interval>& pieces) {
  std::vector<Interval> out;
  for (const Interval& p : pieces) {
    if (p.size() == 0) continue;
    if (!out.empty() && out.back().end == p.begin) {
      out.back().end = p.end;
    } else {
      out.push_back(p);
    }
  }
  return out;
}

// Calls `visit` with every coordinate that differs along `axes` until it returns false.
template <class Visit>
bool for_all_coordinates(const std::vector<int>& axes, const Mesh* mesh, Visit visit) {
  std::vector<int> coordinate(at(mesh->ndim()), 0);
  while (true) {
    if (!visit(coordinate)) return false;
    std::size_t i = 0;
    for (; i < axes.size(); ++i) {
      int& c = coordinate[at(axes[i])];
      if (++c < mesh->size(axes[i])) break;
      c = 0;
    }
    if (i == axes.size()) return true;
  }
}

}  // namespace

namespace {

int joint_factor(const TensorMap& map, int dim) {
  return map.joint.empty() ? kNoFactor : map.joint[at(dim)];
}

// The segments that make up `part` where none lies across its bounds; else nothing.
std::vector<std::int64_t> segments_of_part(const std::vector<std::int64_t>& segments,
                                           const Interval& part) {
  std::vector<std::int64_t> out;
  std::int64_t begin = 0;
  for (std::int64_t length : segments) {
    const std::int64_t end = begin + length;
    if (length <= 1) return {};
    if (begin < part.end && end > part.begin) {
      if (begin < part.begin || end > part.end) return {};
      out.push_back(length);
    }
    begin = end;
  }
  return out;
}

// The cut of a dim that is a factor with a part: of the operand, which has it all, or the result.
std::optional<Split> compose_part(const Factor& factor, const FactorSplit& cut, int dim,
                                  std::int64_t size) {
  std::vector<std::int64_t> taken = segments_of_part(cut.segments, *factor.part);
  if (cut.block > 1 || taken.empty()) return std::nullopt;
  return Split{
      .dim = dim, .axes = cut.axes, .segments = size == factor.size ? cut.segments : taken};
}

}  // namespace

std::optional<Split> compose(const ConcreteRule& rule, const TensorMap& map, int dim,
                             const std::vector<FactorSplit>& cuts, const Mesh* mesh) {
  const std::vector<int>& factors = map.dims[at(dim)];
  Split out{.dim = dim};
  const auto cut = [&](std::size_t i) -> const FactorSplit& { return cuts[at(factors[i])]; };
  const auto size = [&](std::size_t i) { return rule.factors[at(factors[i])].size; };
  std::size_t first = 0;
  while (first < factors.size() && cut(first).axes.empty()) ++first;
  const int joint = joint_factor(map, dim);
  if (joint != kNoFactor && !cuts[at(joint)].axes.empty()) {
    if (first != factors.size()) return std::nullopt;
    const FactorSplit& whole = cuts[at(joint)];
    out = {.dim = dim, .axes = whole.axes, .block = whole.block, .segments = whole.segments};
    return tidy(std::move(out), mesh, map.sizes[at(dim)]);
  }
  if (first == factors.size()) return out;
  if (factors.size() == 1 && rule.factors[at(factors[0])].part) {
    auto part = compose_part(rule.factors[at(factors[0])], cut(0), dim, map.sizes[at(dim)]);
    if (part) part = tidy(*std::move(part), mesh, map.sizes[at(dim)]);
    return part;
  }

  if (!map.segments.empty() && !map.segments[at(dim)].empty()) {
    if (cut(0).block > 1 || !cut(0).segments.empty()) return std::nullopt;
    out.axes = cut(0).axes;
    out.segments = map.segments[at(dim)];
    return tidy(std::move(out), mesh, map.sizes[at(dim)]);
  }
  std::int64_t majors = 1;
  for (std::size_t i = 0; i < first; ++i) majors *= size(i);
  out.axes = cut(first).axes;
  std::size_t last = first;
  std::int64_t run = size(first);  // length of one segment, in units of what follows `last`
  for (std::size_t i = first + 1; i < factors.size(); ++i) {
    if (cut(i).axes.empty()) {
      if (size(i) == 1) continue;
      break;
    }
    const FactorSplit& major = cut(last);
    // Below it the chunk rule counts single indices of the major factor: they must be one a rank.
    if (mesh->size(major.axes) != size(last) || major.block > 1 || !major.segments.empty() ||
        !cut(i).segments.empty() || size(i) % cut(i).block != 0) {
      return std::nullopt;
    }
    out.axes.insert(out.axes.end(), cut(i).axes.begin(), cut(i).axes.end());
    run *= size(i);
    last = i;
  }
  std::int64_t minors = 1;
  for (std::size_t i = last + 1; i < factors.size(); ++i) {
    if (!cut(i).axes.empty()) return std::nullopt;
    minors *= size(i);
  }
  out.block = cut(last).block * minors;
  std::vector<std::int64_t> segments = cut(last).segments;
  if (segments.empty()) segments.push_back(run);
  if (majors * static_cast<std::int64_t>(segments.size()) > kMaxSegments) return std::nullopt;
  if (majors > 1 || segments.size() > 1) {
    for (std::int64_t m = 0; m < majors; ++m) {
      for (std::int64_t s : segments) out.segments.push_back(s * minors);
    }
  }
  return tidy(std::move(out), mesh, map.sizes[at(dim)]);
}

namespace {

// `split` read as axes given to the factors of one dim: axis number i of the split to the factor
// at place `places[i]`. Nothing if the blocks or segments cannot mean that.
std::optional<Reading> read_as(const ConcreteRule& rule, const std::vector<int>& factors,
                               const Split& split, const std::vector<std::size_t>& places) {
  const std::size_t first = places.front();
  const std::size_t last = places.back();
  std::int64_t majors = 1;
  std::int64_t minors = 1;
  for (std::size_t i = 0; i < first; ++i) majors *= rule.factors[at(factors[i])].size;
  for (std::size_t i = last + 1; i < factors.size(); ++i) {
    minors *= rule.factors[at(factors[i])].size;
  }
  if (majors == 0 || minors == 0) return std::nullopt;  // nothing lies there
  Reading out;
  for (std::size_t i = first; i <= last; ++i) out.cuts.emplace_back(factors[i], FactorSplit{});
  for (std::size_t i = 0; i < places.size(); ++i) {
    out.cuts[places[i] - first].second.axes.push_back(split.axes[i]);
  }
  FactorSplit& inner = out.cuts.back().second;
  if (split.block % minors == 0) inner.block = split.block / minors;
  if (!split.segments.empty()) {
    const auto count = static_cast<std::int64_t>(split.segments.size());
    if (count % majors != 0) return std::nullopt;
    for (std::int64_t i = 0; i < count / majors; ++i) {
      if (split.segments[static_cast<std::size_t>(i)] % minors != 0) return std::nullopt;
      inner.segments.push_back(split.segments[static_cast<std::size_t>(i)] / minors);
    }
    if (inner.segments.size() == 1) inner.segments.clear();
    if (!inner.segments.empty() && first != last) return std::nullopt;
  }
  std::erase_if(out.cuts, [](const auto& c) { return c.second.axes.empty(); });
  return out;
}

}  // namespace

Reading decompose(const ConcreteRule& rule, const TensorMap& map, const Split& split,
                  const Mesh* mesh) {
  const std::vector<int>& factors = map.dims[at(split.dim)];
  const std::int64_t size = map.sizes[at(split.dim)];
  if (factors.empty()) return {};
  const bool row_of_parts = !map.segments.empty() && !map.segments[at(split.dim)].empty();
  if (row_of_parts) {
    const Split wanted{
        .dim = split.dim, .axes = split.axes, .segments = map.segments[at(split.dim)]};
    if (!same_cut(split, wanted, mesh, size)) return {};
    return {{{factors[0], FactorSplit{.axes = split.axes}}}, true};
  }
  if (factors.size() == 1 && rule.factors[at(factors[0])].plain) {
    const Split wanted{.dim = split.dim, .axes = split.axes};
    return {{{factors[0], FactorSplit{.axes = split.axes}}}, same_cut(split, wanted, mesh, size)};
  }
  if (factors.size() == 1 && rule.factors[at(factors[0])].part) {
    const FactorSplit cut{split.axes, split.block, split.segments};
    if (!compose_part(rule.factors[at(factors[0])], cut, split.dim, size)) return {};
    if (size != rule.factors[at(factors[0])].size) return {};  // what the rest is cut like is open
    return {{{factors[0], cut}}, true};
  }
  if (factors.size() == 1) {
    return {{{factors[0], FactorSplit{split.axes, split.block, split.segments}}}, true};
  }
  // Try every way to hand the axes to the factors in order, major factors first.
  std::vector<std::size_t> places(split.axes.size(), 0);
  std::vector<FactorSplit> cuts(rule.factors.size());
  while (true) {
    if (auto reading = read_as(rule, factors, split, places)) {
      for (FactorSplit& c : cuts) c = {};
      for (const auto& [factor, cut] : reading->cuts) cuts[at(factor)] = cut;
      const auto made = compose(rule, map, split.dim, cuts, mesh);
      if (made && same_cut(split, *made, mesh, size)) return *std::move(reading);
    }
    std::size_t i = places.size();
    while (i > 0 && places[i - 1] + 1 == factors.size()) --i;
    if (i == 0) break;
    const std::size_t next = places[i - 1] + 1;
    for (std::size_t j = i - 1; j < places.size(); ++j) places[j] = next;
  }
  if (const int joint = joint_factor(map, split.dim); joint != kNoFactor) {
    return {{{joint, FactorSplit{split.axes, split.block, split.segments}}}, true};
  }
  for (int factor : factors) {
    if (rule.factors[at(factor)].kind != FactorKind::blocked) {
      return {{{factor, FactorSplit{.axes = split.axes}}}, false};
    }
  }
  return {};
}

bool same_cut(const Split& a, const Split& b, const Mesh* mesh, std::int64_t size) {
  if (a == b) return true;
  std::vector<int> axes = a.axes;
  for (int axis : b.axes) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
  }
  return for_all_coordinates(axes, mesh, [&](const std::vector<int>& coordinate) {
    return joined(local_intervals(a, mesh, size, coordinate)) ==
           joined(local_intervals(b, mesh, size, coordinate));
  });
}

bool equivalent(const Layout* a, const Layout* b, std::span<const std::int64_t> sizes) {
  if (a == b) return true;
  if (a->mesh() != b->mesh()) return false;
  for (int axis = 0; axis < a->mesh()->ndim(); ++axis) {
    if (a->placement(axis) != b->placement(axis)) return false;
  }
  for (const Split& s : a->splits()) {
    const Split* other = b->split(s.dim);
    if (other == nullptr || !same_cut(s, *other, a->mesh(), sizes[at(s.dim)])) return false;
  }
  return true;
}

bool leaves_empty(const FactorSplit& cut, const Mesh* mesh, std::int64_t size) {
  std::vector<int> last(at(mesh->ndim()));
  for (int axis = 0; axis < mesh->ndim(); ++axis) last[at(axis)] = mesh->size(axis) - 1;
  const Split split{.dim = 0, .axes = cut.axes, .block = cut.block, .segments = cut.segments};
  const auto pieces = local_intervals(split, mesh, size, last);
  return std::all_of(pieces.begin(), pieces.end(), [](const Interval& p) { return p.size() == 0; });
}

}  // namespace hyper_parallel::rules
