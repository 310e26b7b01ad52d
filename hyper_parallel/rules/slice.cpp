// Parts of a tensor by position, and the reverse: slice, select, pad, repeat, roll, triangles.
//
// A dim of which a part is taken must be whole; the others pass. But a part of whole segments of a
// dim that is cut segment by segment (k of a fused q|k|v) is a part on each rank.

#include <algorithm>

#include "hyper_parallel/rules/families.h"
#include "hyper_parallel/rules/make.h"

namespace hyper_parallel::rules {
namespace {

ConcreteRule start_moving(const Call& call, bool view) {
  check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  rule.inputs[0].linear = true;
  rule.partial = PartialRule::any;
  rule.aliases = view;
  return rule;
}

TensorMap like_first(const ConcreteRule& rule) {
  TensorMap out = whole(rule.inputs[0].sizes);
  out.dims = rule.inputs[0].dims;
  return out;
}

// Make dim `d` whole on both sides.
void keep_whole(ConcreteRule& rule, TensorMap& out, const std::vector<int>& factors, int d) {
  block(rule, factors[static_cast<std::size_t>(d)]);
  out.dims[static_cast<std::size_t>(d)].clear();
}

// The segments of `x` along `dim` that make up [begin, end) where it is cut by segments of which
// none is cut in two by these bounds; else nothing.
Shape segments_between(const Operand& x, int dim, std::int64_t begin, std::int64_t end) {
  const Split* split = x.layout == nullptr ? nullptr : x.layout->split(dim);
  if (split == nullptr || split->block > 1 || split->segments.empty()) return {};
  if (*std::min_element(split->segments.begin(), split->segments.end()) <= 1) return {};
  Shape out;
  std::int64_t at = 0;
  for (std::int64_t length : split->segments) {
    const std::int64_t next = at + length;
    if (at < end && next > begin) {
      if (at < begin || next > end) return {};
      out.push_back(length);
    }
    at = next;
  }
  return out;
}

// Cut dim `dim` of the operand by its segments, that of the result by those that are taken.
void cut_by_segments(const Call& call, ConcreteRule& rule, TensorMap& out, int dim,
                     const Shape& taken) {
  const auto d = static_cast<std::size_t>(dim);
  const Shape& all = call.inputs[0].layout->split(dim)->segments;
  const int p = add_factor(rule, "p", *std::min_element(all.begin(), all.end()));
  rule.factors.back().plain = true;
  rule.factors.back().handler = "slice";
  TensorMap& in = rule.inputs[0];
  in.dims[d] = {p};
  in.segments.resize(in.sizes.size());
  in.segments[d] = all;
  out.dims[d] = {p};
  out.segments.resize(out.sizes.size());
  if (taken.size() > 1) out.segments[d] = taken;
}

ConcreteRule build_slice(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, true);
  const std::vector<int> factors = spread(rule, 0);
  if (factors.empty()) check_ndim(call, 0, 1);
  const int dim = dim_of(call, "dim", 0, static_cast<int>(factors.size()));
  TensorMap out = like_first(rule);
  std::int64_t& size = out.sizes[static_cast<std::size_t>(dim)];
  const std::int64_t step = call.integer("step", 1);
  if (step < 1) {
    throw UsageError(Message("HP-S005", call.op + ": step must be at least 1")
                         .fact("step", std::to_string(step)));
  }
  const auto clamp = [&](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + size : i, 0, size);
  };
  const std::int64_t begin = clamp(call.integer("start", 0));
  const std::int64_t end = std::max(clamp(call.integer("end", size)), begin);
  if (begin != 0 || end != size || step != 1) {
    size = (end - begin + step - 1) / step;
    keep_whole(rule, out, factors, dim);
    const Shape taken = segments_between(call.inputs[0], dim, begin, end);
    if (step == 1 && !taken.empty()) cut_by_segments(call, rule, out, dim, taken);
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

// slice: dims `axes` from `starts` to `ends`, in steps of `strides`; those in `decrease_axis` are
// dropped, they have size 1 then.
ConcreteRule build_slices(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, true);
  const std::vector<int> factors = spread(rule, 0);
  const int ndim = static_cast<int>(factors.size());
  const auto axes = call.integers("axes");
  const auto starts = call.integers("starts");
  const auto ends = call.integers("ends");
  auto strides = call.integers("strides");
  if (strides.empty()) strides.assign(axes.size(), 1);
  if (starts.size() != axes.size() || ends.size() != axes.size() || strides.size() != axes.size()) {
    throw UsageError(Message("HP-S005", call.op + ": axes, starts and ends differ in length"));
  }
  TensorMap out = like_first(rule);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int dim = check_dim(call, axes[i], ndim);
    std::int64_t& size = out.sizes[static_cast<std::size_t>(dim)];
    const auto clamp = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
    };
    const std::int64_t begin = clamp(starts[i]);
    const std::int64_t end = std::max(clamp(ends[i]), begin);
    const std::int64_t step = std::max<std::int64_t>(strides[i], 1);
    if (begin == 0 && end == size && step == 1) continue;
    size = (end - begin + step - 1) / step;
    keep_whole(rule, out, factors, dim);
  }
  auto dropped = dims_of(call, "decrease_axis", ndim);
  if (call.integers("decrease_axis").empty()) dropped.clear();
  for (std::size_t i = dropped.size(); i-- > 0;) {
    if (out.sizes[static_cast<std::size_t>(dropped[i])] != 1) {
      throw_sizes(call, 0, static_cast<std::size_t>(dropped[i]),
                  out.sizes[static_cast<std::size_t>(dropped[i])], 1, "a dropped dim");
    }
    out.sizes.erase(out.sizes.begin() + dropped[i]);
    out.dims.erase(out.dims.begin() + dropped[i]);
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

ConcreteRule build_select(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, true);
  const std::vector<int> factors = spread(rule, 0);
  if (factors.empty()) check_ndim(call, 0, 1);
  const int dim = dim_of(call, "dim", 0, static_cast<int>(factors.size()));
  const std::int64_t size = call.inputs[0].meta.sizes[static_cast<std::size_t>(dim)];
  const std::int64_t index = call.integer("index", 0);
  if (index < -size || index >= size) {
    throw UsageError(Message("HP-S010", call.op + ": index " + std::to_string(index) +
                                            " is out of range for dim " + std::to_string(dim) +
                                            " of size " + std::to_string(size)));
  }
  TensorMap out = like_first(rule);
  keep_whole(rule, out, factors, dim);
  out.sizes.erase(out.sizes.begin() + dim);
  out.dims.erase(out.dims.begin() + dim);
  rule.outputs.push_back(std::move(out));
  return rule;
}

