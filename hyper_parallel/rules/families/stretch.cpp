// Dims that grow, or that one becomes two of and back: repeat, unfold, diagonals.

#include <algorithm>

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

// repeat: dim d becomes [times, d]. The copies stay together, so a split dim is segmented.
ConcreteRule build_repeat(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, false);
  const std::vector<int> factors = spread(rule, 0);
  const auto times = call.integers("repeats");
  if (times.size() < factors.size()) check_ndim(call, 0, times.size());
  const std::size_t lead = times.size() - factors.size();
  TensorMap out = whole(times);
  for (std::size_t d = 0; d < times.size(); ++d) {
    if (times[d] != 1 && d >= lead && factors[d - lead] != kNoFactor) {
      put(out, d, add_factor(rule, "r", times[d], FactorKind::blocked));
    }
    if (d < lead) continue;
    out.sizes[d] *= rule.inputs[0].sizes[d - lead];
    put(out, d, factors[d - lead]);
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

// repeat_interleave by one number: dim d becomes [d, times]; without a dim, of the flattened
// tensor.
ConcreteRule build_interleave(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, false);
  const std::vector<int> factors = spread(rule, 0);
  const std::int64_t times = call.integer("repeats", 1);
  if (times < 0) throw UsageError(Message("HP-S005", call.op + ": repeats is negative"));
  TensorMap out = like(rule.inputs[0]);
  std::size_t dim = 0;
  if (call.has("dim") && !factors.empty()) {
    dim = dim_of(call, "dim", 0, factors.size());
  } else {
    out = whole({product(out.sizes)});
    for (int f : factors) put(out, 0, f);
  }
  if (out.dims[dim].empty() || call.has("output_size")) {
    for (int f : out.dims[dim]) block(rule, f);
    out.dims[dim].clear();
  } else if (times != 1) {
    put(out, dim, add_factor(rule, "r", times, FactorKind::blocked));
  }
  out.sizes[dim] *= times;
  rule.outputs.push_back(std::move(out));
  return rule;
}

// unfold: windows of one dim become a new last dim.
ConcreteRule build_unfold(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, true);
  const std::vector<int> factors = spread(rule, 0);
  if (factors.empty()) check_ndim(call, 0, 1);
  const std::size_t dim = dim_of(call, "dimension", 0, factors.size());
  TensorMap out = like(rule.inputs[0]);
  keep_whole(rule, out, factors, dim);
  std::int64_t& size = out.sizes[dim];
  const std::int64_t window = call.integer("size", 1);
  const std::int64_t step = std::max<std::int64_t>(call.integer("step", 1), 1);
  if (window > size) throw_sizes(call, 0, dim, size, window, "the window");
  size = (size - window) / step + 1;
  add_dim(out, window);
  rule.outputs.push_back(std::move(out));
  return rule;
}

// unfold_backward(grad [..., windows, ..., size], input_sizes, dim): sums windows back into the
// dim.
ConcreteRule build_unfold_back(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, false);
  rule.partial = PartialRule::linear;
  const std::vector<int> factors = spread(rule, 0);
  const Shape sizes = call.integers("input_sizes");
  check_ndim(call, 0, sizes.size() + 1);
  const std::size_t dim = dim_of(call, "dim", 0, sizes.size());
  TensorMap out = whole(sizes);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (d == dim) continue;
    if (rule.inputs[0].sizes[d] != sizes[d]) {
      throw_sizes(call, 0, d, rule.inputs[0].sizes[d], sizes[d], "input_sizes");
    }
    put(out, d, factors[d]);
  }
  block(rule, factors[dim]);
  block(rule, factors.back());
  rule.rewrites.push_back({Rewrite::Kind::local_shape, "input_sizes", 0, 0});
  rule.outputs.push_back(std::move(out));
  return rule;
}

// diagonal: two dims become one, at the end.
ConcreteRule build_diagonal(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, true);
  const std::vector<int> factors = spread(rule, 0);
  const std::size_t ndim = factors.size();
  if (ndim < 2) check_ndim(call, 0, 2);
  const std::size_t a = dim_of(call, "dim1", 0, ndim);
  const std::size_t b = dim_of(call, "dim2", 1, ndim);
  const std::int64_t offset = call.integer("offset", 0);
  const Shape& sizes = rule.inputs[0].sizes;
  const std::int64_t length = std::min(sizes[a] + std::min<std::int64_t>(offset, 0),
                                       sizes[b] - std::max<std::int64_t>(offset, 0));
  TensorMap out;
  for (std::size_t d = 0; d < ndim; ++d) {
    if (d == a || d == b) {
      block(rule, factors[d]);
      continue;
    }
    out.sizes.push_back(sizes[d]);
    out.dims.push_back(rule.inputs[0].dims[d]);
  }
  add_dim(out, std::max<std::int64_t>(length, 0));
  rule.outputs.push_back(std::move(out));
  return rule;
}

// diag_embed: the last dim becomes two.
ConcreteRule build_diag_embed(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, false);
  const std::vector<int> factors = spread(rule, 0);
  const std::size_t ndim = factors.size() + 1;
  if (ndim < 2) check_ndim(call, 0, 1);
  block(rule, factors.back());
  const std::size_t a = dim_of(call, "dim1", -2, ndim);
  const std::size_t b = dim_of(call, "dim2", -1, ndim);
  const std::int64_t offset = call.integer("offset", 0);
  const std::int64_t size = rule.inputs[0].sizes.back() + (offset < 0 ? -offset : offset);
  TensorMap out;
  std::size_t next = 0;
  for (std::size_t d = 0; d < ndim; ++d) {
    const bool made = d == a || d == b;
    out.sizes.push_back(made ? size : rule.inputs[0].sizes[next]);
    out.dims.push_back(made ? std::vector<int>{} : rule.inputs[0].dims[next]);
    next += made ? 0 : 1;
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

constexpr Group kGroups[] = {
    {"diag_embed", "diag_embed"}, {"diagonal", "diagonal"},
    {"repeat", "repeat"},         {"repeat_interleave", "repeat_interleave.self_int"},
    {"unfold", "unfold"},         {"unfold_back", "unfold_backward"},
};

constexpr NamedBuilder kBuilders[] = {
    {"diag_embed", build_diag_embed}, {"diagonal", build_diagonal},
    {"repeat", build_repeat},         {"repeat_interleave", build_interleave},
    {"unfold", build_unfold},         {"unfold_back", build_unfold_back},
};

}  // namespace

Family stretch_family() { return {"stretch", {}, kGroups, kBuilders}; }

}  // namespace hyper_parallel::rules
