// Counts in bins and reductions of segments.
//
//   histogram(self, bins [k]?, weight?; density) -> counts, edges
//   _histogramdd_...(self [..., d], bins; ...)   edges of each dim, or counts
//
// Where elements are split, handler histogram takes the range from all ranks and adds up the
// counts.

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

// histc: counts in fixed bins add up; with min = max the bins depend on the values.
ConcreteRule build_histc(const Call& call, Words) {
  check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  const bool fixed = !(is_number(call, "min", 0) && is_number(call, "max", 0)) && call.has("max");
  for (int f : spread(rule, 0)) {
    fixed ? sum_over(rule, f) : block(rule, f);
  }
  rule.outputs.push_back(whole({call.integer("bins", 100)}));
  return rule;
}

// points: the last dim of self is one point. Results by words: "edges", "counts".
ConcreteRule build_histogram(const Call& call, Words words) {
  const bool points = has_word(words, "points");
  const bool given = has_word(words, "given");  // the edges are tensors
  if (call.inputs.empty()) check_count(call, 1, 2);
  if (points && call.inputs[0].meta.sizes.empty()) check_ndim(call, 0, 2);
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread(rule, 0);
  for (int f : factors) {
    run_by(rule, f, "histogram");
  }
  if (points) block(rule, factors.back());
  Shape counts;
  std::size_t weight = 1;  // the operand after the edges
  if (given) {
    weight += points ? static_cast<std::size_t>(call.inputs[0].meta.sizes.back()) : 1;
    check_count(call, weight, weight + 1);
    for (std::size_t i = 1; i < weight; ++i) {
      check_ndim(call, i, 1);
      counts.push_back(call.inputs[i].meta.sizes[0] - 1);
    }
  } else {
    check_count(call, 1, 2);
    counts = points ? call.integers("bins") : Shape{call.integer("bins", 100)};
  }
  if (call.inputs.size() > weight && call.inputs[weight].present) {
    const std::size_t ndim = factors.size() - (points ? 1 : 0);
    check_ndim(call, weight, ndim);
    for (std::size_t d = 0; d < ndim; ++d) {
      const std::int64_t wanted = call.inputs[0].meta.sizes[d];
      const std::int64_t size = call.inputs[weight].meta.sizes[d];
      if (size != wanted) throw_sizes(call, weight, d, size, wanted, "self");
      put(rule.inputs[weight], d, factors[d]);
    }
  }
  if (has_word(words, "counts")) rule.outputs.push_back(whole(counts));
  if (has_word(words, "edges")) {
    for (std::int64_t n : counts) rule.outputs.push_back(whole({n + 1}));
  }
  return rule;
}

// segment_reduce(data [..., n, ...], lengths? [..., s], indices?, offsets? [..., s + 1]; axis):
// the reduced dim must be whole, the others pass.
ConcreteRule build_segments(const Call& call, Words) {
  constexpr std::size_t kOffsets = 3;
  check_count(call, 1, 4);
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread(rule, 0);
  const std::size_t lead = dim_of(call, "axis", 0, factors.size());
  if (factors.empty()) check_ndim(call, 0, 1);
  fill_all(rule);
  block(rule, factors[lead]);
  TensorMap out = like(rule.inputs[0]);
  out.dims[lead].clear();
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].present) continue;
    check_ndim(call, i, lead + 1);
    for (std::size_t d = 0; d < lead; ++d) put(rule.inputs[i], d, factors[d]);
    const std::int64_t ends = i == kOffsets ? 1 : 0;
    out.sizes[lead] = call.inputs[i].meta.sizes[lead] - ends;
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

constexpr Row kRows[] = {
    {"aten::_histogramdd_bin_edges", "histogram points edges"},
    {"aten::_histogramdd_from_bin_cts", "histogram points counts"},
    {"aten::_histogramdd_from_bin_tensors", "histogram points given counts"},
    {"aten::histc", "histc"},
    {"aten::histogram.bin_ct", "histogram counts edges"},
    {"aten::histogram.bins_tensor", "histogram given counts edges"},
    {"aten::segment_reduce", "segment_reduce"},
};

constexpr NamedBuilder kBuilders[] = {
    {"histc", build_histc}, {"histogram", build_histogram}, {"segment_reduce", build_segments}};

}  // namespace

Family counting_family() { return {"counting", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
