// The table of strategies of a rule, as choices and as text.

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/engine/partial.h"
#include "hyper_parallel/rules/engine/state.h"

namespace hyper_parallel::rules {
namespace {

// What a tensor becomes when an axis of two ranks takes `choice`.
std::string placement(const ConcreteRule& rule, const TensorMap& map, const AxisChoice& choice) {
  static const Mesh* const mesh = Mesh::get({2}, {"x"});
  std::vector<FactorCut> cuts(rule.factors.size());
  if (choice.kind == AxisChoice::Kind::factor) {
    cuts[at(choice.factor)] = {.axes = {0}, .block = rule.factors[at(choice.factor)].block};
  }
  std::vector<Split> splits;
  for (int dim = 0; dim < static_cast<int>(map.dims.size()); ++dim) {
    auto split = compose(rule, map, dim, cuts, mesh);
    if (!split) return "?";
    if (!split->axes.empty()) splits.push_back(*std::move(split));
  }
  return Layout::get(mesh, std::move(splits))->to_string();
}

}  // namespace

std::vector<AxisChoice> strategies(const ConcreteRule& rule) {
  std::vector<AxisChoice> out(1);
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
    const Factor& factor = rule.factors[at(f)];
    if (factor.kind == FactorKind::blocked || factor.size <= 1) continue;
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

std::string to_string(const ConcreteRule& rule, const AxisChoice& choice) {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  const bool partial = choice.kind == AxisChoice::Kind::partial;
  const Factor* factor =
      choice.kind == AxisChoice::Kind::factor ? &rule.factors[at(choice.factor)] : nullptr;
  const bool reduces = factor != nullptr && factor->kind == FactorKind::reduce;
  for (std::size_t i = 0; i < rule.inputs.size(); ++i) {
    const TensorMap& map = rule.inputs[i];
    if (!map.present) {
      inputs.emplace_back("-");
    } else if (partial) {
      inputs.push_back(choice.partial_in[i] != 0
                           ? hyper_parallel::to_string(Placement::partial(choice.op))
                           : "R");
    } else if (reduces && map.addend && !holds(map, choice.factor)) {
      inputs.push_back(hyper_parallel::to_string(Placement::partial(factor->reduce)));
    } else {
      inputs.push_back(placement(rule, map, choice));
    }
  }
  for (const TensorMap& map : rule.outputs) {
    if (partial) {
      outputs.push_back(hyper_parallel::to_string(Placement::partial(choice.op)));
    } else if (reduces && !holds(map, choice.factor)) {
      outputs.push_back(hyper_parallel::to_string(Placement::partial(factor->reduce)));
    } else {
      outputs.push_back(placement(rule, map, choice));
    }
  }
  std::string text = join(inputs, " ") + " -> " + join(outputs, " ");
  if (factor != nullptr) {
    text += "    " + factor->name;
    if (!factor->handler.empty()) text += " ~" + factor->handler;
  }
  return text;
}

}  // namespace hyper_parallel::rules
