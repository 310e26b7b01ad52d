// Look-ups and writes by index tensors.
//
// A looked-up dim that is split is a masked look-up with result P(sum): handlers gather,
// index_select and index. Truth values cannot be summed, so there the dim must be whole. Where a
// dim that is written along is split, handler index_write lets each rank write what falls into its
// part. Adding may also be split over the things added: then the result is P(sum).

#include <algorithm>

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"
#include "hyper_parallel/rules/families/pointwise.h"
#include "hyper_parallel/rules/text/notation.h"

namespace hyper_parallel::rules {
namespace {

bool is_mask(DType dtype) { return dtype == DType::boolean || dtype == DType::u8; }

void look_up(ConcreteRule& rule, int factor, std::string_view handler, const Call& call) {
  if (factor < 0) return;
  Factor& f = rule.factors[static_cast<std::size_t>(factor)];
  if (call.inputs[0].meta.dtype == DType::boolean) {
    f.kind = FactorKind::blocked;
    return;
  }
  f.kind = FactorKind::reduce;
  f.handler = handler;
}

void write(ConcreteRule& rule, int factor) {
  if (factor >= 0) rule.factors[static_cast<std::size_t>(factor)].handler = "index_write";
}

// gather(self, dim, index), and scatter(self, dim, index, src?) the other way round. In dims other
// than `dim` index i stands for index i of self, so they pass only where the sizes are equal.
struct Along {
  ConcreteRule rule;
  int self = -1;   // factor of self along dim
  int index = -1;  // factor of index along dim
};

Along along_dim(const Call& call, std::size_t index) {
  Along out;
  out.rule = start(call);
  const Shape& self = call.inputs[0].meta.sizes;
  const Shape& sizes = call.inputs[index].meta.sizes;
  const int ndim = static_cast<int>(self.size());
  const auto dim = static_cast<std::size_t>(dim_of(call, "dim", 0, ndim));
  if (ndim == 0 || sizes.empty()) return out;
  check_ndim(call, index, self.size());
  for (std::size_t d = 0; d < self.size(); ++d) {
    const bool shared = d != dim && self[d] == sizes[d];
    const std::string name = "d" + std::to_string(d);
    const int f = self[d] == 1 ? -1 : add_factor(out.rule, name, self[d]);
    put(out.rule.inputs[0], d, f);
    if (d == dim) out.self = f;
    if (shared) {
      put(out.rule.inputs[index], d, f);
      continue;
    }
    if (d != dim) block(out.rule, f);
    if (sizes[d] == 1) continue;
    const int i = add_factor(out.rule, "i" + std::to_string(d), sizes[d],
                             d == dim ? FactorKind::pass : FactorKind::blocked);
    put(out.rule.inputs[index], d, i);
    if (d == dim) out.index = i;
  }
  return out;
}

ConcreteRule build_gather(const Call& call, Words) {
  check_count(call, 2, 2);
  Along a = along_dim(call, 1);
  look_up(a.rule, a.self, "gather", call);
  a.rule.inputs[0].linear = true;
  a.rule.partial = PartialRule::any;
  a.rule.outputs.push_back(like(a.rule.inputs[1]));
  return std::move(a.rule);
}

// scatter: words "add" (adds src), "value" (no src), "move" (src replaces),
// "reduce" (attribute `reduce`).
ConcreteRule build_scatter(const Call& call, Words words) {
  const bool value = has_word(words, "value");
  check_count(call, value ? 2 : 3, value ? 2 : 3);
  Along a = along_dim(call, 1);
  const bool add = has_word(words, "add");
  write(a.rule, a.self);
  if (!add) block(a.rule, a.index);
  if (add && a.index >= 0) {
    a.rule.factors[static_cast<std::size_t>(a.index)].kind = FactorKind::reduce;
  }
  a.rule.inputs[0].addend = add;
  if (!value) {
    // src may be larger than index: then its dims do not line up with those of index.
    if (call.inputs[2].meta.sizes == call.inputs[1].meta.sizes) {
      a.rule.inputs[2].dims = a.rule.inputs[1].dims;
    } else {
      for (int f = 0; f < static_cast<int>(a.rule.factors.size()); ++f) block(a.rule, f);
    }
    a.rule.inputs[0].linear = a.rule.inputs[2].linear = add || has_word(words, "move");
    a.rule.inputs[2].term = 1;
    if (!add) a.rule.partial = PartialRule::any;
  }
  a.rule.outputs.push_back(like(a.rule.inputs[0]));
  return std::move(a.rule);
}

ConcreteRule build_index_select(const Call& call, Words) {
  static const Notation kNotation = parse_notation("*... v~index_select@dim, i -> ... i@dim; any");
  check_count(call, 2, 2);
  if (call.inputs[1].meta.sizes.empty()) {
    Call one = call;
    one.inputs[1].meta.sizes = {1};
    ConcreteRule rule = concretize(kNotation, one);
    rule.inputs[1] = whole({});
    return rule;
  }
  ConcreteRule rule = concretize(kNotation, call);
  for (Factor& f : rule.factors) {
    if (f.name == "v" && call.inputs[0].meta.dtype == DType::boolean) f.kind = FactorKind::blocked;
  }
  return rule;
}

// self[i, j, ...] with index tensors, absent ones for ":".
struct Indexed {
  ConcreteRule rule;
  std::vector<int> self;    // factor of each dim of self, -1: none
  std::vector<char> taken;  // beside: an index tensor stands there
  TensorMap result;         // of the look-up
  std::size_t count = 0;    // index tensors that are present
  bool masks = false;
};

Indexed index_dims(const Call& call, std::size_t indices) {
  Indexed out;
  out.rule = start(call);
  out.self = spread(out.rule, 0);
  out.taken.assign(out.self.size(), 0);
  std::vector<std::size_t> present;
  for (std::size_t i = 1; i <= indices; ++i) {
    const Operand& o = call.inputs[i];
    if (!o.present) continue;
    out.masks |= is_mask(o.meta.dtype);
    present.push_back(i);
    if (i <= out.taken.size()) out.taken[i - 1] = 1;
  }
  if (indices > out.self.size() && !out.masks) check_ndim(call, 0, indices);
  out.count = present.size();
  if (out.masks) return out;
  const Shape shape = broadcast_shape(call, present);
  TensorMap index = whole(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) put(index, d, add_factor(out.rule, "i" + std::to_string(d), shape[d]));
  }
  for (std::size_t i : present) {
    TensorMap& map = out.rule.inputs[i];
    for (std::size_t d = 0; d < map.sizes.size(); ++d) {
      if (map.sizes[d] != 1) map.dims[d] = index.dims[shape.size() - map.sizes.size() + d];
    }
  }
  // The index dims stand where the first index stood if the indices are adjacent, else in front.
  std::size_t place = 0;
  while (place < out.taken.size() && out.taken[place] == 0) ++place;
  std::size_t end = place;
  while (end < out.taken.size() && out.taken[end] != 0) ++end;
  if (std::find(out.taken.begin() + static_cast<std::ptrdiff_t>(end), out.taken.end(), 1) !=
      out.taken.end()) {
    place = 0;
  }
  std::size_t kept = 0;
  const auto add_index = [&] {
    out.result.sizes.insert(out.result.sizes.end(), shape.begin(), shape.end());
    out.result.dims.insert(out.result.dims.end(), index.dims.begin(), index.dims.end());
  };
  for (std::size_t d = 0; d < out.self.size(); ++d) {
    if (kept == place && d == kept) add_index();
    if (out.taken[d] != 0) continue;
    ++kept;
    out.result.sizes.push_back(out.rule.inputs[0].sizes[d]);
    out.result.dims.push_back(out.rule.inputs[0].dims[d]);
  }
  if (place == out.self.size()) add_index();
  return out;
}

// `map` broadcasts to `result`.
void put_last_dims(TensorMap& map, const TensorMap& result) {
  const std::size_t lead = result.sizes.size() - std::min(result.sizes.size(), map.sizes.size());
  for (std::size_t d = 0; d < map.sizes.size() && lead + d < result.sizes.size(); ++d) {
    if (map.sizes[d] != 1) map.dims[d] = result.dims[lead + d];
  }
}

void block_all(ConcreteRule& rule) {
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) block(rule, f);
}

