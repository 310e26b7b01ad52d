// Forward inference. The price of a strategy is a sum over mesh axes, so each axis lists its
// candidates with their prices, and a search over the axes, cheapest first, stops at the first set
// that has layouts and whose price no other set can beat.

#include <algorithm>
#include <limits>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/engine/partial.h"
#include "hyper_parallel/rules/engine/state.h"
#include "hyper_parallel/rules/handlers.h"

namespace hyper_parallel::rules {
namespace {

struct Candidate {
  AxisChoice choice;
  double bytes = 0;    // moved, by the handler too
  double handler = 0;  // of these, by the handler
  double kept = 0;     // bytes of operands that stay split or partial as they are
};

// Pass before reduce before partial before none, when all else is equal.
int rank_of(const ConcreteRule& rule, const AxisChoice& c) {
  if (c.kind == AxisChoice::Kind::none) return 3;
  if (c.kind == AxisChoice::Kind::partial) return 2;
  return rule.factors[at(c.factor)].kind == FactorKind::reduce ? 1 : 0;
}

class Search {
 public:
  Search(const ConcreteRule& rule, const Call& call)
      : rule_(rule), call_(call), states_(read_operands(rule, call)) {}

  Inference run() {
    const int axes = call_.mesh->ndim();
    find_joined();
    for (int axis = 0; axis < axes; ++axis) candidates_.push_back(list(axis));
    // What the axes from here on cost at least.
    rest_.assign(at(axes) + 1, 0);
    for (int axis = axes - 1; axis >= 0; --axis) {
      if (candidates_[at(axis)].empty()) fail();
      rest_[at(axis)] = rest_[at(axis) + 1] + candidates_[at(axis)].front().bytes;
    }
    chosen_.resize(at(axes));
    descend(0, 0);
    if (!found_) fail();
    return finish(rule_, call_, states_, best_, std::move(assembled_));
  }

 private:
  std::vector<Candidate> list(int axis) {
    std::vector<Candidate> out;
    const auto add = [&](AxisChoice choice) {
      if (auto c = cost(axis, std::move(choice))) out.push_back(*std::move(c));
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
      for (const OperandState& state : states_) {
        if (state.layout == nullptr) continue;
        const Has& has = state.axes[at(axis)];
        if (has.kind != Has::Kind::factor) continue;
        add_factor(has.factor);
        for (int factor : joined_[at(has.factor)]) add_factor(factor);
      }
      for (AxisChoice& choice : partial_choices(rule_, call_, states_, axis))
        add(std::move(choice));
    }
    add({});
    std::stable_sort(out.begin(), out.end(), [&](const Candidate& a, const Candidate& b) {
      if (a.bytes != b.bytes) return a.bytes < b.bytes;
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

  std::optional<Candidate> cost(int axis, AxisChoice choice) {
    Candidate out;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const OperandState& state = states_[i];
      if (state.layout == nullptr) continue;
      const Has& has = state.axes[at(axis)];
      const Need n = need(rule_, static_cast<int>(i), has, choice);
      const double bytes = state.bytes_without(axis);
      const auto p = price(has, n, call_.mesh->size(axis), bytes);
      if (!p) return std::nullopt;
      out.bytes += *p;
      const bool splits = choice.kind == AxisChoice::Kind::factor &&
                          has.kind == Has::Kind::factor && has.factor == choice.factor;
      const bool carries = n.kind == Need::Kind::partial;
      if (splits || carries) out.kept += bytes;
    }
    out.handler = handler_price(rule_, call_, states_, axis, choice);
    out.bytes += out.handler;
    out.choice = std::move(choice);
    return out;
  }

  // Bytes that the results will cost later. Some choices move nothing now and leave work behind: a
  // partial operand that passes, and a look-up with a mask, leave a sum to be reduced; a small
  // split operand that splits larger ones leaves a gather. If these bytes were not counted, a
  // weight would be gathered to keep an activation partial, a small table looked up in parts, and
  // an activation split because its bias is.
  double pending(const std::vector<const Layout*>& outputs) const {
    double out = 0;
    for (int axis = 0; axis < call_.mesh->ndim(); ++axis) {
      const AxisChoice& choice = chosen_[at(axis)];
      const bool passes = choice.kind == AxisChoice::Kind::partial;
      const bool splits = choice.kind == AxisChoice::Kind::factor;
      const bool looks_up = splits && puts_off(rule_.factors[at(choice.factor)].handler);
      const double n = call_.mesh->size(axis);
      if (splits && !looks_up && spreads(axis, choice.factor)) {
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          if (!holds(rule_.outputs[i], choice.factor)) continue;
          out += (n - 1) * local_elements(rule_.outputs[i].sizes, outputs[i]) * widest();
        }
      }
      if (!passes && !looks_up && !(splits && recuts(axis, choice.factor))) continue;
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        out += 2 * (n - 1) / n * local_elements(rule_.outputs[i].sizes, outputs[i]) * width();
      }
    }
    return out;
  }

