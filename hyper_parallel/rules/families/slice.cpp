// Parts of a tensor by position, and the reverse: slice, select, pad, roll, triangles.
//
// A dim of which a part is taken must be whole; the others pass. But a part of whole segments of a
// dim that is cut segment by segment (k of a fused q|k|v) is a part on each rank: Factor::part.

#include <algorithm>

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

ConcreteRule build_slice(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, true);
  const std::vector<int> factors = spread(rule, 0);
  if (factors.empty()) check_ndim(call, 0, 1);
  const std::size_t dim = dim_of(call, "dim", 0, factors.size());
  TensorMap out = like(rule.inputs[0]);
  std::int64_t& size = out.sizes[dim];
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
    const int f = factors[dim];
    if (step == 1 && end > begin && f != kNoFactor) {
      factor_of(rule, f).part = {begin, end};
      factor_of(rule, f).handler = "slice";
    } else {
      keep_whole(rule, out, factors, dim);
    }
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

// slice: dims `axes` from `starts` to `ends`, in steps of `strides`; those in `decrease_axis` are
// dropped, they have size 1 then.
ConcreteRule build_slices(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, true);
  const std::vector<int> factors = spread(rule, 0);
  const std::size_t ndim = factors.size();
  const auto axes = call.integers("axes");
  const auto starts = call.integers("starts");
  const auto ends = call.integers("ends");
  auto strides = call.integers("strides");
  if (strides.empty()) strides.assign(axes.size(), 1);
  if (starts.size() != axes.size() || ends.size() != axes.size() || strides.size() != axes.size()) {
    throw UsageError(Message("HP-S005", call.op + ": axes, starts and ends differ in length"));
  }
  TensorMap out = like(rule.inputs[0]);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t dim = check_dim(call, axes[i], ndim);
    std::int64_t& size = out.sizes[dim];
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
    if (out.sizes[dropped[i]] != 1) {
      throw_sizes(call, 0, dropped[i], out.sizes[dropped[i]], 1, "a dropped dim");
    }
    drop_dim(out, dropped[i]);
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

ConcreteRule build_select(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, true);
  const std::vector<int> factors = spread(rule, 0);
  if (factors.empty()) check_ndim(call, 0, 1);
  const std::size_t dim = dim_of(call, "dim", 0, factors.size());
  const std::int64_t size = call.inputs[0].meta.sizes[dim];
  const std::int64_t index = call.integer("index", 0);
  if (index < -size || index >= size) {
    throw UsageError(Message("HP-S010", call.op + ": index " + std::to_string(index) +
                                            " is out of range for dim " + std::to_string(dim) +
                                            " of size " + std::to_string(size)));
  }
  TensorMap out = like(rule.inputs[0]);
  keep_whole(rule, out, factors, dim);
  drop_dim(out, dim);
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
  TensorMap out = like(rule.inputs[0]);
  bool changes = false;
  for (std::size_t i = 0; i < pad.size() / 2; ++i) {
    const std::size_t d = factors.size() - 1 - i;
    if (pad[2 * i] == 0 && pad[2 * i + 1] == 0) continue;
    changes = true;
    out.sizes[d] += pad[2 * i] + pad[2 * i + 1];
    keep_whole(rule, out, factors, d);
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
  const std::size_t ndim = factors.size();
  const bool none = call.op.starts_with("aten::flip") && call.integers("dims").empty();
  TensorMap out = like(rule.inputs[0]);
  if (!none) {
    for (std::size_t d : dims_of(call, "dims", ndim)) keep_whole(rule, out, factors, d);
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

// tril, triu: the last two dims are a matrix.
ConcreteRule build_triangle(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, false);
  const std::vector<int> factors = spread(rule, 0);
  if (factors.size() < 2) check_ndim(call, 0, 2);
  TensorMap out = like(rule.inputs[0]);
  for (std::size_t d : {1, 2}) keep_whole(rule, out, factors, factors.size() - d);
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
  const std::size_t dim = dim_of(call, "dim", 0, factors.size());
  TensorMap out = like(rule.inputs[0]);
  keep_whole(rule, out, factors, dim);
  out.sizes[dim] = call.integer("length", 0);
  rule.outputs.push_back(std::move(out));
  return rule;
}

// slice_scatter, select_scatter, diagonal_scatter (self, src): self with the part src. Dims of
// which a part is taken must be whole; the last dim of src of a diagonal stands for two.
ConcreteRule build_part(const Call& call, Words words) {
  check_count(call, 2, 2);
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread(rule, 0);
  const std::size_t ndim = factors.size();
  if (ndim == 0) check_ndim(call, 0, 1);
  std::vector<std::size_t> taken = {
      dim_of(call, has_word(words, "diagonal") ? "dim1" : "dim", 0, ndim)};
  if (has_word(words, "diagonal")) taken.push_back(dim_of(call, "dim2", 1, ndim));
  TensorMap& src = rule.inputs[1];
  std::size_t next = 0;
  for (std::size_t d = 0; d < ndim; ++d) {
    const int f = factors[d];
    if (std::find(taken.begin(), taken.end(), d) != taken.end()) {
      block(rule, f);
      if (has_word(words, "slice")) ++next;
    } else if (next < src.sizes.size()) {
      if (src.sizes[next] == rule.inputs[0].sizes[d]) {
        put(src, next, f);
      }
      ++next;
    }
  }
  rule.inputs[0].linear = src.linear = true;
  src.term = 1;
  rule.partial = PartialRule::any;
  rule.outputs.push_back(like(rule.inputs[0]));
  return rule;
}

// rot90(k, dims): the two dims must be whole, and change places if k is odd.
ConcreteRule build_rot90(const Call& call, Words) {
  ConcreteRule rule = start_moving(call, false);
  const std::vector<int> factors = spread(rule, 0);
  TensorMap out = like(rule.inputs[0]);
  const std::vector<std::size_t> dims = dims_of(call, "dims", factors.size());
  for (std::size_t d : dims) keep_whole(rule, out, factors, d);
  if (call.integer("k", 1) % 2 != 0 && dims.size() == 2) {
    std::swap(out.sizes[dims[0]], out.sizes[dims[1]]);
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

constexpr Row kRows[] = {{"hyper_parallel::slice", "slices"}};

constexpr Group kGroups[] = {
    {"flip_or_roll", "flip roll"},
    {"narrow", "narrow_copy"},
    {"pad", "constant_pad_nd pad"},
    {"part", "select_scatter"},
    {"part diagonal", "diagonal_scatter"},
    {"part slice", "slice_scatter"},
    {"rot90", "rot90"},
    {"select", "select.int"},
    {"slice", "slice.Tensor"},
    {"strided", "as_strided"},
    {"strided scatter", "as_strided_scatter"},
    {"triangle", "tril triu"},
};

constexpr NamedBuilder kBuilders[] = {
    {"flip_or_roll", build_moved}, {"narrow", build_narrow}, {"pad", build_pad},
    {"part", build_part},          {"rot90", build_rot90},   {"select", build_select},
    {"slice", build_slice},        {"slices", build_slices}, {"strided", build_strided},
    {"triangle", build_triangle},
};

}  // namespace

Family slice_family() { return {"slice", kRows, kGroups, kBuilders}; }

}  // namespace hyper_parallel::rules
