// Ops on each element of their broadcast operands.
//
//   pointwise                 no partial passes
//   pointwise linear          one operand, f(a + b) = f(a) + f(b)
//   pointwise additive        a sum of the operands: all P together
//   pointwise multilinear     a product: one operand P
//   pointwise first           linear in the first operand only (a quotient)
//   pointwise quotient        as first, unless attribute `rounding_mode` is given
//   pointwise blend           a sum of the first two, weighted by the rest
//   pointwise addcmul         first + second * third
//   pointwise addcdiv         first + second / third
//   pointwise monotone        increasing in each operand: P(max), P(min) of one operand pass
//   pointwise cast            linear unless the result is integer or bool
//   pointwise choose A B ...  element of operand A or of operand B ...: every kind of partial
//   pointwise zero=NAME A     every kind passes for operand A if attribute NAME is 0
//   prelu                     the second operand goes with dim 1, or is one number
//   pointwise view            the result is a view of the first operand
//
// Traps: a python number is one more term of a sum (x + 1 with x P would add it once a rank). Log
// and sqrt increase, but one rank's part of a P(max) may lie outside their domain.

#include "hyper_parallel/rules/families/pointwise.h"

#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

void set_linear(ConcreteRule& rule, std::size_t input, int term) {
  if (input >= rule.inputs.size()) return;
  rule.inputs[input].linear = true;
  rule.inputs[input].term = term;
}

std::size_t operand_number(std::string_view word) { return number_of(word); }

void set_partial(ConcreteRule& rule, const Call& call, Words words) {
  const std::string_view word = words.front();
  const std::size_t n = call.inputs.size();
  if (word == "additive") {
    for (std::size_t i = 0; i < n; ++i) set_linear(rule, i, static_cast<int>(i));
  } else if (word == "multilinear" || word == "monotone") {
    for (std::size_t i = 0; i < n; ++i) set_linear(rule, i, 0);
    if (word == "monotone") rule.partial = PartialRule::monotone;
  } else if (word == "blend" || word == "addcmul" || word == "addcdiv") {
    set_linear(rule, 0, 0);
    set_linear(rule, 1, 1);
    if (word == "addcmul") set_linear(rule, 2, 1);
  } else if (word == "choose") {
    rule.partial = PartialRule::any;
    for (std::size_t i = 1; i < words.size(); ++i) {
      set_linear(rule, operand_number(words[i]), static_cast<int>(i));
    }
  } else if (word.starts_with("zero=")) {
    if (!is_number(call, word.substr(5), 0)) return;
    rule.partial = PartialRule::any;
    set_linear(rule, operand_number(words[1]), 0);
  } else if (word == "linear" || word == "first" || (word == "cast" && !to_integral(call)) ||
             (word == "quotient" && !call.has("rounding_mode"))) {
    set_linear(rule, 0, 0);
  }
}

ConcreteRule build(const Call& call, Words words) {
  ConcreteRule rule = pointwise_rule(call);
  if (!words.empty()) set_partial(rule, call, words);
  rule.aliases = has_word(words, "view");
  return rule;
}

ConcreteRule build_prelu(const Call& call, Words) {
  check_count(call, 2, 2);
  ConcreteRule rule = pointwise_rule(call, std::vector<std::size_t>{0});
  const Shape& weight = call.inputs[1].meta.sizes;
  const std::size_t ndim = call.inputs[0].meta.sizes.size();
  if (product(weight) == 1 || ndim < 2) return rule;
  check_ndim(call, 1, 1);
  if (weight[0] != call.inputs[0].meta.sizes[1]) {
    throw_sizes(call, 1, 0, weight[0], call.inputs[0].meta.sizes[1], "dim 1 of self");
  }
  rule.inputs[1].dims[0] = rule.inputs[0].dims[1];
  return rule;
}

constexpr Row kRows[] = {{"aten::frexp.Tensor", "... -> =, ="}, {"aten::prelu", "prelu"}};

