// When two rules say the same.

#include "hyper_parallel/rules/rule.h"

#include <algorithm>

namespace hyper_parallel::rules {
namespace {

bool same(const Factor& a, const Factor& b) {
  return a.size == b.size && a.kind == b.kind && a.block == b.block && a.handler == b.handler &&
         a.nonempty == b.nonempty && a.plain == b.plain && a.window == b.window &&
         a.part == b.part && (a.kind != FactorKind::reduce || a.reduce == b.reduce);
}

const Shape& segments(const TensorMap& map, std::size_t dim) {
  static const Shape kNone;
  return map.segments.empty() || map.dims[dim].empty() ? kNone : map.segments[dim];
}

int joint_factor(const TensorMap& map, std::size_t dim) {
  return map.joint.empty() ? kNoFactor : map.joint[dim];
}

bool same(const TensorMap& a, const TensorMap& b) {
  if (!a.present || !b.present) return a.present == b.present;
  if (a.dims != b.dims || a.sizes != b.sizes || a.linear != b.linear || a.addend != b.addend ||
      a.shape_only != b.shape_only || a.ignore_pin != b.ignore_pin) {
    return false;
  }
  for (std::size_t d = 0; d < a.dims.size(); ++d) {
    if (joint_factor(a, d) != joint_factor(b, d)) return false;
    if (segments(a, d) != segments(b, d)) return false;
  }
  return true;
}

// True if both rules put the same operands together as products.
bool same_terms(const ConcreteRule& a, const ConcreteRule& b) {
  const auto terms = [](const ConcreteRule& rule) {
    std::vector<std::size_t> out;  // the first operand of each one's term
    for (std::size_t i = 0; i < rule.inputs.size(); ++i) {
      std::size_t first = i;
      for (std::size_t j = 0; j < i && first == i; ++j) {
        const TensorMap& other = rule.inputs[j];
        if (other.present && other.linear && other.term == rule.inputs[i].term) first = j;
      }
      out.push_back(rule.inputs[i].linear && rule.inputs[i].present ? first : i);
    }
    return out;
  };
  return terms(a) == terms(b);
}

template <class T, class Same>
bool all_same(const std::vector<T>& a, const std::vector<T>& b, Same same) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

}  // namespace

bool operator==(const ConcreteRule& a, const ConcreteRule& b) {
  const auto same_factor = [](const Factor& x, const Factor& y) { return same(x, y); };
  const auto same_tensor = [](const TensorMap& x, const TensorMap& y) { return same(x, y); };
  const auto same_part = [](const Part& x, const Part& y) {
    return x.rule == y.rule && x.inputs == y.inputs && x.outputs == y.outputs;
  };
  return all_same(a.factors, b.factors, same_factor) && all_same(a.inputs, b.inputs, same_tensor) &&
         all_same(a.outputs, b.outputs, same_tensor) && same_terms(a, b) &&
         a.rewrites == b.rewrites && a.partial == b.partial &&
         (a.partial != PartialRule::one || a.partial_op == b.partial_op) &&
         a.handler == b.handler && a.random == b.random && a.aliases == b.aliases &&
         a.dynamic == b.dynamic && a.writes == b.writes && all_same(a.parts, b.parts, same_part);
}

}  // namespace hyper_parallel::rules
