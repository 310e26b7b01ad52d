// Losses. reduction: 0 none, 1 mean, 2 sum (torch's numbers).
//
// cross_entropy_loss(self [n, c, d1, ...] or [c], target, weight? [c]). Split classes: the owner of
// a token's class counts its logit, rank 0 the logarithm of the sum, so each token's loss is P(sum)
// and needs no communication backward. Split tokens: P(sum), over the global count of tokens.

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"
#include "hyper_parallel/rules/families/pointwise.h"

namespace hyper_parallel::rules {
namespace {

constexpr std::int64_t kNone = 0;
constexpr std::int64_t kMean = 1;

std::int64_t reduction(const Call& call) { return call.integer("reduction", kMean); }

void reduce_tokens(ConcreteRule& rule, int f, const Call& call, std::string_view handler) {
  if (reduction(call) == kNone) return;
  sum_over(rule, f);
  run_by(rule, f, handler);
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
      add_dim(out, self[d], factors[d]);
      reduce_tokens(rule, factors[d], call, handler);
    }
    if (d == c && !probabilities) continue;
    if (target[t] != self[d]) throw_sizes(call, 1, t, target[t], self[d], "self");
    put(rule.inputs[1], t, factors[d]);
  }
  rename(rule, factors[c], "c");
  sum_over(rule, factors[c]);
  run_by(rule, factors[c], handler);
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

// cross_entropy_with_softmax(logits, label; dim, soft_label) -> softmax, loss. The loss has size 1
// in the class dim, and so has the label unless it is soft. Split classes: the handler gives each
// rank the whole loss.
ConcreteRule build_with_softmax(const Call& call, Words) {
  check_count(call, 2, 2);
  const Shape& sizes = call.inputs[0].meta.sizes;
  const Shape& label = call.inputs[1].meta.sizes;
  const std::size_t ndim = sizes.size();
  if (ndim == 0) check_ndim(call, 0, 2);
  check_ndim(call, 1, sizes.size());
  const auto c = dim_of(call, "dim", -1, ndim);
  const bool soft = call.boolean("soft_label", false);
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread(rule, 0);
  TensorMap softmax = whole(sizes);
  softmax.dims = rule.inputs[0].dims;
  TensorMap loss = softmax;
  set_whole(loss, c, 1);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int64_t wanted = d == c && !soft ? 1 : sizes[d];
    if (label[d] != wanted) throw_sizes(call, 1, d, label[d], wanted, "the logits");
    if (wanted != 1) put(rule.inputs[1], d, factors[d]);
  }
  rename(rule, factors[c], "c");
  run_by(rule, factors[c], "softmax_cross_entropy");
  rule.outputs = {std::move(softmax), std::move(loss)};
  return rule;
}

// label_smooth(label [..., c], prior?): (1 - epsilon) label + epsilon prior, where no prior stands
// for 1 / c each. Trap: c is the global number of classes, and that constant is added once a rank.
ConcreteRule build_smooth(const Call& call, Words) {
  check_count(call, 1, 2);
  if (call.inputs[0].meta.sizes.empty()) check_ndim(call, 0, 1);
  ConcreteRule rule = pointwise_rule(call);
  if (rule.outputs[0].sizes != call.inputs[0].meta.sizes) {
    throw UsageError(Message("HP-S002", call.op + ": the prior does not broadcast to the label")
                         .fact("label", to_string(call.inputs[0].meta))
                         .fact("prior", to_string(call.inputs[1].meta)));
  }
  if (call.inputs.size() > 1 && call.inputs[1].present) {
    rule.inputs[0].linear = rule.inputs[1].linear = true;
    rule.inputs[1].term = 1;
    return rule;
  }
  for (int f : rule.outputs[0].dims.back()) {
    factor_of(rule, f).handler = "label_smooth";
  }
  return rule;
}

