// Ops that hand a value to the host, and ops whose result sizes depend on values: every operand
// must be whole on every rank, so that all ranks see the same. Unknown result sizes are -1.

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

// host: no tensor result.
ConcreteRule build_host(const Call& call, Words) { return start(call); }

// dynamic N: results of N dims of unknown sizes. dynamic N M ...: several results.
ConcreteRule build_dynamic(const Call& call, Words words) {
  ConcreteRule rule = start(call);
  rule.dynamic = true;
  for (std::string_view word : words) {
    rule.outputs.push_back(whole(Shape(number_of(word), -1)));
  }
  return rule;
}

// nonzero: [count, ndim]. where(condition): one list of indices a dim.
ConcreteRule build_nonzero(const Call& call, Words words) {
  check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  rule.dynamic = true;
  const std::size_t ndim = call.inputs[0].meta.sizes.size();
  if (has_word(words, "each")) {
    rule.outputs.assign(ndim == 0 ? 1 : ndim, whole({-1}));
  } else {
    rule.outputs.push_back(whole({-1, static_cast<std::int64_t>(ndim)}));
  }
  return rule;
}

// whole: all operands whole, one result like the first, or a number.
ConcreteRule build_whole(const Call& call, Words words) {
  if (call.inputs.empty()) check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  rule.outputs.push_back(has_word(words, "scalar") ? whole({}) : whole(call.inputs[0].meta.sizes));
  return rule;
}

// nonzero_static(self, size): [size, ndim].
ConcreteRule build_nonzero_static(const Call& call, Words) {
  check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  const auto ndim = static_cast<std::int64_t>(call.inputs[0].meta.sizes.size());
  rule.outputs.push_back(whole({call.integer("size", 0), ndim}));
  return rule;
}

// repeat_interleave(self, repeats [n], dim?): the lengths are in repeats.
ConcreteRule build_repeats(const Call& call, Words) {
  check_count(call, 2, 2);
  ConcreteRule rule = start(call);
  rule.dynamic = true;
  Shape sizes = call.inputs[0].meta.sizes;
  const std::size_t ndim = sizes.size();
  if (call.has("dim") && ndim > 0) {
    sizes[dim_of(call, "dim", 0, ndim)] = -1;
  } else {
    sizes = {-1};
  }
  rule.outputs.push_back(whole(std::move(sizes)));
  return rule;
}

// unique: which values there are, and where, is known after the run only. Results: values, (with 4:
// the first place of each,) the value's number for each element, the counts.
ConcreteRule build_unique(const Call& call, Words words) {
  check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  const std::size_t ndim = call.inputs[0].meta.sizes.size();
  const bool flat = !call.has("dim") || call.integers("dim").empty();
  if (!flat && ndim == 0) check_ndim(call, 0, 1);
  const std::int64_t elements = product(call.inputs[0].meta.sizes);
  TensorMap values = whole(flat ? Shape{-1} : call.inputs[0].meta.sizes);
  Shape places = call.inputs[0].meta.sizes;
  if (!flat) {
    const auto dim = dim_of(call, "dim", 0, ndim);
    values.sizes[dim] = -1;
    places = {call.inputs[0].meta.sizes[dim]};
  } else if (words.front() == "4") {
    places = {elements};
  }
  rule.outputs.push_back(std::move(values));
  if (words.front() == "4") rule.outputs.push_back(whole({-1}));
  rule.outputs.push_back(whole(std::move(places)));
  rule.outputs.push_back(whole({-1}));
  rule.dynamic = true;
  return rule;
}

constexpr Row kRows[] = {{"hyper_parallel::unique", "unique 4"}};

constexpr Group kGroups[] = {
    {"host", "_linalg_check_errors _local_scalar_dense allclose equal is_nonzero item"},
    {"dynamic 1", "bincount masked_select"},
    {"dynamic 1 1 1", "_unique2 unique_consecutive"},
    {"dynamic 1 1", "_unique"},
    {"nonzero", "argwhere nonzero"},
    {"nonzero_static", "nonzero_static"},
    {"unique 3", "unique_dim unique_dim_consecutive"},
    {"nonzero each", "nonzero_numpy where"},
    {"repeats", "repeat_interleave.self_Tensor"},
    {"whole", "masked_scatter put"},
    {"whole scalar", "dist"},
};

constexpr NamedBuilder kBuilders[] = {
    {"dynamic", build_dynamic}, {"host", build_host},
    {"nonzero", build_nonzero}, {"nonzero_static", build_nonzero_static},
    {"repeats", build_repeats}, {"unique", build_unique},
    {"whole", build_whole}};

}  // namespace

Family host_family() { return {"host", kRows, kGroups, kBuilders}; }

}  // namespace hyper_parallel::rules
