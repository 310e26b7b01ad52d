// Table look-up. A split vocabulary is a masked look-up: rows of other ranks give zero, the result
// is P(sum).

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"
#include "hyper_parallel/rules/text/notation.h"

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

// embedding_bag(weight [v, d], indices [n], offsets [bags], per_sample_weights? [n]) -> [bags, d].
// Split rows or bags take handler embedding_bag; the indices are whole. The other results are
// torch's notes for its backward: here there is only the fourth, of mode 2 (max).
ConcreteRule build_bag(const Call& call, Words) {
  check_count(call, 3, 4);
  check_ndim(call, 0, 2);
  check_ndim(call, 1, 1);
  check_ndim(call, 2, 1);
  ConcreteRule rule = start(call);
  const std::vector<int> table = spread(rule, 0);
  const std::int64_t ends = call.boolean("include_last_offset", false) ? 1 : 0;
  const bool max = call.integer("mode", 0) == 2;
  const std::int64_t bags = call.inputs[2].meta.sizes[0] - ends;
  TensorMap out = whole({bags, call.inputs[0].meta.sizes[1]});
  put(out, 1, table[1]);
  if (call.inputs.size() > 3 && call.inputs[3].present) {
    check_ndim(call, 3, 1);
    const std::int64_t count = call.inputs[1].meta.sizes[0];
    const std::int64_t size = call.inputs[3].meta.sizes[0];
    if (size != count) throw_sizes(call, 3, 0, size, count, "indices");
    rule.inputs[3].linear = true;
  }
  // scale_grad_by_freq divides by how often an index occurs in the whole batch.
  const bool counts = call.boolean("scale_grad_by_freq", false);
  rename(rule, table[0], "v");
  counts || max ? block(rule, table[0]) : sum_over(rule, table[0]);
  run_by(rule, table[0], "embedding_bag");
  if (ends == 0) {
    const int b = add_factor(rule, "b", bags, {{rule.inputs[2], 0}, {out, 0}},
                             counts ? FactorKind::blocked : FactorKind::pass);
    run_by(rule, b, "embedding_bag");
  }
  rule.inputs[0].linear = !max;
  rule.handler = "embedding_bag";
  const TensorMap places = max ? out : whole({0});
  rule.outputs = {std::move(out), whole({0}), whole({0}), places};
  return rule;
}

ConcreteRule build_one_hot(const Call& call, Words) {
  static const Notation kKnown = parse_notation("... -> ... _=num_classes");
  static const Notation kUnknown = parse_notation("... -> ... _");
  if (call.integer("num_classes", -1) >= 0) return concretize(kKnown, call);
  // The number of classes is one more than the largest value.
  ConcreteRule rule = concretize(kUnknown, call);
  block_all(rule);
  rule.outputs[0].sizes.back() = -1;
  rule.dynamic = true;
  return rule;
}

constexpr Row kRows[] = {
    {"aten::_embedding_bag", "embedding_bag"},
    {"aten::embedding", "embedding"},
    {"aten::embedding_bag", "embedding_bag"},
    {"aten::embedding_bag.padding_idx", "embedding_bag"},
    {"aten::one_hot", "one_hot"},
};

constexpr NamedBuilder kBuilders[] = {
    {"embedding", build_embedding}, {"embedding_bag", build_bag}, {"one_hot", build_one_hot}};

}  // namespace

Family embedding_family() { return {"embedding", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
