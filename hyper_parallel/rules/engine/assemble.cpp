// From one choice an axis to layouts.

#include <algorithm>
#include <numeric>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/engine/state.h"
#include "hyper_parallel/rules/handlers.h"

namespace hyper_parallel::rules {
namespace {

// The axes of `cut` that are among `chosen`, in its order.
std::vector<int> kept_axes(const FactorSplit& cut, const std::vector<int>& chosen) {
  std::vector<int> out;
  for (int axis : cut.axes) {
    if (std::find(chosen.begin(), chosen.end(), axis) != chosen.end()) out.push_back(axis);
  }
  return out;
}

// Orders, blocks and segments in which the axes `chosen` (in mesh order) may cut one factor: what
// operands and wanted results have, the mesh's order and the first operand in front.
std::vector<FactorSplit> proposals(const Factor& factor, int number, const std::vector<int>& chosen,
                                   const std::vector<OperandState>& states,
                                   const std::vector<std::pair<int, FactorSplit>>& wanted) {
  struct Owner {
    const FactorSplit* cut;
    std::vector<int> kept;
  };
  std::vector<Owner> owners;
  const auto add_owner = [&](const std::pair<int, FactorSplit>& item) {
    if (item.first != number) return;
    std::vector<int> kept = kept_axes(item.second, chosen);
    if (!kept.empty()) owners.push_back({&item.second, std::move(kept)});
  };
  for (const OperandState& state : states) {
    for (const auto& item : state.cuts) add_owner(item);
  }
  for (const auto& item : wanted) add_owner(item);
  std::vector<FactorSplit> out;
  const auto propose = [&](FactorSplit cut) {
    if (factor.block > 1) cut.block = std::lcm(cut.block, factor.block);
    if (std::find(out.begin(), out.end(), cut) == out.end()) out.push_back(std::move(cut));
  };
  for (const Owner& o : owners) propose({chosen, o.cut->block, o.cut->segments});
  if (owners.empty()) propose({.axes = chosen});
  if (chosen.size() > 1) {
    for (const Owner& o : owners) {
      std::vector<int> order = o.kept;
      for (int axis : chosen) {
        if (std::find(order.begin(), order.end(), axis) == order.end()) order.push_back(axis);
      }
      propose({std::move(order), o.cut->block, o.cut->segments});
    }
  }
  return out;
}

class Assembler {
 public:
  Assembler(const ConcreteRule& rule, const Call& call, const std::vector<OperandState>& states,
            std::span<const AxisChoice> choices, const std::vector<FactorSplit>& cuts)
      : rule_(rule), call_(call), states_(states), choices_(choices), cuts_(cuts) {}

  std::optional<Assembled> run() {
    if (!fits()) return std::nullopt;
    out_.handler = rule_.handler;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (!input(i)) return std::nullopt;
    }
    for (const TensorMap& map : rule_.outputs) {
      if (!output(map)) return std::nullopt;
    }
    if (!handlers() || !writes()) return std::nullopt;
    return std::move(out_);
  }

  std::string why;

 private:
  bool no(std::string reason) {
    why = std::move(reason);
    return false;
  }

  bool writes_in_place() const {
    return std::any_of(call_.inputs.begin(), call_.inputs.end(),
                       [](const Operand& o) { return o.pinned; });
  }

  bool fits() {
    for (std::size_t f = 0; f < cuts_.size(); ++f) {
      if (cuts_[f].axes.empty()) continue;
      const Factor& factor = rule_.factors[f];
      if (factor.kind == FactorKind::blocked) {
        return no("\"" + factor.name + "\" must be whole");
      }
      if (factor.nonempty && leaves_empty(cuts_[f], call_.mesh, factor.size)) {
        return no("a rank would hold nothing of \"" + factor.name + "\"");
      }
    }
    return true;
  }

  // The splits of one tensor; false if there are none.
  bool splits(const TensorMap& map, std::vector<Split>& out) {
    for (int dim = 0; dim < static_cast<int>(map.dims.size()); ++dim) {
      if (map.dims[at(dim)].empty()) continue;
      auto split = compose(rule_, map, dim, cuts_, call_.mesh);
      if (!split) return no("dim " + std::to_string(dim) + " cannot be split so");
      if (!split->axes.empty()) out.push_back(*std::move(split));
    }
    return true;
  }

  // The op makes results of the size of this rank's part, unless an argument says the size or
  // random numbers are drawn for the layout: they are cut as the operand is.
  bool lends_its_shape(std::size_t i) {
    if (rule_.random || !rule_.rewrites.empty()) return true;
    const TensorMap& map = rule_.inputs[i];
    std::vector<Split> cut;
    if (!splits(map, cut)) return false;
    std::vector<Split> own = states_[i].layout->splits();
    std::erase_if(own, [&](const Split& s) { return map.dims[at(s.dim)].empty(); });
    const Layout* wanted = Layout::get(call_.mesh, std::move(cut), {});
    const Layout* have = Layout::get(call_.mesh, std::move(own), {});
    if (wanted == have || equivalent(wanted, have, call_.inputs[i].meta.sizes)) return true;
    return no(operand_text(call_, i) + " lends its shape and is " + have->to_string());
  }

