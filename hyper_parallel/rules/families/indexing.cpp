// Look-ups by index tensors.
//
// A looked-up dim that is split is a masked look-up with result P(sum): handlers gather,
// index_select and index. Truth values cannot be summed, so there the dim must be whole.

#include <algorithm>

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"
#include "hyper_parallel/rules/families/indexing.h"
#include "hyper_parallel/rules/families/pointwise.h"
#include "hyper_parallel/rules/text/notation.h"

namespace hyper_parallel::rules {
namespace {

void look_up(ConcreteRule& rule, int factor, std::string_view handler, const Call& call) {
  if (call.inputs[0].meta.dtype == DType::boolean) return block(rule, factor);
  sum_over(rule, factor);
  run_by(rule, factor, handler);
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

ConcreteRule build_index_select(const Call& call, Words) {
  static const Notation kSums = parse_notation("*... v~index_select@dim, i -> ... i@dim; any");
  static const Notation kWhole = parse_notation("*... v!@dim, i -> ... i@dim; any");
  const bool truth = !call.inputs.empty() && call.inputs[0].meta.dtype == DType::boolean;
  const Notation& notation = truth ? kWhole : kSums;
  check_count(call, 2, 2);
  if (!call.inputs[1].meta.sizes.empty()) return concretize(notation, call);
  Call one = call;
  one.inputs[1].meta.sizes = {1};
  ConcreteRule rule = concretize(notation, one);
  rule.inputs[1] = whole({});
  return rule;
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

ConcreteRule build_masked_index(const Call& call, Words) {
  Indexed x = index_masked(call, false);
  x.rule.inputs[0].linear = is_number(call, "fill", 0);
  x.rule.partial = PartialRule::any;
  x.rule.outputs.push_back(std::move(x.result));
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
    {"aten::bucketize.Tensor", "elements_of_first"},
    {"aten::gather", "gather"},
    {"aten::index.Tensor", "index"},
    {"aten::index_select", "index_select"},
    {"aten::isin.Tensor_Scalar", "elements_of_first"},
    {"aten::isin.Tensor_Tensor", "elements_of_first"},
    {"aten::take", "take"},
};

constexpr NamedBuilder kBuilders[] = {
    {"elements_of_first", build_first},
    {"gather", build_gather},
    {"index", build_index},
    {"index_select", build_index_select},
    {"index_where", build_masked_index},
    {"take", build_take},
};

}  // namespace

Family indexing_family() { return {"indexing", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
