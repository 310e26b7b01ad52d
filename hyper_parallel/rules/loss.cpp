// Losses. reduction: 0 none, 1 mean, 2 sum (torch's numbers).
//
// cross_entropy_loss(self [n, c, d1, ...] or [c], target, weight? [c]). Split classes: the owner of
// a token's class counts its logit, rank 0 the logarithm of the sum, so each token's loss is P(sum)
// and needs no communication backward. Split tokens: P(sum), over the global count of tokens.

#include "hyper_parallel/rules/families.h"
#include "hyper_parallel/rules/make.h"
#include "hyper_parallel/rules/pointwise.h"

namespace hyper_parallel::rules {
namespace {

constexpr std::int64_t kNone = 0;
constexpr std::int64_t kMean = 1;

std::int64_t reduction(const Call& call) { return call.integer("reduction", kMean); }

void reduce_tokens(ConcreteRule& rule, int f, const Call& call, std::string_view handler) {
  if (f < 0 || reduction(call) == kNone) return;
  Factor& factor = rule.factors[static_cast<std::size_t>(f)];
  factor.kind = FactorKind::reduce;
  factor.handler = handler;
}

ConcreteRule build_classes(const Call& call, Words words) {
  check_count(call, 2, 3);
  const std::string_view handler = words.front();
  const Shape& self = call.inputs[0].meta.sizes;
  const Shape& target = call.inputs[1].meta.sizes;
  if (self.empty()) check_ndim(call, 0, 2);
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread(rule, 0);
  const std::size_t c = self.size() == 1 ? 0 : 1;
  const bool probabilities = handler == "cross_entropy" && target.size() == self.size() &&
                             !is_integral(call.inputs[1].meta.dtype);
  if (!probabilities) check_ndim(call, 1, self.size() - 1);
  TensorMap out;
  for (std::size_t d = 0; d < self.size(); ++d) {
    const std::size_t t = probabilities || d < c ? d : d - 1;
    if (d != c) {
      out.sizes.push_back(self[d]);
      out.dims.emplace_back();
      put(out, out.dims.size() - 1, factors[d]);
      reduce_tokens(rule, factors[d], call, handler);
    }
    if (d == c && !probabilities) continue;
    if (target[t] != self[d]) throw_sizes(call, 1, t, target[t], self[d], "self");
    put(rule.inputs[1], t, factors[d]);
  }
  if (factors[c] >= 0) {
    Factor& classes = rule.factors[static_cast<std::size_t>(factors[c])];
    classes.name = "c";
    classes.kind = FactorKind::reduce;
    classes.handler = handler;
  }
  if (call.inputs.size() > 2 && call.inputs[2].present) {
    check_ndim(call, 2, 1);
    if (call.inputs[2].meta.sizes[0] != self[c]) {
      throw_sizes(call, 2, 0, call.inputs[2].meta.sizes[0], self[c], "the classes");
    }
    put(rule.inputs[2], 0, factors[c]);
  }
  rule.inputs[0].linear = handler == "nll_loss";
  rule.outputs.push_back(reduction(call) == kNone ? std::move(out) : TensorMap{});
  return rule;
}

// Losses of pairs of elements.
ConcreteRule build_pairs(const Call& call, Words) {
  ConcreteRule rule = pointwise_rule(call);
  if (reduction(call) == kNone) return rule;
  for (Factor& factor : rule.factors) {
    factor.kind = FactorKind::reduce;
    if (reduction(call) == kMean) factor.handler = "mean_loss";
  }
  rule.outputs[0] = TensorMap{};
  return rule;
}

// multi_margin_loss, multilabel_margin_loss: one loss a row; the classes must be whole.
ConcreteRule build_margin(const Call& call, Words words) {
  check_count(call, 2, 3);
  const Shape& self = call.inputs[0].meta.sizes;
  ConcreteRule rule = start(call);
  TensorMap out;
  if (reduction(call) == kNone && self.size() > 1) {
    out = whole({self[0]});
    if (self[0] != 1) {
      const int n = add_factor(rule, "n", self[0]);
      rule.factors.back().nonempty = true;
      put(rule.inputs[0], 0, n);
      put(rule.inputs[1], 0, n);
      put(out, 0, n);
    }
  }
  rule.outputs.push_back(std::move(out));
  if (has_word(words, "native")) {
    TensorMap targets = whole(call.inputs[1].meta.sizes);
    targets.dims = rule.inputs[1].dims;
    rule.outputs.push_back(std::move(targets));
  }
  return rule;
}

constexpr Row kRows[] = {
    {"aten::binary_cross_entropy", "loss_of_pairs"},
    {"aten::binary_cross_entropy_with_logits", "loss_of_pairs"},
    {"aten::cross_entropy_loss", "loss_of_classes cross_entropy"},
    {"aten::huber_loss", "loss_of_pairs"},
    {"aten::kl_div", "loss_of_pairs"},
    {"aten::l1_loss", "loss_of_pairs"},
    {"aten::mse_loss", "loss_of_pairs"},
    {"aten::multi_margin_loss", "margin"},
    {"aten::multilabel_margin_loss_forward", "margin native"},
    {"aten::nll_loss", "loss_of_classes nll_loss"},
    {"aten::nll_loss2d", "loss_of_classes nll_loss"},
    {"aten::nll_loss_nd", "loss_of_classes nll_loss"},
    {"aten::smooth_l1_loss", "loss_of_pairs"},
    {"aten::soft_margin_loss", "loss_of_pairs"},
};

constexpr NamedBuilder kBuilders[] = {
    {"loss_of_classes", build_classes}, {"loss_of_pairs", build_pairs}, {"margin", build_margin}};

}  // namespace

Family loss_family() { return {"loss", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