// pad: pairs (before, after) from the last dim on. New elements are `value`: zero for a sum.
ConcreteRule build_pad(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, false);
  const std::vector<int> factors = spread(rule, 0);
  const auto pad = call.integers("pad");
  if (pad.size() % 2 != 0 || pad.size() / 2 > factors.size()) {
    throw UsageError(Message("HP-S005", call.op + ": pad must hold two numbers a dim"));
  }
  TensorMap out = like_first(rule);
  bool changes = false;
  for (std::size_t i = 0; i < pad.size() / 2; ++i) {
    const std::size_t d = factors.size() - 1 - i;
    if (pad[2 * i] == 0 && pad[2 * i + 1] == 0) continue;
    changes = true;
    out.sizes[d] += pad[2 * i] + pad[2 * i + 1];
    keep_whole(rule, out, factors, static_cast<int>(d));
  }
  const auto mode = call.attrs.find("mode");
  const auto* name = mode == call.attrs.end() ? nullptr : std::get_if<std::string>(&mode->second);
  const bool constant = name == nullptr || *name == "constant";
  const bool zero = !call.has("value") || is_number(call, "value", 0);
  if (changes && constant && !zero) rule.inputs[0].linear = false;
  // Reflection refuses tensors without elements.
  for (Factor& factor : rule.factors) factor.nonempty = !constant;
  rule.outputs.push_back(std::move(out));
  return rule;
}

// flip, roll: the dims that move must be whole. roll without dims rolls the flattened tensor.
ConcreteRule build_moved(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, false);
  const std::vector<int> factors = spread(rule, 0);
  const int ndim = static_cast<int>(factors.size());
  const bool none = call.op.starts_with("aten::flip") && call.integers("dims").empty();
  TensorMap out = like_first(rule);
  if (!none) {
    for (int d : dims_of(call, "dims", ndim)) keep_whole(rule, out, factors, d);
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

// tril, triu: the last two dims are a matrix.
ConcreteRule build_triangle(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, false);
  const std::vector<int> factors = spread(rule, 0);
  if (factors.size() < 2) check_ndim(call, 0, 2);
  TensorMap out = like_first(rule);
  for (int d : {1, 2}) keep_whole(rule, out, factors, static_cast<int>(factors.size()) - d);
  rule.outputs.push_back(std::move(out));
  return rule;
}

