// List ops: one op on each element of its lists. Each element is a call of its own with its own
// strategy; single tensors are shared by all.
//
//   each OP      the rule of aten::OP for each element; "=": the op named after _foreach_
//   fused        an optimizer step: elementwise over a parameter, its gradient and states

#include <algorithm>

#include "hyper_parallel/rules/families/families.h"
#include "hyper_parallel/rules/families/pointwise.h"

namespace hyper_parallel::rules {
namespace {

// Operands of element i of each list; single tensors as they are. Empty lists are skipped.
std::vector<std::vector<int>> elements(const Call& call) {
  std::size_t count = 0;
  for (int n : call.list_lengths) count = std::max(count, static_cast<std::size_t>(std::max(n, 0)));
  std::vector<std::vector<int>> out(count);
  int next = 0;
  for (int n : call.list_lengths) {
    if (n > 0 && static_cast<std::size_t>(n) != count) {
      throw UsageError(Message("HP-S011", call.op + ": lists of different lengths")
                           .fact("longest", std::to_string(count))
                           .fact("another", std::to_string(n)));
    }
    for (std::size_t i = 0; i < count && n != 0; ++i) {
      out[i].push_back(n < 0 ? next : next + static_cast<int>(i));
    }
    next += n < 0 ? 1 : n;
  }
  return out;
}

const Row& base_row(const Call& call, std::string_view word) {
  std::string name = "aten::" + std::string(word);
  if (word == "=") {
    constexpr std::string_view kPrefix = "aten::_foreach_";
    std::string_view op = call.op;
    op.remove_prefix(std::min(kPrefix.size(), op.size()));
    while (op.ends_with("_")) op.remove_suffix(1);
    name = "aten::" + std::string(op);
  }
  const Row* row = find_row(name);
  check_internal(row != nullptr, call.op + ": no row " + name);
  return *row;
}

ConcreteRule build_each(const Call& call, Words words) {
  ConcreteRule rule = start(call);
  const Row& row = base_row(call, words.front());
  const bool in_place = !call.inputs.empty() && call.inputs[0].pinned;
  for (std::vector<int>& inputs : elements(call)) {
    Part part;
    part.inputs = std::move(inputs);
    Call one;
    one.op = call.op;
    one.mesh = call.mesh;
    one.attrs = call.attrs;
    for (int i : part.inputs) {
      one.inputs.push_back(call.inputs[static_cast<std::size_t>(i)]);
      one.list_lengths.push_back(-1);
    }
    part.rule = concretize(row, one);
    // In place the op returns nothing.
    for (std::size_t o = 0; o < part.rule.outputs.size() && !in_place; ++o) {
      part.outputs.push_back(static_cast<int>(rule.outputs.size()));
      rule.outputs.push_back(part.rule.outputs[o]);
    }
    rule.parts.push_back(std::move(part));
  }
  return rule;
}

ConcreteRule build_fused(const Call& call, Words) {
  ConcreteRule rule = start(call);
  rule.handler = "fused";
  // Gradients are written only to unscale them.
  const bool scaled = std::any_of(call.inputs.begin(), call.inputs.end(), [](const Operand& o) {
    return o.present && o.name == "grad_scale";
  });
  const int count = call.list_lengths.empty() ? 0 : std::max(call.list_lengths[0], 0);
  for (std::vector<int>& inputs : elements(call)) {
    Part part;
    part.inputs = std::move(inputs);
    Call one;
    one.op = call.op;
    one.mesh = call.mesh;
    for (int i : part.inputs) one.inputs.push_back(call.inputs[static_cast<std::size_t>(i)]);
    part.rule = pointwise_rule(one);
    part.rule.outputs.clear();
    for (std::size_t i = 0; i < part.inputs.size(); ++i) {
      const bool grad = part.inputs[i] >= count && part.inputs[i] < 2 * count;
      part.rule.inputs[i].ignore_pin = grad && !scaled;
    }
    rule.parts.push_back(std::move(part));
  }
  return rule;
}

constexpr Group kGroups[] = {
    {"each =",
     "_foreach_abs _foreach_acos _foreach_asin _foreach_atan _foreach_ceil _foreach_cos "
     "_foreach_cosh _foreach_erf _foreach_erfc _foreach_exp _foreach_expm1 _foreach_floor "
     "_foreach_frac _foreach_lgamma _foreach_log _foreach_log10 _foreach_log1p _foreach_log2 "
     "_foreach_max _foreach_neg _foreach_reciprocal _foreach_round _foreach_rsqrt "
     "_foreach_sigmoid _foreach_sign _foreach_sin _foreach_sinh _foreach_sqrt _foreach_tan "
     "_foreach_tanh _foreach_trunc _foreach_zero"},
    {"each add.Scalar", "_foreach_add.Scalar _foreach_add.ScalarList"},
    {"each add.Tensor", "_foreach_add.List _foreach_add.Tensor"},
    {"each sub.Scalar", "_foreach_sub.Scalar _foreach_sub.ScalarList"},
    {"each sub.Tensor", "_foreach_sub.List"},
    {"each mul.Scalar", "_foreach_mul.Scalar _foreach_mul.ScalarList"},
    {"each mul.Tensor", "_foreach_mul.List _foreach_mul.Tensor"},
    {"each div.Scalar", "_foreach_div.Scalar _foreach_div.ScalarList"},
    {"each div.Tensor", "_foreach_div.List _foreach_div.Tensor"},
    {"each addcmul", "_foreach_addcmul.Scalar _foreach_addcmul.ScalarList"},
    {"each addcdiv", "_foreach_addcdiv.Scalar _foreach_addcdiv.ScalarList"},
    {"each lerp.Scalar", "_foreach_lerp.Scalar _foreach_lerp.ScalarList"},
    {"each lerp.Tensor", "_foreach_lerp.List"},
    {"each pow.Tensor_Scalar", "_foreach_pow.Scalar _foreach_pow.ScalarList"},
    {"each pow.Tensor_Tensor", "_foreach_pow.List"},
    {"each clamp_max",
     "_foreach_clamp_max.Scalar _foreach_clamp_max.ScalarList "
     "_foreach_minimum.Scalar _foreach_minimum.ScalarList"},
    {"each clamp_min",
     "_foreach_clamp_min.Scalar _foreach_clamp_min.ScalarList "
     "_foreach_maximum.Scalar _foreach_maximum.ScalarList"},
    {"each maximum", "_foreach_clamp_min.List _foreach_maximum.List"},
    {"each minimum", "_foreach_clamp_max.List _foreach_minimum.List"},
    {"each linalg_vector_norm", "_foreach_norm.Scalar"},
    {"each copy", "_foreach_copy"},
    {"fused",
     "_fused_adagrad_ _fused_adam_ _fused_adam_.tensor_lr _fused_adamw_ _fused_adamw_.tensor_lr "
     "_fused_sgd_ _fused_sgd_.tensor_lr"},
};

constexpr NamedBuilder kBuilders[] = {{"each", build_each}, {"fused", build_fused}};

}  // namespace

Family optimizer_family() { return {"optimizer", {}, kGroups, kBuilders}; }

}  // namespace hyper_parallel::rules
