// Forward inference, with and without results that are wanted. Each axis lists its choices, those
// that look cheapest first; each set of choices has one price, what the planner and the handlers
// will move; the first of the cheapest sets is taken. A lower bound ends the search early.

#include <algorithm>
#include <cmath>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/rules/engine/partial.h"
#include "hyper_parallel/rules/engine/weigh.h"

namespace hyper_parallel::rules {
namespace {

struct Candidate {
  AxisChoice choice;
  double guess = 0;    // bytes moved on this axis if it were alone and all pieces even
  double handler = 0;  // of these, by the handler
  double least = 0;    // cost of the handler, whatever the other axes do
  double kept = 0;     // bytes of operands that stay split or partial as they are
};

// Pass before reduce before partial before none, when all else is equal.
int rank_of(const ConcreteRule& rule, const AxisChoice& c) {
  if (c.kind == AxisChoice::Kind::none) return 3;
  if (c.kind == AxisChoice::Kind::partial) return 2;
  return rule.factors[at(c.factor)].kind == FactorKind::reduce ? 1 : 0;
}

// Decides in which order sets are tried, and among sets of one price; never a price itself. Nothing
// for what cannot be (R -> P(max)). `bytes` is what a rank would hold with the axis R.
std::optional<double> guess(const Has& has, const Need& need, int ranks, double bytes) {
  const double n = ranks;
  const double gather = (n - 1) / n * bytes;
  switch (need.kind) {
    case Need::Kind::own:
      return 0;
    case Need::Kind::partial:
      if (has.kind == Has::Kind::partial && has.op == need.op) return 0;
      if (has.kind == Has::Kind::whole && need.op == ReduceOp::sum) return 0;
      return std::nullopt;
    case Need::Kind::whole:
      if (has.kind == Has::Kind::whole) return 0;
      return has.kind == Has::Kind::partial ? 2 * gather : gather;
    case Need::Kind::factor:
      if (has.kind == Has::Kind::whole) return 0;
      if (has.kind == Has::Kind::partial) return gather;
      if (has.kind == Has::Kind::factor && has.factor == need.factor && !has.recut) return 0;
      return gather / n;
  }
  return std::nullopt;
}

class Search {
 public:
  Search(const ConcreteRule& rule, const Call& call, std::span<const Layout* const> wanted,
         const CostModel& model)
      : rule_(rule), call_(call), q_(ask(rule, call, model, wanted)) {}

  Inference run() {
    const int axes = call_.mesh->ndim();
    find_joined();
    find_wanted();
    for (int axis = 0; axis < axes; ++axis) candidates_.push_back(list(axis));
    // What the handlers of the axes from here on cost at least.
    rest_.assign(at(axes) + 1, 0);
    for (int axis = axes - 1; axis >= 0; --axis) {
      const auto& own = candidates_[at(axis)];
      if (own.empty()) fail();
      double least = own.front().least;
      for (const Candidate& c : own) least = std::min(least, c.least);
      rest_[at(axis)] = rest_[at(axis) + 1] + least;
    }
    chosen_.resize(at(axes));
    descend(0, 0);
    if (!best_) fail();
    return finish(q_, best_choices_, *std::move(best_));
  }

 private:
  std::vector<Candidate> list(int axis) {
    std::vector<Candidate> out;
    const auto add = [&](AxisChoice choice) {
      if (auto c = candidate(axis, std::move(choice))) out.push_back(*std::move(c));
    };
    if (call_.mesh->size(axis) > 1) {
      std::vector<char> seen(rule_.factors.size(), 0);
      const auto add_factor = [&](int factor) {
        if (seen[at(factor)] != 0) return;
        seen[at(factor)] = 1;
        if (rule_.factors[at(factor)].kind == FactorKind::blocked) return;
        AxisChoice choice;
        choice.kind = AxisChoice::Kind::factor;
        choice.factor = factor;
        add(std::move(choice));
      };
      for (const OperandState& state : q_.states) {
        if (state.layout == nullptr) continue;
        const Has& has = state.axes[at(axis)];
        if (has.kind != Has::Kind::factor) continue;
        add_factor(has.factor);
        for (int factor : joined_[at(has.factor)]) add_factor(factor);
      }
      for (int factor : invented_) add_factor(factor);
      for (AxisChoice& choice : partial_choices(rule_, call_, q_.states, axis))
        add(std::move(choice));
    }
    add({});
    std::stable_sort(out.begin(), out.end(), [&](const Candidate& a, const Candidate& b) {
      if (a.guess != b.guess) return a.guess < b.guess;
      // A handler that moves as much as a gather is not worth its work.
      if ((a.handler > 0) != (b.handler > 0)) return b.handler > 0;
      if (a.kept != b.kept) return a.kept > b.kept;
      return rank_of(rule_, a.choice) < rank_of(rule_, b.choice);
    });
    return out;
  }

  // Factors that one dim of a result is made of are often not split together: then moving an axis
  // to another of them (an all-to-all) is cheaper than a gather.
  void find_joined() {
    joined_.resize(rule_.factors.size());
    for (const TensorMap& map : rule_.outputs) {
      for (const std::vector<int>& dim : map.dims) {
        for (std::size_t i = 1; i < dim.size(); ++i) joined_[at(dim[i])].push_back(dim[i - 1]);
      }
    }
  }

