// Reverse inference and the layouts of cotangents.

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/engine/partial.h"
#include "hyper_parallel/rules/engine/weigh.h"

namespace hyper_parallel::rules {
namespace {

class Reverse {
 public:
  Reverse(const ConcreteRule& rule, const Call& call, std::span<const Layout* const> outputs)
      : rule_(rule), call_(call), outputs_(outputs), q_(ask(rule, call, model_)) {}

  Inference run() {
    if (outputs_.size() != rule_.outputs.size()) {
      throw UsageError(Message("HP-S033", call_.op + ": wrong number of result layouts")
                           .fact("needed", std::to_string(rule_.outputs.size()))
                           .fact("given", std::to_string(outputs_.size())));
    }
    choices_.resize(at(call_.mesh->ndim()));
    decided_.assign(choices_.size(), 0);
    wanted_.resize(rule_.factors.size());
    read_outputs();
    for (int axis = 0; axis < call_.mesh->ndim(); ++axis) {
      if (call_.mesh->size(axis) == 1 || decided_[at(axis)] != 0) continue;
      choices_[at(axis)] = undecided(axis);
    }
    drop_conflicts();
    std::string why;
    auto made = weigh(q_, choices_, wanted_, &why);
    if (!made) fail(why);
    return finish(q_, choices_, *std::move(made));
  }

 private:
  void read_outputs() {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i] == nullptr) continue;
      all_silent_ = false;
      for (const Split& s : outputs_[i]->splits()) {
        if (s.dim >= static_cast<int>(rule_.outputs[i].dims.size())) {
          const std::size_t ndim = rule_.outputs[i].dims.size();
          throw UsageError(Message("HP-S021", call_.op + ": result " + std::to_string(i) +
                                                  " is split on dim " + std::to_string(s.dim) +
                                                  " but has " + std::to_string(ndim) + " dims")
                               .fact("wanted", to_string_with_mesh(outputs_[i])));
        }
        take(s, decompose(rule_, rule_.outputs[i], s, call_.mesh));
      }
      for (int axis = 0; axis < call_.mesh->ndim(); ++axis) {
        const Placement p = outputs_[i]->placement(axis);
        if (!p.is_partial() || decided_[at(axis)] != 0) continue;
        if (const auto choice = partial(axis, p.op())) choices_[at(axis)] = *choice;
        decided_[at(axis)] = 1;
      }
    }
  }

  // Where no strategy gives the split, the result is whole, and the split a local cut of it.
  void take(const Split& split, const Reading& reading) {
    for (const auto& [factor, cut] : reading.cuts) {
      if (rule_.factors[at(factor)].kind == FactorKind::blocked || !reading.exact) continue;
      bool all_free = true;
      for (int axis : cut.axes) all_free &= decided_[at(axis)] == 0;
      if (all_free) wanted_[at(factor)] = cut;
      for (int axis : cut.axes) {
        if (decided_[at(axis)] != 0) continue;
        decided_[at(axis)] = 1;
        choices_[at(axis)].kind = AxisChoice::Kind::factor;
        choices_[at(axis)].factor = factor;
      }
    }
    for (int axis : split.axes) decided_[at(axis)] = 1;
  }

  // Where another result holds the factor and is not wanted split by it, one of both would have to
  // be gathered. If all are whole each is a local cut away.
  void drop_conflicts() {
    for (int axis = 0; axis < call_.mesh->ndim(); ++axis) {
      AxisChoice& choice = choices_[at(axis)];
      if (choice.kind != AxisChoice::Kind::factor) continue;
      for (std::size_t i = 0; i < outputs_.size(); ++i) {
        if (outputs_[i] == nullptr || !holds(rule_.outputs[i], choice.factor)) continue;
        if (is_split_by(i, axis, choice.factor)) continue;
        wanted_[at(choice.factor)] = {};
        choice = {};
        break;
      }
    }
  }

  bool is_split_by(std::size_t output, int axis, int factor) const {
    for (const Split& split : outputs_[output]->splits()) {
      for (const auto& [f, cut] : decompose(rule_, rule_.outputs[output], split, call_.mesh).cuts) {
        if (f == factor && std::find(cut.axes.begin(), cut.axes.end(), axis) != cut.axes.end()) {
          return true;
        }
      }
    }
    return false;
  }

  // A result that is P(op): the sum that an operand already has split, partial operands that
  // pass, or else the first sum of the rule. Nothing if no strategy makes it.
  std::optional<AxisChoice> partial(int axis, ReduceOp op) {
    int first = -1;
    const auto reduces = [&](int f) {
      const Factor& factor = rule_.factors[at(f)];
      return factor.kind == FactorKind::reduce && factor.reduce == op && factor.size > 1;
    };
    for (const OperandState& state : q_.states) {
      if (state.layout == nullptr) continue;
      const Has& has = state.axes[at(axis)];
      if (has.kind == Has::Kind::factor && reduces(has.factor)) first = has.factor;
    }
    AxisChoice out;
    if (first < 0) {
      auto passing = partial_choices(rule_, call_, q_.states, axis);
      std::erase_if(passing, [&](const AxisChoice& c) { return c.op != op; });
      if (!passing.empty()) return passing.front();
      for (int f = 0; f < static_cast<int>(rule_.factors.size()) && first < 0; ++f) {
        if (reduces(f)) first = f;
      }
    }
    if (first < 0) return std::nullopt;
    out.kind = AxisChoice::Kind::factor;
    out.factor = first;
    return out;
  }

  // No result speaks about this axis. If all results are known they are R here, and so are the
  // operands; if none is, the operands stay as they are.
  AxisChoice undecided(int axis) {
    AxisChoice out;
    if (!all_silent_) return out;
    double bytes = -1;
    for (const OperandState& state : q_.states) {
      if (state.layout == nullptr || state.bytes <= bytes) continue;
      const Has& has = state.axes[at(axis)];
      if (has.kind != Has::Kind::factor ||
          rule_.factors[at(has.factor)].kind == FactorKind::blocked) {
        continue;
      }
      out.kind = AxisChoice::Kind::factor;
      out.factor = has.factor;
      bytes = state.bytes;
    }
    return out;
  }

  [[noreturn]] void fail(const std::string& why) const {
    Message message("HP-S034", call_.op + ": no inputs give these results");
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i] == nullptr) continue;
      message.fact("result " + std::to_string(i),
                   hyper_parallel::to_string(rule_.outputs[i].sizes) + " on " +
                       to_string_with_mesh(outputs_[i]));
    }
    if (!why.empty()) message.fact("why", why);
    throw UnsupportedError(message.hint("ask for another layout and redistribute the result"));
  }

  const ConcreteRule& rule_;
  const Call& call_;
  std::span<const Layout* const> outputs_;
  CostModel model_;
  Question q_;
  std::vector<AxisChoice> choices_;
  std::vector<char> decided_;
  std::vector<FactorSplit> wanted_;
  bool all_silent_ = true;
};

