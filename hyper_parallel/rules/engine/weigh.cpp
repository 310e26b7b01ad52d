#include "hyper_parallel/rules/engine/weigh.h"

#include <algorithm>
#include <cmath>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/rules/engine/deferred.h"

namespace hyper_parallel::rules {
namespace {

bool less(double a, double b) { return a < b && (std::isinf(b) || a < b - 1e-9 * b); }

TensorMeta result_meta(const Question& q, std::size_t output) {
  for (const Operand& operand : q.call.inputs) {
    if (operand.present && !is_integral(operand.meta.dtype)) {
      return {.sizes = q.rule.outputs[output].sizes, .dtype = operand.meta.dtype};
    }
  }
  return {.sizes = q.rule.outputs[output].sizes, .dtype = DType::i64};
}

// What the handlers of the choices move, once the operands lie as `inputs` says: one exchange over
// all axes that split their factor.
Price handlers(const Question& q, std::span<const AxisChoice> choices,
               const std::vector<const Layout*>& inputs) {
  Price out;
  for (int axis = 0; axis < q.call.mesh->ndim(); ++axis) {
    const AxisChoice& choice = choices[at(axis)];
    if (!has_handler(q.rule, choice)) continue;
    std::vector<int> axes;
    for (int other = 0; other < q.call.mesh->ndim(); ++other) {
      const AxisChoice& c = choices[at(other)];
      if (c.kind != AxisChoice::Kind::factor || c.factor != choice.factor) continue;
      if (q.call.mesh->size(other) > 1) axes.push_back(other);
    }
    if (axes.empty() || axes.front() != axis) continue;
    // What else is cut makes the statistics smaller by the same share as the operand.
    double share = 1;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == nullptr || !holds(q.rule.inputs[i], choice.factor)) continue;
      for (const Split& split : inputs[i]->splits()) {
        for (int other : split.axes) {
          if (std::find(axes.begin(), axes.end(), other) == axes.end()) {
            share /= q.call.mesh->size(other);
          }
        }
      }
      break;
    }
    out += q.model.handler(q.rule, q.call, choice.factor, axes, share);
  }
  return out;
}

Weighed priced(const Question& q, std::span<const AxisChoice> choices, Assembled layouts) {
  Weighed out;
  out.layouts = std::move(layouts);
  out.changes.resize(q.states.size());
  for (std::size_t i = 0; i < q.states.size(); ++i) {
    const OperandState& state = q.states[i];
    if (state.layout == nullptr || out.layouts.inputs[i] == state.layout) continue;
    out.changes[i] = q.model.change(state.layout, out.layouts.inputs[i], q.call.inputs[i].meta);
  }
  out.handler = handlers(q, choices, out.layouts.inputs);
  std::vector<const Layout*> open = out.layouts.outputs;
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (!q.rule.outputs[i].present) open[i] = nullptr;
  }
  for (std::size_t i = 0; i < q.wanted.size(); ++i) {
    if (q.wanted[i] == nullptr || !q.rule.outputs[i].present) continue;
    if (open[i] != q.wanted[i]) {
      ++out.changed;
      out.results += q.model.change(open[i], q.wanted[i], result_meta(q, i));
    }
    open[i] = nullptr;
  }
  out.deferred = deferred(q.rule, q.call, q.states, choices, open, q.model);
  return out;
}

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

bool has_handler(const ConcreteRule& rule, const AxisChoice& choice) {
  return choice.kind == AxisChoice::Kind::factor &&
         !rule.factors[at(choice.factor)].handler.empty();
}

double Weighed::before() const {
  double out = handler.cost;
  for (const Price& change : changes) out += change.cost;
  return out;
}

bool better(const Weighed& a, const Weighed& b) {
  const double total_a = a.total();
  const double total_b = b.total();
  if (less(total_a, total_b)) return true;
  if (less(total_b, total_a)) return false;
  if (a.changed != b.changed) return a.changed < b.changed;
  // Less before the op, if it is results that make up for it.
  return a.results.cost != b.results.cost && less(a.before(), b.before());
}