constexpr Group kGroups[] = {
    {"pointwise",
     "__and__.Scalar __and__.Tensor __iand__.Scalar __iand__.Tensor __ilshift__.Scalar "
     "__ilshift__.Tensor __ior__.Scalar __ior__.Tensor __irshift__.Scalar __irshift__.Tensor "
     "__ixor__.Scalar __ixor__.Tensor __lshift__.Scalar __lshift__.Tensor __or__.Scalar "
     "__or__.Tensor __rshift__.Scalar __rshift__.Tensor __xor__.Scalar __xor__.Tensor abs absolute "
     "acos acosh add.Scalar angle arccos arccosh arcsin arctan2 arctanh asin atan2 atanh "
     "bitwise_and.Scalar bitwise_and.Tensor bitwise_left_shift.Tensor bitwise_not "
     "bitwise_or.Scalar bitwise_or.Tensor bitwise_right_shift.Tensor bitwise_xor.Scalar "
     "bitwise_xor.Tensor celu copysign.Scalar copysign.Tensor cos cosh digamma elu eq.Scalar "
     "eq.Tensor erfc erfinv float_power.Tensor_Scalar float_power.Tensor_Tensor floor_divide "
     "floor_divide.Scalar fmod.Scalar fmod.Tensor frac gcd ge.Scalar ge.Tensor gelu "
     "greater.Scalar greater.Tensor greater_equal.Scalar greater_equal.Tensor gt.Scalar gt.Tensor "
     "hardshrink hardswish heaviside hypot i0 igamma igammac isclose isfinite isinf isnan "
     "isneginf isposinf isreal lcm le.Scalar le.Tensor leaky_relu less.Scalar less.Tensor "
     "less_equal.Scalar less_equal.Tensor lgamma log log10 log1p log2 logaddexp logaddexp2 "
     "logical_and logical_not logical_or logical_xor logit lt.Scalar lt.Tensor mish mvlgamma "
     "nan_to_num ne.Scalar ne.Tensor nextafter not_equal.Scalar not_equal.Tensor polygamma "
     "polar pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor reciprocal remainder.Scalar "
     "remainder.Scalar_Tensor remainder.Tensor rsqrt rsub.Scalar selu sgn signbit silu sin sinc "
     "softshrink sqrt square sub.Scalar subtract.Scalar tan threshold where.Scalar "
     "xlogy.Scalar_Other xlogy.Scalar_Self xlogy.Tensor"},
    {"pointwise",
     "ldexp.Tensor special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 "
     "special_bessel_y1 special_chebyshev_polynomial_t special_chebyshev_polynomial_t.n_scalar "
     "special_chebyshev_polynomial_t.x_scalar special_chebyshev_polynomial_u "
     "special_chebyshev_polynomial_u.n_scalar special_chebyshev_polynomial_u.x_scalar "
     "special_chebyshev_polynomial_v special_chebyshev_polynomial_v.n_scalar "
     "special_chebyshev_polynomial_v.x_scalar special_chebyshev_polynomial_w "
     "special_chebyshev_polynomial_w.n_scalar special_chebyshev_polynomial_w.x_scalar "
     "special_entr special_erfcx special_hermite_polynomial_h "
     "special_hermite_polynomial_h.n_scalar special_hermite_polynomial_h.x_scalar "
     "special_hermite_polynomial_he special_hermite_polynomial_he.n_scalar "
     "special_hermite_polynomial_he.x_scalar special_i0e special_i1 special_i1e "
     "special_laguerre_polynomial_l special_laguerre_polynomial_l.n_scalar "
     "special_laguerre_polynomial_l.x_scalar special_legendre_polynomial_p "
     "special_legendre_polynomial_p.n_scalar special_legendre_polynomial_p.x_scalar "
     "special_log_ndtr special_modified_bessel_i0 special_modified_bessel_i1 "
     "special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri "
     "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 "
     "special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_t.n_scalar "
     "special_shifted_chebyshev_polynomial_t.x_scalar special_shifted_chebyshev_polynomial_u "
     "special_shifted_chebyshev_polynomial_u.n_scalar "
     "special_shifted_chebyshev_polynomial_u.x_scalar special_shifted_chebyshev_polynomial_v "
     "special_shifted_chebyshev_polynomial_v.n_scalar "
     "special_shifted_chebyshev_polynomial_v.x_scalar special_shifted_chebyshev_polynomial_w "
     "special_shifted_chebyshev_polynomial_w.n_scalar "
     "special_shifted_chebyshev_polynomial_w.x_scalar special_spherical_bessel_j0 "
     "special_xlog1py special_xlog1py.other_scalar special_xlog1py.self_scalar special_zeta "
     "special_zeta.other_scalar special_zeta.self_scalar"},
    {"pointwise monotone",
     "arcsinh arctan asinh atan ceil clamp clamp.Tensor clamp_max clamp_max.Tensor clamp_min "
     "clamp_min.Tensor clip clip.Tensor erf exp exp2 expm1 fix floor fmax fmin hardsigmoid "
     "hardtanh log_sigmoid max.other maximum min.other minimum relu relu6 round round.decimals "
     "sigmoid sign sinh softplus tanh trunc"},
    {"pointwise linear",
     "conj_physical deg2rad div.Scalar divide.Scalar mul.Scalar multiply.Scalar neg negative "
     "rad2deg true_divide.Scalar"},
    {"pointwise linear view", "_conj _neg_view conj imag positive real resolve_conj resolve_neg"},
    {"pointwise additive", "add.Tensor complex rsub.Tensor sub.Tensor subtract.Tensor"},
    {"pointwise multilinear", "mul.Tensor multiply.Tensor"},
    {"pointwise first", "div.Tensor divide.Tensor native_dropout_backward true_divide.Tensor"},
    {"pointwise quotient", "div.Scalar_mode div.Tensor_mode divide.Scalar_mode divide.Tensor_mode"},
    {"pointwise blend", "lerp.Scalar lerp.Tensor"},
    {"pointwise addcmul", "addcmul"},
    {"pointwise addcdiv", "addcdiv"},
    {"pointwise choose 1 2", "where.self"},
    {"pointwise choose 0 2", "masked_fill.Tensor"},
    {"pointwise zero=other 1", "where.ScalarOther"},
    {"pointwise zero=self 1", "where.ScalarSelf"},
    {"pointwise zero=value 0", "masked_fill.Scalar"},
    {"pointwise cast", "_to_copy to.device to.dtype to.dtype_layout"},
};

constexpr NamedBuilder kBuilders[] = {{"pointwise", build}, {"prelu", build_prelu}};

}  // namespace

ConcreteRule pointwise_rule(const Call& call) {
  std::vector<std::size_t> all(call.inputs.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return pointwise_rule(call, all);
}

ConcreteRule pointwise_rule(const Call& call, std::span<const std::size_t> operands) {
  if (call.inputs.empty()) check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  TensorMap out = whole(broadcast_shape(call, operands));
  for (std::size_t d = 0; d < out.sizes.size(); ++d) {
    if (out.sizes[d] != 1) put(out, d, add_factor(rule, "d" + std::to_string(d), out.sizes[d]));
  }
  for (std::size_t i : operands) {
    TensorMap& map = rule.inputs[i];
    if (!map.present) continue;
    const std::size_t lead = out.sizes.size() - map.sizes.size();
    for (std::size_t d = 0; d < map.sizes.size(); ++d) {
      if (map.sizes[d] != 1) map.dims[d] = out.dims[lead + d];
    }
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

Family pointwise_family() { return {"pointwise", kRows, kGroups, kBuilders}; }

}  // namespace hyper_parallel::rules