  // True if only vectors have `factor` split on `axis`, broadcast against an operand that has it
  // whole, as a bias against an activation.
  bool spreads(int axis, int factor) const {
    bool any = false;
    bool larger = false;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (!counts(i, factor)) continue;
      std::size_t factors = 0;
      for (const auto& dim : rule_.inputs[i].dims) factors += dim.size();
      if (states_[i].axes[at(axis)].kind == Has::Kind::whole) {
        larger |= factors > 1;
      } else if (factors > 1) {
        return false;
      } else {
        any = true;
      }
    }
    return any && larger;
  }

  bool counts(std::size_t input, int factor) const {
    const TensorMap& map = rule_.inputs[input];
    return states_[input].layout != nullptr && !map.shape_only && !call_.inputs[input].pinned &&
           holds(map, factor);
  }

  // True if some operand must leave another split for that of `factor`, which is summed over.
  bool recuts(int axis, int factor) const {
    if (rule_.factors[at(factor)].kind != FactorKind::reduce) return false;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (!counts(i, factor)) continue;
      const Has& has = states_[i].axes[at(axis)];
      if (has.kind == Has::Kind::factor && has.factor != factor) return true;
    }
    return false;
  }

  static bool puts_off(const std::string& handler) {
    return !handler.empty() && find_handler(handler).puts_off;
  }

  static double local_elements(const Shape& sizes, const Layout* layout) {
    double out = 1;
    for (std::int64_t size : sizes) out *= static_cast<double>(size);
    for (const Split& split : layout->splits()) {
      for (int axis : split.axes) out /= layout->mesh()->size(axis);
    }
    return out;
  }