  // Where results are wanted an axis may split what no operand has split there: what some operand
  // or wanted result has split on any axis, and sums where a result is wanted partial.
  void find_wanted() {
    if (q_.wanted.empty()) return;
    std::vector<char> used(rule_.factors.size(), 0);
    for (const OperandState& state : q_.states) {
      for (const auto& [factor, cut] : state.cuts) used[at(factor)] = 1;
    }
    for (const auto& [factor, cut] : q_.wanted_cuts) used[at(factor)] = 1;
    const bool partial = std::any_of(q_.wanted.begin(), q_.wanted.end(), [](const Layout* l) {
      return l != nullptr && l->has_partial();
    });
    for (std::size_t f = 0; f < used.size(); ++f) {
      const Factor& factor = rule_.factors[f];
      if (factor.size <= 1) continue;
      if (used[f] == 0 && !(partial && factor.kind == FactorKind::reduce)) continue;
      invented_.push_back(static_cast<int>(f));
    }
  }

  std::optional<Candidate> candidate(int axis, AxisChoice choice) {
    Candidate out;
    for (std::size_t i = 0; i < q_.states.size(); ++i) {
      const OperandState& state = q_.states[i];
      if (state.layout == nullptr) continue;
      const Has& has = state.axes[at(axis)];
      const Need n = need(rule_, static_cast<int>(i), has, choice);
      const double bytes = state.bytes_without(axis);
      const auto moved = guess(has, n, call_.mesh->size(axis), bytes);
      if (!moved) return std::nullopt;
      out.guess += *moved;
      const bool splits = choice.kind == AxisChoice::Kind::factor &&
                          has.kind == Has::Kind::factor && has.factor == choice.factor;
      const bool carries = n.kind == Need::Kind::partial;
      if (splits || carries) out.kept += bytes;
    }
    if (has_handler(rule_, choice)) price_handler(axis, choice.factor, out);
    out.guess += out.handler;
    out.choice = std::move(choice);
    return out;
  }

  // Other axes make what a handler moves smaller by the share that they leave of its operand.
  void price_handler(int axis, int factor, Candidate& out) const {
    if (call_.mesh->size(axis) == 1) return;
    double share = 1;
    for (std::size_t i = 0; i < q_.states.size(); ++i) {
      const OperandState& state = q_.states[i];
      if (state.layout == nullptr || !holds(rule_.inputs[i], factor)) continue;
      if (state.bytes > 0) share = state.bytes_without(axis) / state.bytes;
      break;
    }
    const Price whole = q_.model.handler(rule_, call_, factor, {axis});
    out.handler = share * whole.bytes;
    out.least = whole.cost * call_.mesh->size(axis) / call_.mesh->size();
  }

  void descend(int axis, double handlers) {
    if (best_) {
      const double least = handlers + rest_[at(axis)];
      if (least > best_->total() || (best_->total() == 0 && best_->changed == 0)) return;
    }
    if (axis == call_.mesh->ndim()) {
      auto weighed = weigh(q_, chosen_, {}, &why_);
      if (!weighed) return;
      if (!q_.wanted.empty() && std::isinf(weighed->total())) return;
      if (best_ && !better(*weighed, *best_)) return;
      best_ = std::move(weighed);
      best_choices_ = chosen_;
      return;
    }
    for (const Candidate& c : candidates_[at(axis)]) {
      chosen_[at(axis)] = c.choice;
      descend(axis + 1, handlers + c.least);
    }
  }

  [[noreturn]] void fail() const {
    const bool towards = !q_.wanted.empty();
    Message message(towards ? "HP-S034" : "HP-S030",
                    call_.op + (towards ? ": no strategy leads to these results"
                                        : ": no strategy fits these layouts"));
    for (std::size_t i = 0; i < q_.wanted.size(); ++i) {
      if (q_.wanted[i] == nullptr) continue;
      message.fact("result " + std::to_string(i), to_string_with_mesh(q_.wanted[i]));
    }
    for (std::size_t i = 0; !towards && i < q_.states.size(); ++i) {
      if (q_.states[i].layout == nullptr) continue;
      const Operand& o = call_.inputs[i];
      message.fact(
          o.name.empty() ? "operand" : o.name,
          to_string(o.meta, q_.states[i].layout) + (o.pinned ? " (written in place)" : ""));
    }
    if (!why_.empty()) message.fact("last tried", why_);
    message.hint(towards ? "ask for another layout and redistribute the result"
                         : "redistribute the operand that is written in place, or use the op that "
                           "returns a new tensor");
    throw UnsupportedError(message);
  }

