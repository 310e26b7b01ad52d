// New tensors from the shape of another, and ops that overwrite a tensor.
//
// The values of the first operand do not matter, so it is never moved and a P of it gives R: ranks
// agree on zeros. Writing equal values into a P in place would change the sum, so that is refused,
// except for zeros.

#include "hyper_parallel/rules/families/families.h"
#include "hyper_parallel/rules/families/pointwise.h"

namespace hyper_parallel::rules {
namespace {

ConcreteRule build_like(const Call& call, Words) {
  ConcreteRule rule = pointwise_rule(call, std::vector<std::size_t>{0});
  TensorMap& self = rule.inputs[0];
  self.shape_only = true;
  // Nothing is broadcast, so a dim of size 1 may be split: one rank holds it, others nothing.
  for (std::size_t d = 0; d < self.dims.size(); ++d) {
    if (self.sizes[d] != 1) continue;
    const int f = add_factor(rule, "d" + std::to_string(d), 1);
    put(self, d, f);
    put(rule.outputs[0], d, f);
  }
  return rule;
}

// new_zeros(self, size, ...): like self where the sizes are the same, else replicated. With strides
// always replicated.
ConcreteRule build_new(const Call& call, Words words) {
  check_count(call, 1, 1);
  const Shape size = call.integers("size");
  if (size == call.inputs[0].meta.sizes && !has_word(words, "strided")) {
    ConcreteRule rule = build_like(call, {});
    rule.rewrites.push_back({Rewrite::Kind::local_shape, "size", 0, 0});
    return rule;
  }
  ConcreteRule rule = start(call);
  rule.inputs[0].shape_only = true;
  rule.outputs.push_back(whole(size));
  return rule;
}

// copy(self, src): src broadcast to self. In place self stays as it is; else its piece must be as
// large as that of src.
ConcreteRule build_copy(const Call& call, Words) {
  check_count(call, 2, 2);
  ConcreteRule rule = pointwise_rule(call);
  if (rule.outputs[0].sizes != call.inputs[0].meta.sizes) {
    throw UsageError(Message("HP-S002", call.op + ": src does not broadcast to self"));
  }
  rule.inputs[0].shape_only = call.inputs[0].pinned;
  rule.inputs[1].linear = !is_integral(call.inputs[0].meta.dtype) ||
                          call.inputs[0].meta.dtype == call.inputs[1].meta.dtype;
  rule.partial = PartialRule::any;
  return rule;
}

// linspace, logspace with bounds in tensors.
ConcreteRule build_steps(const Call& call, Words) {
  ConcreteRule rule = start(call);
  rule.outputs.push_back(whole({call.integer("steps", 0)}));
  return rule;
}

// type_as(self, other), to.other: only the type of other matters.
ConcreteRule build_type_as(const Call& call, Words) {
  check_count(call, 2, 2);
  ConcreteRule rule = pointwise_rule(call, std::vector<std::size_t>{0});
  rule.inputs[1].shape_only = true;
  rule.inputs[0].linear = !is_integral(call.inputs[1].meta.dtype);
  return rule;
}

constexpr Group kGroups[] = {
    {"like", "empty_like fill.Scalar fill.Tensor full_like ones_like zeros_like"},
    {"new", "new_empty new_full new_ones new_zeros"},
    {"new strided", "new_empty_strided"},
    {"pointwise linear", "zero"},
    {"copy", "copy"},
    {"steps",
     "linspace.Scalar_Tensor linspace.Tensor_Scalar linspace.Tensor_Tensor logspace.Scalar_Tensor "
     "logspace.Tensor_Scalar logspace.Tensor_Tensor"},
    {"type_as", "to.other type_as"},
};

constexpr NamedBuilder kBuilders[] = {{"copy", build_copy},
                                      {"like", build_like},
                                      {"new", build_new},
                                      {"steps", build_steps},
                                      {"type_as", build_type_as}};

}  // namespace

Family factory_family() { return {"factory", {}, kGroups, kBuilders}; }

}  // namespace hyper_parallel::rules