  // Bytes of an element of the widest operand.
  double widest() const {
    double out = 0;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].layout == nullptr) continue;
      out = std::max(out, static_cast<double>(bytes_of(call_.inputs[i].meta.dtype)));
    }
    return out;
  }

  // Bytes of an element of the operand that carries the values: the widest that is linear.
  double width() const {
    double out = 0;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].layout == nullptr || !rule_.inputs[i].linear) continue;
      out = std::max(out, static_cast<double>(bytes_of(call_.inputs[i].meta.dtype)));
    }
    return out;
  }

  void descend(int axis, double bytes) {
    if (found_ && bytes + rest_[at(axis)] >= best_bytes_) return;
    if (axis == call_.mesh->ndim()) {
      auto made = assemble(rule_, call_, states_, chosen_, {}, &why_);
      if (!made) return;
      const double total = bytes + made->extra + pending(made->outputs);
      if (found_ && total >= best_bytes_) return;
      found_ = true;
      best_bytes_ = total;
      best_ = chosen_;
      assembled_ = *std::move(made);
      return;
    }
    for (const Candidate& c : candidates_[at(axis)]) {
      chosen_[at(axis)] = c.choice;
      descend(axis + 1, bytes + c.bytes);
    }
  }

  [[noreturn]] void fail() const {
    Message message("HP-S030", call_.op + ": no strategy fits these layouts");
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].layout == nullptr) continue;
      const Operand& o = call_.inputs[i];
      message.fact(o.name.empty() ? "operand" : o.name,
                   to_string(o.meta, states_[i].layout) + (o.pinned ? " (written in place)" : ""));
    }
    if (!why_.empty()) message.fact("last tried", why_);
    message.hint(
        "redistribute the operand that is written in place, or use the op that returns a "
        "new tensor");
    throw UnsupportedError(message);
  }

  const ConcreteRule& rule_;
  const Call& call_;
  std::vector<OperandState> states_;
  std::vector<std::vector<int>> joined_;  // beside factors: the next major one of a result's dim
  std::vector<std::vector<Candidate>> candidates_;
  std::vector<double> rest_;
  std::vector<AxisChoice> chosen_;
  std::vector<AxisChoice> best_;
  Assembled assembled_;
  double best_bytes_ = std::numeric_limits<double>::infinity();
  bool found_ = false;
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
    for (Change change : made.changes) {
      change.input = part.inputs[at(change.input)];
      out.changes.push_back(std::move(change));
    }
    out.bytes += made.bytes;
    out.random |= made.random;
    if (!made.handler.empty()) out.handler = "each";
  }
  out.aliases = rule.aliases;
  out.parts = std::move(parts);
  return out;
}

std::vector<Inference> infer_parts(const ConcreteRule& rule, const Call& call) {
  std::vector<Inference> out;
  for (const Part& part : rule.parts) {
    out.push_back(infer_forward(part.rule, part_call(call, part)));
  }
  return out;
}

double bytes_to_gather(const Operand& operand) {
  const Mesh* mesh = operand.layout->mesh();
  double bytes = static_cast<double>(operand.meta.numel()) * bytes_of(operand.meta.dtype);
  double out = 0;
  for (int axis = 0; axis < mesh->ndim(); ++axis) {
    const Placement p = operand.layout->placement(axis);
    const double n = mesh->size(axis);
    if (!p.is_replicate()) out += (p.is_partial() ? 2 : 1) * (n - 1) / n * bytes;
  }
  return out;
}

// One operand of several parts (the number that a whole list is multiplied by) has one layout in
// all of them. Where the parts would have it differently, it is made whole first, and stays so.
std::vector<Change> gather_shared(const ConcreteRule& rule, const std::vector<Inference>& parts,
                                  Call& call, bool& differ) {
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
        out.push_back({input, operand.layout, whole, bytes_to_gather(operand),
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

Inference infer_forward(const ConcreteRule& rule, const Call& call) {
  check_internal(call.mesh != nullptr, call.op + ": the call names no mesh");
  if (rule.parts.empty()) return Search(rule, call).run();
  std::vector<Inference> parts = infer_parts(rule, call);
  Call shared = call;
  bool differ = false;
  std::vector<Change> gathered = gather_shared(rule, parts, shared, differ);
  if (differ) parts = infer_parts(rule, shared);
  Inference out = merge(rule, call, std::move(parts));
  for (Change& change : gathered) {
    out.bytes += change.bytes;
    out.changes.push_back(std::move(change));
  }
  return out;
}

Inference apply(const ConcreteRule& rule, const Call& call, std::span<const AxisChoice> choices) {
  if (static_cast<int>(choices.size()) != call.mesh->ndim()) {
    throw UsageError(Message("HP-S031", call.op + ": one choice an axis is needed")
                         .fact("mesh", call.mesh->to_string())
                         .fact("given", std::to_string(choices.size())));
  }
  const auto states = read_operands(rule, call);
  std::string why;
  auto made = assemble(rule, call, states, choices, {}, &why);
  if (!made) {
    throw UnsupportedError(
        Message("HP-S032", call.op + ": no layouts for these choices").fact("why", why));
  }
  return finish(rule, call, states, choices, *std::move(made));
}

}  // namespace hyper_parallel::rules