  const ConcreteRule& rule_;
  const Call& call_;
  const Question q_;
  std::vector<std::vector<int>> joined_;  // beside factors: the next major one of a result's dim
  std::vector<int> invented_;             // factors that any axis may split
  std::vector<std::vector<Candidate>> candidates_;
  std::vector<double> rest_;
  std::vector<AxisChoice> chosen_;
  std::vector<AxisChoice> best_choices_;
  std::optional<Weighed> best_;
  std::string why_;
};

Inference merge(const ConcreteRule& rule, const Call& call, std::vector<Inference> parts) {
  Inference out;
  out.handler = rule.handler;
  out.inputs.resize(call.inputs.size());
  out.outputs.resize(rule.outputs.size());
  out.output_sizes.resize(rule.outputs.size());
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Part& part = rule.parts[p];
    const Inference& made = parts[p];
    for (std::size_t i = 0; i < part.inputs.size(); ++i) {
      out.inputs[at(part.inputs[i])] = made.inputs[i];
    }
    for (std::size_t i = 0; i < part.outputs.size(); ++i) {
      out.outputs[at(part.outputs[i])] = made.outputs[i];
      out.output_sizes[at(part.outputs[i])] = made.output_sizes[i];
    }
    out.bytes += made.bytes;
    for (Change change : made.changes) {
      change.input = part.inputs[at(change.input)];
      // What several parts take is moved once.
      const bool known = std::any_of(out.changes.begin(), out.changes.end(), [&](const Change& c) {
        return c.input == change.input && c.to == change.to;
      });
      if (known) {
        out.bytes -= change.bytes;
      } else {
        out.changes.push_back(std::move(change));
      }
    }
    out.random |= made.random;
    if (!made.handler.empty()) out.handler = "each";
  }
  out.aliases = rule.aliases;
  out.parts = std::move(parts);
  return out;
}

std::vector<Inference> infer_parts(const ConcreteRule& rule, const Call& call,
                                   const CostModel& model) {
  std::vector<Inference> out;
  for (const Part& part : rule.parts) {
    out.push_back(infer_forward(part.rule, part_call(call, part), {}, model));
  }
  return out;
}

// One operand of several parts (the number that a whole list is multiplied by) has one layout in
// all of them. Where the parts would have it differently, it is made whole first, and stays so.
std::vector<Change> gather_shared(const ConcreteRule& rule, const std::vector<Inference>& parts,
                                  Call& call, const CostModel& model, bool& differ) {
  std::vector<const Layout*> wanted(call.inputs.size());
  std::vector<Change> out;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (std::size_t i = 0; i < rule.parts[p].inputs.size(); ++i) {
      const int input = rule.parts[p].inputs[i];
      const Layout*& known = wanted[at(input)];
      const Layout* now = parts[p].inputs[i];
      Operand& operand = call.inputs[at(input)];
      const Layout* whole = Layout::replicated(call.mesh);
      if (known == nullptr) known = now;
      if (known == now || operand.pinned) continue;
      if (operand.layout != nullptr && operand.layout != whole) {
        out.push_back({input, operand.layout, whole,
                       model.change(operand.layout, whole, operand.meta).bytes,
                       "the calls that share it take it in different layouts"});
      }
      operand.layout = whole;
      operand.pinned = true;
      differ = true;
    }
  }
  return out;
}

}  // namespace

Inference infer_forward(const ConcreteRule& rule, const Call& call,
                        std::span<const Layout* const> wanted, const CostModel& model) {
  check_internal(call.mesh != nullptr, call.op + ": the call names no mesh");
  if (wanted.size() > rule.outputs.size()) {
    throw UsageError(Message("HP-S033", call.op + ": wrong number of result layouts")
                         .fact("needed", std::to_string(rule.outputs.size()))
                         .fact("given", std::to_string(wanted.size())));
  }
  if (rule.parts.empty()) return Search(rule, call, wanted, model).run();
  if (std::any_of(wanted.begin(), wanted.end(), [](const Layout* l) { return l != nullptr; })) {
    throw UnsupportedError(Message("HP-S035", call.op + ": no inference from results for list ops")
                               .hint("ask for each element by the op without _foreach_"));
  }
  std::vector<Inference> parts = infer_parts(rule, call, model);
  Call shared = call;
  bool differ = false;
  std::vector<Change> gathered = gather_shared(rule, parts, shared, model, differ);
  if (differ) parts = infer_parts(rule, shared, model);
  Inference out = merge(rule, call, std::move(parts));
  for (Change& change : gathered) {
    out.bytes += change.bytes;
    out.changes.push_back(std::move(change));
  }
  return out;
}

Inference infer_forward(const ConcreteRule& rule, const Call& call,
                        std::span<const Layout* const> wanted) {
  return infer_forward(rule, call, wanted, CostModel());
}

Inference apply(const ConcreteRule& rule, const Call& call, std::span<const AxisChoice> choices) {
  if (static_cast<int>(choices.size()) != call.mesh->ndim()) {
    throw UsageError(Message("HP-S031", call.op + ": one choice an axis is needed")
                         .fact("mesh", call.mesh->to_string())
                         .fact("given", std::to_string(choices.size())));
  }
  const CostModel model;
  const Question question = ask(rule, call, model);
  std::string why;
  auto made = weigh(question, choices, {}, &why);
  if (!made) {
    throw UnsupportedError(
        Message("HP-S032", call.op + ": no layouts for these choices").fact("why", why));
  }
  return finish(question, choices, *std::move(made));
}

}  // namespace hyper_parallel::rules
