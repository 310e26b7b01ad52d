// Writes by index tensors.
//
// Where a dim that is written along is split, handler index_write lets each rank write what falls
// into its part. Adding may also be split over the things added: then the result is P(sum).

#include <algorithm>

#include "hyper_parallel/rules/families/families.h"
#include "hyper_parallel/rules/families/indexing.h"

namespace hyper_parallel::rules {
namespace {

// scatter: words "add" (adds src), "value" (no src), "move" (src replaces),
// "reduce" (attribute `reduce`).
ConcreteRule build_scatter(const Call& call, Words words) {
  const bool value = has_word(words, "value");
  check_count(call, value ? 2 : 3, value ? 2 : 3);
  Along a = along_dim(call, 1);
  const bool add = has_word(words, "add");
  run_by(a.rule, a.self, "index_write");
  if (add) {
    sum_over(a.rule, a.index);
  } else {
    block(a.rule, a.index);
  }
  a.rule.inputs[0].addend = add;
  if (!value) {
    // src may be larger than index: then its dims do not line up with those of index.
    if (call.inputs[2].meta.sizes == call.inputs[1].meta.sizes) {
      a.rule.inputs[2].dims = a.rule.inputs[1].dims;
    } else {
      block_all(a.rule);
    }
    a.rule.inputs[0].linear = a.rule.inputs[2].linear = add || has_word(words, "move");
    a.rule.inputs[2].term = 1;
    if (!add) a.rule.partial = PartialRule::any;
  }
  a.rule.outputs.push_back(like(a.rule.inputs[0]));
  return std::move(a.rule);
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
      if (x.taken[d] != 0) run_by(x.rule, x.self[d], "index_write");
    }
    for (int f : x.index) add ? sum_over(x.rule, f) : block(x.rule, f);
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

ConcreteRule build_masked_add(const Call& call, Words) {
  Indexed x = index_masked(call, true);
  for (int f : x.index) sum_over(x.rule, f);
  TensorMap& values = x.rule.inputs.back();
  put_last_dims(values, x.result);
  x.rule.inputs[0].linear = x.rule.inputs[0].addend = values.linear = true;
  values.term = 1;
  x.rule.outputs.push_back(like(x.rule.inputs[0]));
  return std::move(x.rule);
}

constexpr Row kRows[] = {
    {"aten::_unsafe_masked_index_put_accumulate", "add_where"},
    {"aten::index_add", "+... v~index_write@dim, t, *... t@dim -> ="},
    {"aten::index_copy", "... v~index_write@dim, t!, ... t!@dim -> ="},
    {"aten::index_fill.int_Tensor", "... v~index_fill@dim, t!, () -> ="},
    {"aten::index_fill.int_Scalar", "... v~index_fill@dim, t! -> ="},
    {"aten::index_put", "index_put"},
    {"aten::index_reduce", "... v~index_write@dim, t!, ... t!@dim -> ="},
    {"aten::scatter.src", "scatter move"},
    {"aten::scatter.value", "scatter value"},
    {"aten::scatter_add", "scatter add"},
    {"aten::scatter_reduce.two", "scatter reduce"},
};

constexpr NamedBuilder kBuilders[] = {
    {"add_where", build_masked_add},
    {"index_put", build_index_put},
    {"scatter", build_scatter},
};

}  // namespace

Family index_write_family() { return {"index_write", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
