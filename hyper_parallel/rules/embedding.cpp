// Table look-up. A split vocabulary is a masked look-up: rows of other ranks give zero, the result
// is P(sum).

#include "hyper_parallel/rules/families.h"
#include "hyper_parallel/rules/make.h"
#include "hyper_parallel/rules/notation.h"

namespace hyper_parallel::rules {
namespace {

ConcreteRule build_embedding(const Call& call, Words) {
  static const Notation kLookUp = parse_notation("*v~embedding d, ... -> ... d");
  static const Notation kCounting = parse_notation("*v! d, ... -> ... d");
  // scale_grad_by_freq divides by how often an index occurs in the whole batch.
  if (!call.boolean("scale_grad_by_freq", false)) return concretize(kLookUp, call);
  ConcreteRule rule = concretize(kCounting, call);
  for (const auto& dim : rule.inputs[1].dims) {
    for (int f : dim) block(rule, f);
  }
  return rule;
}

ConcreteRule build_one_hot(const Call& call, Words) {
  static const Notation kKnown = parse_notation("... -> ... _=num_classes");
  static const Notation kUnknown = parse_notation("... -> ... _");
  if (call.integer("num_classes", -1) >= 0) return concretize(kKnown, call);
  // The number of classes is one more than the largest value.
  ConcreteRule rule = concretize(kUnknown, call);
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) block(rule, f);
  rule.outputs[0].sizes.back() = -1;
  rule.dynamic = true;
  return rule;
}

constexpr Row kRows[] = {
    {"aten::embedding", "embedding"},
    {"aten::one_hot", "one_hot"},
};

constexpr NamedBuilder kBuilders[] = {{"embedding", build_embedding}, {"one_hot", build_one_hot}};

}  // namespace

Family embedding_family() { return {"embedding", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