  bool input(std::size_t i) {
    const OperandState& state = states_[i];
    if (state.layout == nullptr) {
      out_.inputs.push_back(nullptr);
      return true;
    }
    if (rule_.inputs[i].shape_only) {
      out_.inputs.push_back(state.layout);
      return lends_its_shape(i);
    }
    std::vector<std::optional<ReduceOp>> partials(choices_.size());
    for (int axis = 0; axis < static_cast<int>(choices_.size()); ++axis) {
      if (call_.mesh->size(axis) == 1) continue;
      const Has& has = state.axes[at(axis)];
      const Need n = need(rule_, static_cast<int>(i), has, choices_[at(axis)]);
      masked_ |= n.masked;
      if (n.kind != Need::Kind::partial) continue;
      // Beside an operand that is written in place one rank keeps the value of a whole one.
      const bool spreads = has.kind == Has::Kind::whole && n.op == ReduceOp::sum &&
                           !call_.inputs[i].pinned && writes_in_place();
      if (!spreads && (has.kind != Has::Kind::partial || has.op != n.op)) {
        return no(operand_text(call_, i) + " is not " + to_string(Placement::partial(n.op)));
      }
      partials[at(axis)] = n.op;
    }
    std::vector<Split> cut;
    if (!splits(rule_.inputs[i], cut)) return false;
    const Layout* layout = Layout::get(call_.mesh, std::move(cut), partials);
    if (equivalent(layout, state.layout, call_.inputs[i].meta.sizes)) layout = state.layout;
    const Operand& operand = call_.inputs[i];
    if (operand.pinned && !rule_.inputs[i].ignore_pin && layout != state.layout) {
      return no(operand_text(call_, i) + " is written in place and would become " +
                layout->to_string());
    }
    out_.inputs.push_back(layout);
    return true;
  }

  bool output(const TensorMap& map) {
    std::vector<std::optional<ReduceOp>> partials(choices_.size());
    for (std::size_t axis = 0; axis < choices_.size(); ++axis) {
      const AxisChoice& c = choices_[axis];
      if (c.kind == AxisChoice::Kind::partial) partials[axis] = c.op;
      if (c.kind != AxisChoice::Kind::factor) continue;
      const Factor& factor = rule_.factors[at(c.factor)];
      if (factor.kind == FactorKind::reduce && !holds(map, c.factor)) {
        partials[axis] = factor.reduce;
      }
    }
    std::vector<Split> cut;
    if (!splits(map, cut)) return false;
    out_.outputs.push_back(Layout::get(call_.mesh, std::move(cut), partials));
    return true;
  }

  bool handlers() {
    const auto add = [&](const std::string& name) {
      if (name.empty() || name == out_.handler) return true;
      if (!out_.handler.empty()) {
        return no("handlers " + out_.handler + " and " + name + " cannot run together");
      }
      out_.handler = name;
      return true;
    };
    for (const AxisChoice& c : choices_) {
      if (c.kind != AxisChoice::Kind::factor) continue;
      if (!add(rule_.factors[at(c.factor)].handler)) return false;
    }
    if (!masked_ || (!out_.handler.empty() && find_handler(out_.handler).counts_addends))
      return true;
    return add("linear_addend");
  }

  bool writes() {
    for (const auto& [input, output] : rule_.writes) {
      const Layout* before = out_.inputs[at(input)];
      const Layout*& after = out_.outputs[at(output)];
      if (before == nullptr || before == after) continue;
      if (!equivalent(before, after, rule_.outputs[at(output)].sizes)) {
        return no(operand_text(call_, at(input)) + " is written in place, but the result is " +
                  after->to_string());
      }
      after = before;
    }
    return true;
  }

  const ConcreteRule& rule_;
  const Call& call_;
  const std::vector<OperandState>& states_;
  std::span<const AxisChoice> choices_;
  const std::vector<FactorSplit>& cuts_;
  Assembled out_;
  bool masked_ = false;
};

}  // namespace

std::vector<std::vector<FactorSplit>> ways_to_cut(
    const ConcreteRule& rule, const Call& call, const std::vector<OperandState>& states,
    std::span<const AxisChoice> choices, const std::vector<std::pair<int, FactorSplit>>& wanted) {
  std::vector<std::vector<FactorSplit>> out(rule.factors.size());
  for (int axis = 0; axis < static_cast<int>(choices.size()); ++axis) {
    const int f = choices[at(axis)].factor;
    if (choices[at(axis)].kind != AxisChoice::Kind::factor || !out[at(f)].empty()) continue;
    std::vector<int> chosen;
    for (int other = axis; other < static_cast<int>(choices.size()); ++other) {
      const AxisChoice& c = choices[at(other)];
      if (c.kind == AxisChoice::Kind::factor && c.factor == f && call.mesh->size(other) > 1) {
        chosen.push_back(other);
      }
    }
    if (!chosen.empty()) {
      out[at(f)] = proposals(rule.factors[at(f)], f, chosen, states, wanted);
    }
  }
  return out;
}

std::optional<Assembled> assemble(const ConcreteRule& rule, const Call& call,
                                  const std::vector<OperandState>& states,
                                  std::span<const AxisChoice> choices,
                                  const std::vector<FactorSplit>& cuts, std::string* why) {
  Assembler assembler(rule, call, states, choices, cuts);
  auto out = assembler.run();
  if (!out && why != nullptr) *why = assembler.why;
  return out;
}

}  // namespace hyper_parallel::rules