ConcreteRule build_index(const Call& call, Words) {
  check_count(call, 1, 1 + call.inputs.size());
  Indexed x = index_dims(call, call.inputs.size() - 1);
  if (x.masks) {
    // The number of true elements: only known after the run.
    std::size_t used = 0;
    for (std::size_t i = 1; i < call.inputs.size(); ++i) {
      const Operand& o = call.inputs[i];
      used += o.present && is_mask(o.meta.dtype) ? o.meta.sizes.size() : 1;
    }
    block_all(x.rule);
    for (TensorMap& map : x.rule.inputs) map.dims.assign(map.sizes.size(), {});
    const std::size_t ndim = x.self.size() + 1 - std::min(used, x.self.size());
    x.rule.outputs.push_back(whole(Shape(ndim, -1)));
    x.rule.dynamic = true;
    return std::move(x.rule);
  }
  for (std::size_t d = 0; d < x.self.size(); ++d) {
    if (x.taken[d] == 0) continue;
    if (x.count == 1) {
      look_up(x.rule, x.self[d], "index", call);
    } else {
      block(x.rule, x.self[d]);
    }
  }
  x.rule.inputs[0].linear = true;
  x.rule.partial = PartialRule::any;
  x.rule.outputs.push_back(std::move(x.result));
  return std::move(x.rule);
}