// ctc_loss(log_probs [t, n, c] or [t, c], targets [n, s] or one after the other; lengths):
// sequences pass by handler ctc_loss, which cuts the lengths.
ConcreteRule build_ctc(const Call& call, Words) {
  check_count(call, 2, 4);
  const Shape& sizes = call.inputs[0].meta.sizes;
  const Shape& targets = call.inputs[1].meta.sizes;
  if (sizes.size() != 2) check_ndim(call, 0, 3);
  ConcreteRule rule = start(call);
  TensorMap out;
  if (sizes.size() == 3) {
    add_dim(out, sizes[1]);
    const bool sum = reduction(call) != kNone;
    const int n = add_factor(rule, "n", sizes[1], {{rule.inputs[0], 1}, {out, 0}},
                             sum ? FactorKind::reduce : FactorKind::pass);
    run_by(rule, n, "ctc_loss");
    if (targets.size() == 2 && n != kNoFactor) {
      if (targets[0] != sizes[1]) throw_sizes(call, 1, 0, targets[0], sizes[1], "log_probs");
      put(rule.inputs[1], 0, n);
    }
  }
  rule.outputs.push_back(reduction(call) == kNone ? std::move(out) : TensorMap{});
  return rule;
}

// _linear_cross_entropy_batch_chunked(input [n, d], linear_weight [c, d], target [n], linear_bias?,
// weight?) -> loss, and the gradients of input, linear_weight and linear_bias, [0, 0] if they are
// not wanted. Tokens pass by the handler of this name.
ConcreteRule build_linear_classes(const Call& call, Words) {
  check_count(call, 3, 5);
  check_ndim(call, 0, 2);
  check_ndim(call, 1, 2);
  check_ndim(call, 2, 1);
  ConcreteRule rule = start(call);
  const std::int64_t tokens = call.inputs[0].meta.sizes[0];
  const std::int64_t targets = call.inputs[2].meta.sizes[0];
  if (targets != tokens) throw_sizes(call, 2, 0, targets, tokens, "input");
  const int n =
      add_factor(rule, "n", tokens, {{rule.inputs[0], 0}, {rule.inputs[2], 0}}, FactorKind::reduce);
  run_by(rule, n, "linear_cross_entropy");
  const Shape& weight = call.inputs[1].meta.sizes;
  TensorMap input = whole({0, 0});
  if (call.boolean("compute_input_grad", false)) {
    input = whole(call.inputs[0].meta.sizes);
    put(input, 0, n);
  }
  rule.outputs = {TensorMap{}, std::move(input),
                  whole(call.boolean("compute_linear_weight_grad", false) ? weight : Shape{0, 0}),
                  whole({call.boolean("compute_linear_bias_grad", false) ? weight[0] : 0})};
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
    fill(rule,
         add_factor(rule, "n", self[0], {{rule.inputs[0], 0}, {rule.inputs[1], 0}, {out, 0}}));
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
    {"aten::ctc_loss.IntList", "ctc_loss"},
    {"aten::ctc_loss.Tensor", "ctc_loss"},
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
    {"hyper_parallel::cross_entropy_with_softmax", "loss_with_softmax"},
    {"hyper_parallel::label_smooth", "label_smooth"},
    {"torch_nn::_linear_cross_entropy_batch_chunked", "linear_cross_entropy"},
    {"torch_nn::_linear_cross_entropy_batch_chunked_no_reduction",
     "n d!, c! d!, n, ?c!, ?*c! -> n"},
};

constexpr NamedBuilder kBuilders[] = {{"ctc_loss", build_ctc},
                                      {"label_smooth", build_smooth},
                                      {"linear_cross_entropy", build_linear_classes},
                                      {"loss_of_classes", build_classes},
                                      {"loss_of_pairs", build_pairs},
                                      {"loss_with_softmax", build_with_softmax},
                                      {"margin", build_margin}};

}  // namespace

Family loss_family() { return {"loss", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