Question ask(const ConcreteRule& rule, const Call& call, const CostModel& model,
             std::span<const Layout* const> wanted) {
  Question out{.rule = rule, .call = call, .model = model, .states = read_operands(rule, call)};
  if (std::all_of(wanted.begin(), wanted.end(), [](const Layout* l) { return l == nullptr; })) {
    return out;
  }
  out.wanted = wanted;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == nullptr) continue;
    for (const Split& split : wanted[i]->splits()) {
      if (split.dim >= static_cast<int>(rule.outputs[i].dims.size())) continue;
      Reading reading = decompose(rule, rule.outputs[i], split, call.mesh);
      for (auto& cut : reading.cuts) out.wanted_cuts.push_back(std::move(cut));
    }
  }
  return out;
}

std::optional<Weighed> weigh(const Question& q, std::span<const AxisChoice> choices,
                             const std::vector<FactorSplit>& fixed, std::string* why) {
  auto ways = ways_to_cut(q.rule, q.call, q.states, choices, q.wanted_cuts);
  for (std::size_t f = 0; f < fixed.size(); ++f) {
    if (!ways[f].empty() && ways[f].front().axes.size() == fixed[f].axes.size()) {
      ways[f] = {fixed[f]};
    }
  }
  std::vector<FactorSplit> cuts(ways.size());
  std::vector<std::size_t> next(ways.size(), 0);
  for (std::size_t f = 0; f < ways.size(); ++f) {
    if (!ways[f].empty()) cuts[f] = ways[f].front();
  }
  std::optional<Weighed> best;
  while (true) {
    if (auto made = assemble(q.rule, q.call, q.states, choices, cuts, why)) {
      Weighed weighed = priced(q, choices, *std::move(made));
      if (!best || better(weighed, *best)) best = std::move(weighed);
    }
    std::size_t f = 0;
    while (f < ways.size() && next[f] + 1 >= ways[f].size()) {
      next[f] = 0;
      if (!ways[f].empty()) cuts[f] = ways[f].front();
      ++f;
    }
    if (f == ways.size()) return best;
    cuts[f] = ways[f][++next[f]];
  }
}

Inference finish(const Question& q, std::span<const AxisChoice> choices, Weighed weighed) {
  Inference out;
  out.inputs = std::move(weighed.layouts.inputs);
  out.outputs = std::move(weighed.layouts.outputs);
  for (const TensorMap& map : q.rule.outputs) out.output_sizes.push_back(map.sizes);
  out.choices.assign(choices.begin(), choices.end());
  out.rewrites = q.rule.rewrites;
  out.handler = std::move(weighed.layouts.handler);
  out.windows = cut_windows(q.rule, choices);
  out.random = q.rule.random;
  out.aliases = q.rule.aliases;
  out.dynamic = q.rule.dynamic;
  out.bytes = weighed.handler.bytes;
  for (std::size_t i = 0; i < q.states.size(); ++i) {
    const OperandState& state = q.states[i];
    if (state.layout == nullptr || out.inputs[i] == state.layout) continue;
    Change change;
    change.input = static_cast<int>(i);
    change.from = state.layout;
    change.to = out.inputs[i];
    change.bytes = weighed.changes[i].bytes;
    if (std::isinf(change.bytes)) {
      plan::redistribute(change.from, change.to, q.call.inputs[i].meta, q.model.topology());
    }
    for (int axis = 0; axis < q.call.mesh->ndim(); ++axis) {
      if (state.layout->placement(axis) == out.inputs[i]->placement(axis)) continue;
      if (!change.reason.empty()) change.reason += "; ";
      change.reason += reason(q.rule, q.call.mesh, axis, state.axes[at(axis)], choices[at(axis)]);
    }
    if (change.reason.empty()) change.reason = "other boundaries or order of axes";
    out.bytes += change.bytes;
    out.changes.push_back(std::move(change));
  }
  return out;
}

}  // namespace hyper_parallel::rules
