#include "hyper_parallel/rules/engine/partial.h"

#include <algorithm>

namespace hyper_parallel::rules {
namespace {

// A value that all ranks share is its own average, maximum and minimum.
bool idempotent(ReduceOp op) {
  return op == ReduceOp::avg || op == ReduceOp::max || op == ReduceOp::min;
}

// One operand of each term out of those that `may` be partial. A term with none is left R if the
// kind allows it or if it is an addend, which the handler masks.
template <class May>
std::vector<AxisChoice> choose(const ConcreteRule& rule, ReduceOp op, bool loose, May may) {
  AxisChoice start;
  start.kind = AxisChoice::Kind::partial;
  start.op = op;
  start.partial_in.assign(rule.inputs.size(), 0);
  std::vector<AxisChoice> out{start};
  int terms = 0;
  for (const TensorMap& map : rule.inputs) {
    if (map.linear && map.present) terms = std::max(terms, map.term + 1);
  }
  for (int term = 0; term < terms; ++term) {
    std::vector<std::size_t> options;
    bool used = false;
    bool addend = true;
    for (std::size_t i = 0; i < rule.inputs.size(); ++i) {
      const TensorMap& map = rule.inputs[i];
      if (!map.linear || !map.present || map.term != term) continue;
      used = true;
      addend &= map.addend;
      if (may(i)) options.push_back(i);
    }
    if (!used) continue;
    if (options.empty()) {
      if (loose && (addend || idempotent(op))) continue;
      return {};
    }
    std::vector<AxisChoice> next;
    for (const AxisChoice& c : out) {
      for (std::size_t i : options) {
        next.push_back(c);
        next.back().partial_in[i] = 1;
      }
    }
    out = std::move(next);
  }
  std::erase_if(out, [](const AxisChoice& c) {
    return std::find(c.partial_in.begin(), c.partial_in.end(), 1) == c.partial_in.end();
  });
  return out;
}

}  // namespace

std::vector<ReduceOp> passing_kinds(const ConcreteRule& rule) {
  switch (rule.partial) {
    case PartialRule::linear:
      return {ReduceOp::sum, ReduceOp::avg};
    case PartialRule::monotone:
      return {ReduceOp::max, ReduceOp::min};
    case PartialRule::any:
      return {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min, ReduceOp::prod};
    case PartialRule::one:
      return {rule.partial_op};
  }
  return {};
}

bool passes(const ConcreteRule& rule, ReduceOp op) {
  const auto kinds = passing_kinds(rule);
  return std::find(kinds.begin(), kinds.end(), op) != kinds.end();
}

std::vector<AxisChoice> partial_choices(const ConcreteRule& rule, const Call& call,
                                        const std::vector<OperandState>& states, int axis) {
  std::vector<AxisChoice> out;
  std::vector<ReduceOp> tried;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states[i].layout == nullptr || !rule.inputs[i].linear) continue;
    const Has& has = states[i].axes[at(axis)];
    if (has.kind != Has::Kind::partial || !passes(rule, has.op)) continue;
    if (std::find(tried.begin(), tried.end(), has.op) != tried.end()) continue;
    tried.push_back(has.op);
    const auto must_stay = [&](std::size_t j) {
      return states[j].layout != nullptr && call.inputs[j].pinned && !rule.inputs[j].ignore_pin &&
             states[j].axes[at(axis)].kind == Has::Kind::partial;
    };
    bool spreads = false;
    for (std::size_t j = 0; j < states.size(); ++j) spreads |= must_stay(j);
    spreads &= has.op == ReduceOp::sum;
    for (AxisChoice& c : choose(rule, has.op, true, [&](std::size_t j) {
           if (states[j].layout == nullptr) return false;
           const Has& other = states[j].axes[at(axis)];
           if (other.kind == Has::Kind::whole) return spreads && !call.inputs[j].pinned;
           return other.kind == Has::Kind::partial && other.op == has.op;
         })) {
      out.push_back(std::move(c));
    }
  }
  return out;
}

std::vector<AxisChoice> all_partial_choices(const ConcreteRule& rule, ReduceOp op) {
  return choose(rule, op, false, [](std::size_t) { return true; });
}

}  // namespace hyper_parallel::rules
