#include "hyper_parallel/rules/engine/deferred.h"

#include <cmath>

#include "hyper_parallel/rules/handlers.h"

namespace hyper_parallel::rules {
namespace {

class Deferred {
 public:
  Deferred(const ConcreteRule& rule, const Call& call, const std::vector<OperandState>& states)
      : rule_(rule), call_(call), states_(states) {}

  bool reduces(int axis, const AxisChoice& choice) const {
    if (choice.kind != AxisChoice::Kind::factor) return choice.kind == AxisChoice::Kind::partial;
    return leaves_a_sum(choice.factor) || cuts_for_a_sum(axis, choice.factor);
  }

  bool gathers(int axis, const AxisChoice& choice) const {
    return choice.kind == AxisChoice::Kind::factor && !leaves_a_sum(choice.factor) &&
           spreads_from_vectors(axis, choice.factor);
  }

  /// The type of the widest operand; of the widest that carries the values of a sum.
  DType widest(bool linear) const {
    DType out = DType::boolean;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].layout == nullptr || (linear && !rule_.inputs[i].linear)) continue;
      const DType own = call_.inputs[i].meta.dtype;
      if (bytes_of(own) > bytes_of(out) || out == DType::boolean) out = own;
    }
    return out;
  }

 private:
  bool counts(std::size_t input, int factor) const {
    const TensorMap& map = rule_.inputs[input];
    return states_[input].layout != nullptr && !map.shape_only && !call_.inputs[input].pinned &&
           holds(map, factor);
  }

  bool leaves_a_sum(int factor) const {
    const std::string& handler = rule_.factors[at(factor)].handler;
    return !handler.empty() && find_handler(handler).puts_off;
  }

  // Some operand leaves another split for that of `factor`, which is summed over.
  bool cuts_for_a_sum(int axis, int factor) const {
    if (rule_.factors[at(factor)].kind != FactorKind::reduce) return false;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (!counts(i, factor)) continue;
      const Has& has = states_[i].axes[at(axis)];
      if (has.kind == Has::Kind::factor && has.factor != factor) return true;
    }
    return false;
  }

  // Only vectors have `factor` split, broadcast against an operand that has it whole, as a bias
  // against an activation.
  bool spreads_from_vectors(int axis, int factor) const {
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

  const ConcreteRule& rule_;
  const Call& call_;
  const std::vector<OperandState>& states_;
};

}  // namespace

double deferred(const ConcreteRule& rule, const Call& call, const std::vector<OperandState>& states,
                std::span<const AxisChoice> choices, std::span<const Layout* const> outputs,
                const CostModel& model) {
  const Deferred work(rule, call, states);
  std::vector<int> reduced;
  std::vector<int> gathered;
  for (int axis = 0; axis < call.mesh->ndim(); ++axis) {
    if (call.mesh->size(axis) == 1) continue;
    if (work.reduces(axis, choices[at(axis)])) reduced.push_back(axis);
    if (work.gathers(axis, choices[at(axis)])) gathered.push_back(axis);
  }
  double out = 0;
  const auto make_whole = [&](const Layout* from, const std::vector<int>& axes, bool partial,
                              const Shape& sizes) {
    const Layout* to = from;
    for (int axis : axes) {
      const Placement p = from->placement(axis);
      if (partial ? p.is_partial() : p.is_shard()) to = to->with(axis, Placement::replicate());
    }
    const double cost = model.change(from, to, {sizes, work.widest(partial)}).cost;
    if (!std::isinf(cost)) out += cost;  // sizes that are known later, sums that do not commute
    return to;
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == nullptr || (reduced.empty() && gathered.empty())) continue;
    const Shape& sizes = rule.outputs[i].sizes;
    make_whole(make_whole(outputs[i], reduced, true, sizes), gathered, false, sizes);
  }
  return out;
}

}  // namespace hyper_parallel::rules