// index_put(self, indices, values, accumulate). Operands: self, indices ..., values.
ConcreteRule build_index_put(const Call& call, Words) {
  check_count(call, 3, 1 + call.inputs.size());
  const std::size_t values = call.inputs.size() - 1;
  Indexed x = index_dims(call, values - 1);
  TensorMap out = like(x.rule.inputs[0]);
  const bool one_mask = x.masks && x.count == 1 && call.inputs[1].present &&
                        product(call.inputs[values].meta.sizes) == 1;
  if (one_mask) {
    // self[mask] = number: elementwise over the dims of the mask.
    TensorMap& mask = x.rule.inputs[1];
    for (std::size_t d = 0; d < std::min(mask.sizes.size(), x.self.size()); ++d) {
      if (mask.sizes[d] == out.sizes[d]) put(mask, d, x.self[d]);
    }
  } else if (x.masks) {
    block_all(x.rule);
  } else {
    const bool add = call.boolean("accumulate", false);
    for (std::size_t d = 0; d < x.self.size(); ++d) {
      if (x.taken[d] != 0) write(x.rule, x.self[d]);
    }
    for (std::size_t f = 0; f < x.rule.factors.size(); ++f) {
      Factor& factor = x.rule.factors[f];
      if (factor.name.front() != 'i') continue;
      factor.kind = add ? FactorKind::reduce : FactorKind::blocked;
    }
    TensorMap& map = x.rule.inputs[values];
    put_last_dims(map, x.result);
    x.rule.inputs[0].linear = map.linear = true;
    x.rule.inputs[0].addend = add;
    map.term = 1;
    if (!add) x.rule.partial = PartialRule::any;
  }
  x.rule.outputs.push_back(std::move(out));
  return std::move(x.rule);
}

// Operands of the ops that look up or write where a mask is true: self, mask, indices ..., and
// values if something is written. The mask broadcasts to what the indices pick.
Indexed index_masked(const Call& call, bool writes) {
  check_count(call, writes ? 3 : 2, 2 + call.inputs.size());
  Call unmasked = call;
  unmasked.inputs.erase(unmasked.inputs.begin() + 1);
  Indexed x = index_dims(unmasked, unmasked.inputs.size() - (writes ? 2 : 1));
  x.rule.inputs.insert(x.rule.inputs.begin() + 1, whole(call.inputs[1].meta.sizes));
  for (std::size_t d = 0; d < x.self.size(); ++d) {
    if (x.taken[d] != 0) block(x.rule, x.self[d]);
  }
  put_last_dims(x.rule.inputs[1], x.result);
  return x;
}

ConcreteRule build_masked_index(const Call& call, Words) {
  Indexed x = index_masked(call, false);
  x.rule.inputs[0].linear = is_number(call, "fill", 0);
  x.rule.partial = PartialRule::any;
  x.rule.outputs.push_back(std::move(x.result));
  return std::move(x.rule);
}

ConcreteRule build_masked_add(const Call& call, Words) {
  Indexed x = index_masked(call, true);
  for (Factor& factor : x.rule.factors) {
    if (factor.name.front() == 'i') factor.kind = FactorKind::reduce;
  }
  TensorMap& values = x.rule.inputs.back();
  put_last_dims(values, x.result);
  x.rule.inputs[0].linear = x.rule.inputs[0].addend = values.linear = true;
  values.term = 1;
  x.rule.outputs.push_back(like(x.rule.inputs[0]));
  return std::move(x.rule);
}

// take(self, index): from the flattened self.
ConcreteRule build_take(const Call& call, Words) {
  check_count(call, 2, 2);
  ConcreteRule rule = pointwise_rule(call, std::vector<std::size_t>{1});
  rule.inputs[0].linear = true;
  rule.partial = PartialRule::any;
  return rule;
}

// isin, bucketize: elementwise in the first operand, the others whole.
ConcreteRule build_first(const Call& call, Words) {
  return pointwise_rule(call, std::vector<std::size_t>{0});
}

constexpr Row kRows[] = {
    {"aten::_unsafe_masked_index", "index_where"},
    {"aten::_unsafe_masked_index_put_accumulate", "add_where"},
    {"aten::bucketize.Tensor", "elements_of_first"},
    {"aten::gather", "gather"},
    {"aten::index.Tensor", "index"},
    {"aten::index_add", "+... v~index_write@dim, t, *... t@dim -> ="},
    {"aten::index_copy", "... v~index_write@dim, t!, ... t!@dim -> ="},
    {"aten::index_fill.int_Tensor", "... v~index_write@dim, t!, () -> ="},
    {"aten::index_fill.int_Scalar", "... v~index_write@dim, t! -> ="},
    {"aten::index_put", "index_put"},
    {"aten::index_reduce", "... v~index_write@dim, t!, ... t!@dim -> ="},
    {"aten::index_select", "index_select"},
    {"aten::isin.Tensor_Scalar", "elements_of_first"},
    {"aten::isin.Tensor_Tensor", "elements_of_first"},
    {"aten::scatter.src", "scatter move"},
    {"aten::scatter.value", "scatter value"},
    {"aten::scatter_add", "scatter add"},
    {"aten::scatter_reduce.two", "scatter reduce"},
    {"aten::take", "take"},
};

constexpr NamedBuilder kBuilders[] = {
    {"add_where", build_masked_add},
    {"elements_of_first", build_first},
    {"gather", build_gather},
    {"index", build_index},
    {"index_put", build_index_put},
    {"index_select", build_index_select},
    {"index_where", build_masked_index},
    {"scatter", build_scatter},
    {"take", build_take},
};

}  // namespace

Family indexing_family() { return {"indexing", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