// repeat: dim d becomes [times, d]. The copies stay together, so a split dim is segmented.
ConcreteRule build_repeat(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, false);
  const std::vector<int> factors = spread(rule, 0);
  const auto times = call.integers("repeats");
  if (times.size() < factors.size()) check_ndim(call, 0, times.size());
  const std::size_t lead = times.size() - factors.size();
  TensorMap out = whole(times);
  for (std::size_t d = 0; d < times.size(); ++d) {
    if (times[d] != 1 && d >= lead && factors[d - lead] >= 0) {
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
  TensorMap out = like_first(rule);
  std::size_t dim = 0;
  if (call.has("dim") && !factors.empty()) {
    dim = static_cast<std::size_t>(dim_of(call, "dim", 0, static_cast<int>(factors.size())));
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
  const int dim = dim_of(call, "dimension", 0, static_cast<int>(factors.size()));
  TensorMap out = like_first(rule);
  keep_whole(rule, out, factors, dim);
  std::int64_t& size = out.sizes[static_cast<std::size_t>(dim)];
  const std::int64_t window = call.integer("size", 1);
  const std::int64_t step = std::max<std::int64_t>(call.integer("step", 1), 1);
  if (window > size)
    throw_sizes(call, 0, static_cast<std::size_t>(dim), size, window, "the window");
  size = (size - window) / step + 1;
  out.sizes.push_back(window);
  out.dims.emplace_back();
  rule.outputs.push_back(std::move(out));
  return rule;
}

// diagonal: two dims become one, at the end.
ConcreteRule build_diagonal(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, true);
  const std::vector<int> factors = spread(rule, 0);
  const int ndim = static_cast<int>(factors.size());
  if (ndim < 2) check_ndim(call, 0, 2);
  const int a = dim_of(call, "dim1", 0, ndim);
  const int b = dim_of(call, "dim2", 1, ndim);
  const std::int64_t offset = call.integer("offset", 0);
  const Shape& sizes = rule.inputs[0].sizes;
  const std::int64_t length =
      std::min(sizes[static_cast<std::size_t>(a)] + std::min<std::int64_t>(offset, 0),
               sizes[static_cast<std::size_t>(b)] - std::max<std::int64_t>(offset, 0));
  TensorMap out;
  for (int d = 0; d < ndim; ++d) {
    if (d == a || d == b) {
      block(rule, factors[static_cast<std::size_t>(d)]);
      continue;
    }
    out.sizes.push_back(sizes[static_cast<std::size_t>(d)]);
    out.dims.push_back(rule.inputs[0].dims[static_cast<std::size_t>(d)]);
  }
  out.sizes.push_back(std::max<std::int64_t>(length, 0));
  out.dims.emplace_back();
  rule.outputs.push_back(std::move(out));
  return rule;
}

// as_strided reads storage: whole. `scatter`: writes src there.
ConcreteRule build_strided(const Call& call, Words words) {
  if (!words.empty()) {
    check_count(call, 2, 2);
    ConcreteRule rule = start(call);
    rule.outputs.push_back(whole(call.inputs[0].meta.sizes));
    return rule;
  }
  ConcreteRule rule = start_moving(call, true);
  rule.outputs.push_back(whole(call.integers("size")));
  return rule;
}

// narrow_copy(self, dim, start, length)
ConcreteRule build_narrow(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, false);
  const std::vector<int> factors = spread(rule, 0);
  if (factors.empty()) check_ndim(call, 0, 1);
  const int dim = dim_of(call, "dim", 0, static_cast<int>(factors.size()));
  TensorMap out = like_first(rule);
  keep_whole(rule, out, factors, dim);
  out.sizes[static_cast<std::size_t>(dim)] = call.integer("length", 0);
  rule.outputs.push_back(std::move(out));
  return rule;
}