// The placement of one cotangent on one axis that cuts no dim of it; nothing: R.
std::optional<ReduceOp> cotangent(const ConcreteRule& rule, int input, int axis,
                                  const Inference& forward,
                                  std::span<const Layout* const> out_grads) {
  const AxisChoice& choice = forward.choices[at(axis)];
  const Layout* layout = forward.inputs[at(input)];
  if (layout->placement(axis).is_partial()) return std::nullopt;
  if (choice.kind == AxisChoice::Kind::none) {
    for (const Layout* grad : out_grads) {
      if (grad != nullptr && grad->placement(axis).is_partial()) return ReduceOp::sum;
    }
    return std::nullopt;
  }
  // Here ranks compute different things: each has its own contribution.
  const bool splits =
      choice.kind == AxisChoice::Kind::factor && holds(rule.inputs[at(input)], choice.factor);
  return splits ? std::nullopt : std::optional(ReduceOp::sum);
}

}  // namespace

Inference infer_backward(const ConcreteRule& rule, const Call& call,
                         std::span<const Layout* const> outputs) {
  if (rule.parts.empty()) return Reverse(rule, call, outputs).run();
  throw UnsupportedError(Message("HP-S035", call.op + ": no reverse inference for list ops")
                             .hint("ask for each element by the op without _foreach_"));
}

std::vector<const Layout*> infer_cotangents(const ConcreteRule& rule, const Call& call,
                                            const Inference& forward,
                                            std::span<const Layout* const> out_grads) {
  std::vector<const Layout*> out(call.inputs.size(), nullptr);
  for (std::size_t p = 0; p < rule.parts.size(); ++p) {
    const Part& part = rule.parts[p];
    std::vector<const Layout*> grads;
    for (int i : part.outputs) grads.push_back(out_grads[at(i)]);
    const auto made = infer_cotangents(part.rule, part_call(call, part), forward.parts[p], grads);
    for (std::size_t i = 0; i < made.size(); ++i) out[at(part.inputs[i])] = made[i];
  }
  if (!rule.parts.empty()) return out;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Layout* layout = forward.inputs[i];
    if (layout == nullptr || rule.inputs[i].shape_only) continue;
    std::vector<std::optional<ReduceOp>> partials;
    for (int axis = 0; axis < call.mesh->ndim(); ++axis) {
      partials.push_back(cotangent(rule, static_cast<int>(i), axis, forward, out_grads));
    }
    out[i] = Layout::get(call.mesh, layout->splits(), partials);
  }
  return out;
}

}  // namespace hyper_parallel::rules
