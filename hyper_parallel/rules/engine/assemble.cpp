// From one choice an axis to layouts.

#include <algorithm>
#include <numeric>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/engine/state.h"
#include "hyper_parallel/rules/handlers.h"

namespace hyper_parallel::rules {
namespace {

// The axes of `cut` that are among `chosen`, in its order.
std::vector<int> kept_axes(const FactorCut& cut, const std::vector<int>& chosen) {
  std::vector<int> out;
  for (int axis : cut.axes) {
    if (std::find(chosen.begin(), chosen.end(), axis) != chosen.end()) out.push_back(axis);
  }
  return out;
}

// True if an operand cut as `own` needs local cuts at most to become `wanted`.
bool refines(const FactorCut& wanted, const FactorCut& own, const std::vector<int>& kept,
             const Mesh* mesh, std::int64_t size) {
  if (!std::equal(kept.begin(), kept.end(), wanted.axes.begin(),
                  wanted.axes.begin() +
                      static_cast<std::ptrdiff_t>(std::min(kept.size(), wanted.axes.size())))) {
    return false;
  }
  if (own.block == wanted.block && own.segments == wanted.segments) return true;
  const Split a{.dim = 0, .axes = kept, .block = own.block, .segments = own.segments};
  const Split b{.dim = 0, .axes = kept, .block = wanted.block, .segments = wanted.segments};
  return same_cut(a, b, mesh, size);
}

struct Owner {
  const FactorCut* cut;
  std::vector<int> kept;
  double bytes;
};

// Order, block and segments of one factor on the axes `chosen` (in mesh order): those that make
// the fewest bytes move; the mesh's order and the first operand win ties.
FactorCut shape_cut(const ConcreteRule& rule, int factor, const std::vector<int>& chosen,
                    const std::vector<OperandState>& states, const Mesh* mesh, double& extra) {
  const Factor& f = rule.factors[at(factor)];
  std::vector<Owner> owners;
  for (const OperandState& state : states) {
    for (const auto& [g, cut] : state.cuts) {
      if (g != factor) continue;
      std::vector<int> kept = kept_axes(cut, chosen);
      if (!kept.empty()) owners.push_back({&cut, std::move(kept), state.bytes});
    }
  }
  const auto align = [&](FactorCut cut) {
    if (f.block > 1) cut.block = std::lcm(cut.block, f.block);
    return cut;
  };
  std::vector<FactorCut> proposals;
  const auto propose = [&](FactorCut cut) {
    cut = align(std::move(cut));
    if (std::find(proposals.begin(), proposals.end(), cut) == proposals.end()) {
      proposals.push_back(std::move(cut));
    }
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
  std::size_t best = 0;
  double best_bytes = -1;
  for (std::size_t p = 0; p < proposals.size(); ++p) {
    double bytes = 0;
    for (const Owner& o : owners) {
      if (refines(proposals[p], *o.cut, o.kept, mesh, f.size)) continue;
      bytes += o.bytes / static_cast<double>(mesh->size(chosen));
    }
    if (best_bytes < 0 || bytes < best_bytes) {
      best = p;
      best_bytes = bytes;
    }
  }
  extra += std::max(best_bytes, 0.0);
  return proposals[best];
}

class Assembler {
 public:
  Assembler(const ConcreteRule& rule, const Call& call, const std::vector<OperandState>& states,
            std::span<const AxisChoice> choices)
      : rule_(rule), call_(call), states_(states), choices_(choices) {}

  std::optional<Assembled> run(const std::vector<FactorCut>& wanted) {
    if (!cut_factors(wanted)) return std::nullopt;
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

  bool cut_factors(const std::vector<FactorCut>& wanted) {
    cuts_.resize(rule_.factors.size());
    for (int f = 0; f < static_cast<int>(rule_.factors.size()); ++f) {
      std::vector<int> chosen;
      for (int axis = 0; axis < static_cast<int>(choices_.size()); ++axis) {
        const AxisChoice& c = choices_[at(axis)];
        if (c.kind == AxisChoice::Kind::factor && c.factor == f && call_.mesh->size(axis) > 1) {
          chosen.push_back(axis);
        }
      }
      if (chosen.empty()) continue;
      const Factor& factor = rule_.factors[at(f)];
      if (factor.kind == FactorKind::blocked) {
        return no("\"" + factor.name + "\" must be whole");
      }
      if (!wanted.empty() && wanted[at(f)].axes.size() == chosen.size()) {
        cuts_[at(f)] = wanted[at(f)];
      } else {
        cuts_[at(f)] = shape_cut(rule_, f, chosen, states_, call_.mesh, out_.extra);
      }
      if (factor.nonempty && leaves_empty(cuts_[at(f)], call_.mesh, factor.size)) {
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

  bool input(std::size_t i) {
    const OperandState& state = states_[i];
    if (state.layout == nullptr) {
      out_.inputs.push_back(nullptr);
      return true;
    }
    if (rule_.inputs[i].shape_only) {
      out_.inputs.push_back(state.layout);
      return true;
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
  std::vector<FactorCut> cuts_;
  Assembled out_;
  bool masked_ = false;
};

std::string reason(const ConcreteRule& rule, const Mesh* mesh, int axis, const Has& has,
                   const AxisChoice& choice) {
  const std::string name = "axis " + mesh->name(axis);
  if (choice.kind == AxisChoice::Kind::partial) {
    return name + " carries " + to_string(Placement::partial(choice.op));
  }
  if (choice.kind == AxisChoice::Kind::factor) {
    const Factor& f = rule.factors[at(choice.factor)];
    return name + (f.kind == FactorKind::reduce ? " splits the sum over " : " splits ") + f.name;
  }
  if (has.kind == Has::Kind::partial) {
    return name + ": " + to_string(Placement::partial(has.op)) + " does not pass";
  }
  if (has.kind == Has::Kind::foreign ||
      (has.kind == Has::Kind::factor && rule.factors[at(has.factor)].kind == FactorKind::blocked)) {
    return name + ": the dim must be whole";
  }
  return name + " is not used";
}

// The dims of the first operand whose factors are chosen and have a window.
std::vector<std::pair<int, Window>> cut_windows(const ConcreteRule& rule,
                                                std::span<const AxisChoice> choices) {
  std::vector<std::pair<int, Window>> out;
  if (rule.inputs.empty()) return out;
  const auto& dims = rule.inputs[0].dims;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    for (int f : dims[at(d)]) {
      const auto& window = rule.factors[at(f)].window;
      const bool cut = std::any_of(choices.begin(), choices.end(), [f](const AxisChoice& c) {
        return c.kind == AxisChoice::Kind::factor && c.factor == f;
      });
      if (cut && window) out.emplace_back(d, *window);
    }
  }
  return out;
}

}  // namespace

std::optional<Assembled> assemble(const ConcreteRule& rule, const Call& call,
                                  const std::vector<OperandState>& states,
                                  std::span<const AxisChoice> choices,
                                  const std::vector<FactorCut>& wanted, std::string* why) {
  Assembler assembler(rule, call, states, choices);
  auto out = assembler.run(wanted);
  if (!out && why != nullptr) *why = assembler.why;
  return out;
}

Inference finish(const ConcreteRule& rule, const Call& call,
                 const std::vector<OperandState>& states, std::span<const AxisChoice> choices,
                 Assembled assembled) {
  Inference out;
  out.inputs = std::move(assembled.inputs);
  out.outputs = std::move(assembled.outputs);
  for (const TensorMap& map : rule.outputs) out.output_sizes.push_back(map.sizes);
  out.choices.assign(choices.begin(), choices.end());
  out.rewrites = rule.rewrites;
  out.handler = std::move(assembled.handler);
  out.windows = cut_windows(rule, choices);
  out.random = rule.random;
  out.aliases = rule.aliases;
  out.dynamic = rule.dynamic;
  out.bytes = assembled.extra;
  for (int axis = 0; axis < call.mesh->ndim(); ++axis) {
    if (call.mesh->size(axis) > 1) {
      out.bytes += handler_price(rule, call, states, axis, choices[at(axis)]);
    }
  }
  for (std::size_t i = 0; i < states.size(); ++i) {
    const OperandState& state = states[i];
    if (state.layout == nullptr || out.inputs[i] == state.layout) continue;
    Change change;
    change.input = static_cast<int>(i);
    change.from = state.layout;
    change.to = out.inputs[i];
    for (int axis = 0; axis < call.mesh->ndim(); ++axis) {
      if (state.layout->placement(axis) == out.inputs[i]->placement(axis)) continue;
      const Has& has = state.axes[at(axis)];
      const AxisChoice& choice = choices[at(axis)];
      change.bytes += price(has, need(rule, static_cast<int>(i), has, choice),
                            call.mesh->size(axis), state.bytes_without(axis))
                          .value_or(0);
      if (!change.reason.empty()) change.reason += "; ";
      change.reason += reason(rule, call.mesh, axis, has, choice);
    }
    if (change.reason.empty()) change.reason = "other boundaries or order of axes";
    out.bytes += change.bytes;
    out.changes.push_back(std::move(change));
  }
  return out;
}

}  // namespace hyper_parallel::rules
