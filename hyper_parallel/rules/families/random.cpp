// Random numbers: one draw for each element of the result, so every dim passes and the runtime
// draws what one device would draw. Dropout is linear: all ranks of a P share one mask.

#include "hyper_parallel/rules/families/families.h"
#include "hyper_parallel/rules/families/pointwise.h"

namespace hyper_parallel::rules {
namespace {

ConcreteRule build_dropout(const Call& call, Words words) {
  check_count(call, 1, 1);
  ConcreteRule rule = pointwise_rule(call);
  rule.random = call.boolean("train", false) && !is_number(call, "p", 0);
  // A shift is no part of a sum.
  rule.inputs[0].linear = !rule.random || !has_word(words, "alpha");
  if (has_word(words, "native")) {
    rule.outputs.push_back(rule.outputs[0]);
    rule.inputs[0].linear = false;  // the mask is not partial
    // Of an empty piece the mask has another type, unless it is drawn.
    if (!rule.random) fill_all(rule);
  }
  return rule;
}

// fill: parameters are numbers, and the first operand lends its shape; over: it is overwritten by
// what the others say. Else operands are parameters.
ConcreteRule build_draw(const Call& call, Words words) {
  ConcreteRule rule = pointwise_rule(call);
  rule.random = true;
  if (has_word(words, "fill") || has_word(words, "over")) rule.inputs[0].shape_only = true;
  return rule;
}

// rrelu_with_noise(self, noise): in training a slope for each negative element, left in noise.
ConcreteRule build_rrelu(const Call& call, Words) {
  check_count(call, 2, 2);
  ConcreteRule rule = pointwise_rule(call);
  rule.random = call.boolean("training", false);
  rule.inputs[1].ignore_pin = !rule.random;  // written in training alone
  return rule;
}

// multinomial: draws for rows; [n, classes] -> [n, samples].
ConcreteRule build_multinomial(const Call& call, Words) {
  check_count(call, 1, 1);
  if (call.inputs[0].meta.sizes.empty()) check_ndim(call, 0, 2);
  ConcreteRule rule = start(call);
  Shape sizes = call.inputs[0].meta.sizes;
  sizes.back() = call.integer("num_samples", 1);
  rule.outputs.push_back(whole(std::move(sizes)));
  rule.random = true;
  return rule;
}

constexpr Group kGroups[] = {
    {"dropout", "dropout"},
    {"dropout alpha", "alpha_dropout"},
    {"dropout alpha channels", "feature_alpha_dropout"},
    {"dropout channels", "feature_dropout"},
    {"dropout native", "native_dropout"},
    {"draw",
     "bernoulli bernoulli.Tensor normal.Tensor_Tensor "
     "normal.Tensor_float normal.float_Tensor poisson"},
    {"draw over", "bernoulli_.Tensor"},
    {"draw fill",
     "bernoulli.p bernoulli_.float cauchy_ exponential_ geometric_ log_normal_ normal_ "
     "normal_functional rand_like randint_like randint_like.low_dtype randn_like random_ "
     "random_.from random_.to uniform uniform_"},
    {"multinomial", "multinomial"},
    {"rrelu", "rrelu_with_noise"},
};

constexpr NamedBuilder kBuilders[] = {{"draw", build_draw},
                                      {"dropout", build_dropout},
                                      {"multinomial", build_multinomial},
                                      {"rrelu", build_rrelu}};

}  // namespace

Family random_family() { return {"random", {}, kGroups, kBuilders}; }

}  // namespace hyper_parallel::rules
