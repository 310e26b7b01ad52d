// The table of strategies of a rule, as choices and as text.

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/engine/partial.h"
#include "hyper_parallel/rules/engine/state.h"

namespace hyper_parallel::rules {
namespace {

const Mesh* two_ranks() {
  static const Mesh* const mesh = Mesh::get({2}, {"x"});
  return mesh;
}

// What a tensor becomes when an axis of two ranks takes `choice`.
StrategyTensor placed(const ConcreteRule& rule, const TensorMap& map, const AxisChoice& choice) {
  const Mesh* const mesh = two_ranks();
  std::vector<FactorSplit> cuts(rule.factors.size());
  if (choice.kind == AxisChoice::Kind::factor) {
    cuts[at(choice.factor)] = {.axes = {0}, .block = rule.factors[at(choice.factor)].block};
  }
  std::vector<Split> splits;
  for (int dim = 0; dim < static_cast<int>(map.dims.size()); ++dim) {
    auto split = compose(rule, map, dim, cuts, mesh);
    if (!split) return {};
    if (!split->axes.empty()) splits.push_back(*std::move(split));
  }
  return {.layout = Layout::get(mesh, std::move(splits))};
}

StrategyTensor partial(ReduceOp op) {
  const Placement placement = Placement::partial(op);
  return {.layout = Layout::get(two_ranks(), std::span(&placement, 1))};
}

}  // namespace

std::vector<AxisChoice> strategies(const ConcreteRule& rule) {
  std::vector<AxisChoice> out(1);
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
    const Factor& factor = rule.factors[at(f)];
    // One with a part is split where an operand comes in segments only.
    if (factor.kind == FactorKind::blocked || factor.size <= 1 || factor.part) continue;
    AxisChoice choice;
    choice.kind = AxisChoice::Kind::factor;
    choice.factor = f;
    out.push_back(choice);
  }
  for (ReduceOp op : passing_kinds(rule)) {
    for (AxisChoice& choice : all_partial_choices(rule, op)) out.push_back(std::move(choice));
  }
  return out;
}

StrategyLine strategy_line(const ConcreteRule& rule, const AxisChoice& choice) {
  StrategyLine out;
  const bool passes = choice.kind == AxisChoice::Kind::partial;
  const Factor* factor =
      choice.kind == AxisChoice::Kind::factor ? &rule.factors[at(choice.factor)] : nullptr;
  const bool reduces = factor != nullptr && factor->kind == FactorKind::reduce;
  for (std::size_t i = 0; i < rule.inputs.size(); ++i) {
    const TensorMap& map = rule.inputs[i];
    if (!map.present) {
      out.inputs.push_back({.present = false});
    } else if (passes) {
      out.inputs.push_back(choice.partial_in[i] != 0
                               ? partial(choice.op)
                               : StrategyTensor{.layout = Layout::replicated(two_ranks())});
    } else if (reduces && map.addend && !holds(map, choice.factor)) {
      out.inputs.push_back(partial(factor->reduce));
    } else {
      out.inputs.push_back(placed(rule, map, choice));
    }
  }
  for (const TensorMap& map : rule.outputs) {
    if (passes) {
      out.outputs.push_back(partial(choice.op));
    } else if (reduces && !holds(map, choice.factor)) {
      out.outputs.push_back(partial(factor->reduce));
    } else {
      out.outputs.push_back(placed(rule, map, choice));
    }
  }
  if (factor != nullptr) {
    out.factor = factor->name;
    out.handler = factor->handler;
  }
  return out;
}

std::string to_string(std::span<const StrategyTensor> tensors) {
  std::vector<std::string> out;
  for (const StrategyTensor& t : tensors) {
    out.push_back(!t.present ? "-" : t.layout == nullptr ? "?" : t.layout->to_string());
  }
  return join(out, " ");
}

std::string to_string(const StrategyLine& line) {
  std::string text = to_string(line.inputs) + " -> " + to_string(line.outputs);
  if (!line.factor.empty()) text += "    " + line.factor;
  if (!line.handler.empty()) text += " ~" + line.handler;
  return text;
}

std::string to_string(const ConcreteRule& rule, const AxisChoice& choice) {
  return to_string(strategy_line(rule, choice));
}

}  // namespace hyper_parallel::rules
