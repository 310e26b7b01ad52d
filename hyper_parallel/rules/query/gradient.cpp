// Gradient inference: the rule of an op's gradient follows from the op's own rule.
//
// Where a mesh axis takes a factor of the forward, ranks compute the gradients of their own pieces:
// a gradient that has the factor is split, one that lacks it is a sum over the pieces, P(sum).
// There is one exception. Where the forward result is a sum over the factor (P), its addends come
// in as P too, and the gradient of such an addend is whole on each rank.
//
// The gradient is linear in the gradients of the results, together.

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/engine/state.h"
#include "hyper_parallel/rules/query/infer.h"

namespace hyper_parallel::rules {
namespace {

bool differentiable(const Operand& operand) {
  return operand.present && !is_integral(operand.meta.dtype);
}

// True if operands marked linear are so for sums, and not for a maximum or a product only.
bool is_additive(const ConcreteRule& rule) {
  switch (rule.partial) {
    case PartialRule::linear:
    case PartialRule::any:
      return true;
    case PartialRule::one:
      return rule.partial_op == ReduceOp::sum || rule.partial_op == ReduceOp::avg;
    case PartialRule::monotone:
      return false;
  }
  return false;
}

// A linear operand's value is no part of the gradient unless others multiply it.
bool lends_only_shape(const Query& query, std::size_t i) {
  const TensorMap& map = query.rule.inputs[i];
  if (map.shape_only || map.addend) return true;
  if (!map.linear || !is_additive(query.rule)) return false;
  for (std::size_t j = 0; j < query.call.inputs.size(); ++j) {
    if (j == i || !differentiable(query.call.inputs[j])) continue;
    const TensorMap& other = query.rule.inputs[j];
    if (!other.shape_only && (!other.linear || other.term == map.term)) return false;
  }
  return true;
}

void set_kind(const Query& query, int f, Factor& factor) {
  if (factor.kind == FactorKind::blocked) return;
  const bool summed = factor.kind == FactorKind::reduce;
  if (summed && factor.reduce != ReduceOp::sum && factor.reduce != ReduceOp::avg) {
    // Which rank has the maximum is not known there.
    factor.kind = FactorKind::blocked;
    return;
  }
  bool addends = false;
  bool others = false;
  for (std::size_t i = 0; i < query.rule.inputs.size(); ++i) {
    const TensorMap& map = query.rule.inputs[i];
    if (!differentiable(query.call.inputs[i]) || map.shape_only || holds(map, f)) continue;
    (map.addend ? addends : others) = true;
  }
  factor.kind = FactorKind::reduce;
  factor.reduce = ReduceOp::sum;
  if (summed && addends) factor.kind = others ? FactorKind::blocked : FactorKind::pass;
}

TensorMap plain(const TensorMap& map) {
  TensorMap out = map;
  out.linear = out.addend = out.shape_only = out.ignore_pin = false;
  out.term = 0;
  return out;
}

}  // namespace

ConcreteRule gradient_rule(const Query& query) {
  const ConcreteRule& forward = query.rule;
  if (!forward.parts.empty()) {
    throw UnsupportedError(
        Message("HP-S036", query.call.op + ": no gradient inference for list ops")
            .hint("ask for each element by the op without _foreach_"));
  }
  ConcreteRule out;
  out.factors = forward.factors;
  for (std::size_t f = 0; f < out.factors.size(); ++f) {
    set_kind(query, static_cast<int>(f), out.factors[f]);
  }
  out.handler = forward.handler;
  for (std::size_t i = 0; i < forward.inputs.size(); ++i) {
    out.inputs.push_back(plain(forward.inputs[i]));
    out.inputs.back().shape_only = lends_only_shape(query, i);
    out.outputs.push_back(plain(forward.inputs[i]));
    out.outputs.back().present =
        differentiable(query.call.inputs[i]) && !forward.inputs[i].shape_only;
  }
  bool linear = true;
  for (std::size_t i = 0; i < forward.inputs.size(); ++i) {
    if (differentiable(query.call.inputs[i])) linear &= out.inputs[i].shape_only;
  }
  for (const TensorMap& map : forward.outputs) {
    out.inputs.push_back(plain(map));
    out.inputs.back().shape_only = linear;
  }
  int term = 0;
  for (const TensorMap& map : forward.outputs) {
    TensorMap grad = plain(map);
    grad.linear = true;
    grad.term = term++;
    out.inputs.push_back(std::move(grad));
  }
  return out;
}

Gradient infer_grad(const Query& query, const GradientCall& given,
                    std::span<const Layout* const> wanted) {
  ConcreteRule rule = gradient_rule(query);
  const std::size_t inputs = query.rule.inputs.size();
  const std::size_t outputs = query.rule.outputs.size();
  Call call = query.call;
  call.op += " gradient";
  call.inputs.clear();
  const DType dtype = [&] {
    for (const Operand& o : query.call.inputs) {
      if (differentiable(o)) return o.meta.dtype;
    }
    return DType::f32;
  }();
  const auto add = [&](const std::vector<const Layout*>& layouts, std::size_t i, TensorMeta meta,
                       std::string name) {
    Operand operand;
    operand.present = i < layouts.size() && layouts[i] != nullptr;
    if (operand.present) operand.layout = layouts[i];
    operand.meta = std::move(meta);
    operand.name = std::move(name);
    // What only its shape is needed of decides nothing.
    if (rule.inputs[call.inputs.size()].shape_only) operand.present = false;
    rule.inputs[call.inputs.size()].present = operand.present;
    call.inputs.push_back(std::move(operand));
  };
  for (std::size_t i = 0; i < inputs; ++i) {
    const Operand& o = query.call.inputs[i];
    add(given.inputs, i, o.meta, o.name.empty() ? std::to_string(i) : o.name);
  }
  const auto result = [&](std::size_t i) {
    return TensorMeta{.sizes = query.rule.outputs[i].sizes, .dtype = dtype};
  };
  for (std::size_t i = 0; i < outputs; ++i) {
    add(given.outputs, i, result(i), "result " + std::to_string(i));
  }
  for (std::size_t i = 0; i < outputs; ++i) {
    add(given.out_grads, i, result(i), "gradient of result " + std::to_string(i));
  }
  call.list_lengths.assign(call.inputs.size(), -1);
  const Inference made = infer_forward(rule, call, wanted);
  Gradient out;
  const auto take = [&](std::size_t begin, std::size_t count) {
    return std::vector<const Layout*>(
        made.inputs.begin() + static_cast<std::ptrdiff_t>(begin),
        made.inputs.begin() + static_cast<std::ptrdiff_t>(begin + count));
  };
  out.inputs = take(0, inputs);
  out.outputs = take(inputs, outputs);
  out.out_grads = take(inputs + outputs, outputs);
  for (std::size_t i = 0; i < inputs; ++i) {
    out.grads.push_back(rule.outputs[i].present ? made.outputs[i] : nullptr);
  }
  out.changes = made.changes;
  out.handler = made.handler;
  out.bytes = made.bytes;
  return out;
}

namespace {

// The gradients that a strategy gives for whole gradients of the results; empty if the gradient
// must take another strategy.
std::vector<StrategyTensor> strategy_gradients(const Query& query, const ConcreteRule& rule,
                                               const AxisChoice& choice) {
  const bool partial = choice.kind == AxisChoice::Kind::partial;
  if (choice.kind == AxisChoice::Kind::factor &&
      rule.factors[at(choice.factor)].kind == FactorKind::blocked) {
    return {};
  }
  // Where an operand is P its gradient is whole, and so are the others' only if it is alone.
  if (partial &&
      (choice.op == ReduceOp::max || choice.op == ReduceOp::min || choice.op == ReduceOp::prod)) {
    return {};
  }
  std::vector<StrategyTensor> out = strategy_line(rule, partial ? AxisChoice{} : choice).outputs;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!differentiable(query.call.inputs[i])) {
      out[i] = {.present = false};
      continue;
    }
    if (!partial || choice.partial_in[i] != 0) continue;
    // A factor of the same product as a P operand: each rank has its own part.
    for (std::size_t j = 0; j < query.rule.inputs.size(); ++j) {
      if (choice.partial_in[j] != 0 && query.rule.inputs[j].term == query.rule.inputs[i].term) {
        out[i].layout = out[i].layout->with(0, Placement::partial(choice.op));
      }
    }
  }
  return out;
}

}  // namespace

std::vector<StrategyLine> strategies(const Query& query) {
  if (!query.rule.parts.empty()) return strategies(part_query(query, 0));
  const ConcreteRule gradient = gradient_rule(query);
  std::vector<StrategyLine> out;
  for (const AxisChoice& choice : strategies(query.rule)) {
    out.push_back(strategy_line(query.rule, choice));
    out.back().grads = strategy_gradients(query, gradient, choice);
  }
  return out;
}

}  // namespace hyper_parallel::rules
