#include "hyper_parallel/core/region.h"

#include <algorithm>

namespace hyper_parallel {
namespace {

std::int64_t length(const std::vector<Interval>& intervals) {
  std::int64_t out = 0;
  for (const Interval& i : intervals) out += i.size();
  return out;
}

}  // namespace

Region region_of(const Layout* layout, const Shape& sizes, std::span<const int> coordinate) {
  Region out;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    std::vector<Interval> joined;
    for (const Interval& i : local_intervals(layout, static_cast<int>(d), sizes[d], coordinate)) {
      if (i.size() == 0) continue;
      if (!joined.empty() && joined.back().end == i.begin) {
        joined.back().end = i.end;
      } else {
        joined.push_back(i);
      }
    }
    if (joined.empty()) joined.push_back({0, 0});
    out.push_back(std::move(joined));
  }
  return out;
}

Region intersect(const Region& a, const Region& b) {
  Region out(a.size());
  for (std::size_t d = 0; d < a.size(); ++d) {
    for (const Interval& x : a[d]) {
      for (const Interval& y : b[d]) {
        const Interval both{std::max(x.begin, y.begin), std::min(x.end, y.end)};
        if (both.end > both.begin) out[d].push_back(both);
      }
    }
    if (out[d].empty()) out[d].push_back({0, 0});
  }
  return out;
}

Region places(const Region& part, const Region& whole) {
  Region out(part.size());
  for (std::size_t d = 0; d < part.size(); ++d) {
    for (const Interval& i : part[d]) {
      std::int64_t start = 0;
      for (const Interval& w : whole[d]) {
        if (i.size() == 0) break;
        if (w.begin <= i.begin && i.end <= w.end) {
          start += i.begin - w.begin;
          break;
        }
        start += w.size();
      }
      const Interval at{start, start + i.size()};
      if (!out[d].empty() && out[d].back().end == at.begin) {
        out[d].back().end = at.end;
      } else {
        out[d].push_back(at);
      }
    }
  }
  return out;
}

Shape shape_of(const Region& region) {
  Shape out;
  for (const auto& intervals : region) out.push_back(length(intervals));
  return out;
}

std::int64_t numel_of(const Region& region) { return product(shape_of(region)); }

}  // namespace hyper_parallel