// slice_scatter, select_scatter, diagonal_scatter (self, src): self with the part src. Dims of
// which a part is taken must be whole; the last dim of src of a diagonal stands for two.
ConcreteRule build_part(const Call& call, Words words) {
  check_count(call, 2, 2);
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread(rule, 0);
  const int ndim = static_cast<int>(factors.size());
  if (ndim == 0) check_ndim(call, 0, 1);
  std::vector<int> taken = {dim_of(call, has_word(words, "diagonal") ? "dim1" : "dim", 0, ndim)};
  if (has_word(words, "diagonal")) taken.push_back(dim_of(call, "dim2", 1, ndim));
  TensorMap& src = rule.inputs[1];
  std::size_t next = 0;
  for (int d = 0; d < ndim; ++d) {
    const int f = factors[static_cast<std::size_t>(d)];
    if (std::find(taken.begin(), taken.end(), d) != taken.end()) {
      block(rule, f);
      if (has_word(words, "slice")) ++next;
    } else if (next < src.sizes.size()) {
      if (src.sizes[next] == rule.inputs[0].sizes[static_cast<std::size_t>(d)]) {
        put(src, next, f);
      }
      ++next;
    }
  }
  rule.inputs[0].linear = src.linear = true;
  src.term = 1;
  rule.partial = PartialRule::any;
  rule.outputs.push_back(like_first(rule));
  return rule;
}

// diag_embed: the last dim becomes two.
ConcreteRule build_diag_embed(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, false);
  const std::vector<int> factors = spread(rule, 0);
  const int ndim = static_cast<int>(factors.size()) + 1;
  if (ndim < 2) check_ndim(call, 0, 1);
  block(rule, factors.back());
  const int a = dim_of(call, "dim1", -2, ndim);
  const int b = dim_of(call, "dim2", -1, ndim);
  const std::int64_t offset = call.integer("offset", 0);
  const std::int64_t size = rule.inputs[0].sizes.back() + (offset < 0 ? -offset : offset);
  TensorMap out;
  std::size_t next = 0;
  for (int d = 0; d < ndim; ++d) {
    const bool made = d == a || d == b;
    out.sizes.push_back(made ? size : rule.inputs[0].sizes[next]);
    out.dims.push_back(made ? std::vector<int>{} : rule.inputs[0].dims[next]);
    next += made ? 0 : 1;
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

// rot90(k, dims): the two dims must be whole, and change places if k is odd.
ConcreteRule build_rot90(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, false);
  const std::vector<int> factors = spread(rule, 0);
  TensorMap out = like_first(rule);
  const std::vector<int> dims = dims_of(call, "dims", static_cast<int>(factors.size()));
  for (int d : dims) keep_whole(rule, out, factors, d);
  if (call.integer("k", 1) % 2 != 0 && dims.size() == 2) {
    std::swap(out.sizes[static_cast<std::size_t>(dims[0])],
              out.sizes[static_cast<std::size_t>(dims[1])]);
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

constexpr Row kRows[] = {{"hyper_parallel::slice", "slices"}};

constexpr Group kGroups[] = {
    {"diag_embed", "diag_embed"},
    {"diagonal", "diagonal"},
    {"flip_or_roll", "flip roll"},
    {"narrow", "narrow_copy"},
    {"pad", "constant_pad_nd pad"},
    {"part", "select_scatter"},
    {"part diagonal", "diagonal_scatter"},
    {"part slice", "slice_scatter"},
    {"repeat", "repeat"},
    {"repeat_interleave", "repeat_interleave.self_int"},
    {"rot90", "rot90"},
    {"select", "select.int"},
    {"slice", "slice.Tensor"},
    {"strided", "as_strided"},
    {"strided scatter", "as_strided_scatter"},
    {"triangle", "tril triu"},
    {"unfold", "unfold"},
};

constexpr NamedBuilder kBuilders[] = {
    {"diag_embed", build_diag_embed},
    {"diagonal", build_diagonal},
    {"flip_or_roll", build_moved},
    {"narrow", build_narrow},
    {"pad", build_pad},
    {"part", build_part},
    {"repeat", build_repeat},
    {"repeat_interleave", build_interleave},
    {"rot90", build_rot90},
    {"select", build_select},
    {"slice", build_slice},
    {"slices", build_slices},
    {"strided", build_strided},
    {"triangle", build_triangle},
    {"unfold", build_unfold},
};

}  // namespace

Family slice_family() { return {"slice", kRows, kGroups, kBuilders}; }

}  // namespace hyper_parallel::rules
