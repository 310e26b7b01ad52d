// Rows of no larger family: transforms, grouped products, searches.

#include <algorithm>

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"
#include "hyper_parallel/rules/text/notation.h"

namespace hyper_parallel::rules {
namespace {

// _grouped_mm(self, mat2, offs?, bias?): rows of self (or of the contraction) belong to groups that
// end at offs, so they must be whole.
ConcreteRule build_grouped(const Call& call, Words) {
  static const Notation kRowsByGroup = parse_notation("*t! k, *e! k n, ?e, ?+e n -> t n");
  static const Notation kBatch = parse_notation("*e m k, *e k n, ?e, ?+e n -> e m n");
  static const Notation kColumnsByGroup = parse_notation("*e! m k, *k t!, ?e, ?() -> m t");
  static const Notation kSums = parse_notation("*m t!, *t! n, ?e!, ?() -> e m n");
  check_count(call, 2, 4);
  const std::size_t left = call.inputs[0].meta.sizes.size();
  const std::size_t right = call.inputs[1].meta.sizes.size();
  ConcreteRule rule = concretize(left == 2    ? right == 3 ? kRowsByGroup : kSums
                                 : right == 3 ? kBatch
                                              : kColumnsByGroup,
                                 call);
  // The kernel reads rows in units of 16 bytes.
  for (std::string_view letter : {"k", "n"}) {
    const int f = factor_of_letter(rule, letter);
    if (f != kNoFactor) {
      Factor& factor = factor_of(rule, f);
      factor.block = std::max(16 / bytes_of(call.inputs[0].meta.dtype), 1);
      factor.nonempty = true;
    }
  }
  return rule;
}

// A transform along the dims of attribute `dim`: they must be whole. `half`: the last of them keeps
// the first half of the frequencies; `real`: it comes back to attribute `last_dim_size`.
ConcreteRule build_transform(const Call& call, Words words) {
  check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread(rule, 0);
  for (std::size_t d : dims_of(call, "dim", factors.size())) {
    block(rule, factors[d]);
  }
  fill_all(rule);  // the library refuses
  TensorMap out = whole(call.inputs[0].meta.sizes);
  out.dims = rule.inputs[0].dims;
  const std::vector<std::int64_t> dims = call.integers("dim");
  if (!dims.empty() && !words.empty() && !factors.empty()) {
    const std::size_t last = check_dim(call, dims.back(), factors.size());
    std::int64_t& size = out.sizes[last];
    const bool half = words.front() == "half" && call.boolean("onesided", true);
    if (half) size = size / 2 + 1;
    if (words.front() == "real") size = call.integer("last_dim_size", size);
    if (half || words.front() == "real") out.dims[last].clear();
  }
  rule.inputs[0].linear = true;
  rule.outputs.push_back(std::move(out));
  return rule;
}

// renorm: each slice of attribute `dim` by its own norm.
ConcreteRule build_renorm(const Call& call, Words) {
  check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread(rule, 0);
  const std::size_t dim = dim_of(call, "dim", 0, factors.size());
  for (std::size_t d = 0; d < factors.size(); ++d) {
    if (d != dim) block(rule, factors[d]);
  }
  TensorMap out = whole(call.inputs[0].meta.sizes);
  out.dims = rule.inputs[0].dims;
  rule.outputs.push_back(std::move(out));
  return rule;
}

// searchsorted(sorted, values, sorter?): sorted has one dim, or a row for each row of values.
ConcreteRule build_search(const Call& call, Words) {
  check_count(call, 2, 3);
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread(rule, 1);
  const Shape& sorted = call.inputs[0].meta.sizes;
  if (sorted.size() > 1) {
    check_ndim(call, 1, sorted.size());
    if (call.inputs.size() > 2 && call.inputs[2].present) check_ndim(call, 2, sorted.size());
    for (std::size_t d = 0; d + 1 < sorted.size(); ++d) {
      const std::int64_t size = call.inputs[1].meta.sizes[d];
      if (size != sorted[d]) throw_sizes(call, 1, d, size, sorted[d], "the sorted tensor");
      put(rule.inputs[0], d, factors[d]);
      if (call.inputs.size() > 2 && call.inputs[2].present) put(rule.inputs[2], d, factors[d]);
    }
  }
  TensorMap out = whole(call.inputs[1].meta.sizes);
  out.dims = rule.inputs[1].dims;
  rule.outputs.push_back(std::move(out));
  return rule;
}

constexpr Row kRows[] = {
    {"aten::_fft_c2c", "transform"},      {"aten::_fft_c2r", "transform real"},
    {"aten::_fft_r2c", "transform half"}, {"aten::_grouped_mm", "grouped_mm"},
    {"aten::renorm", "renorm"},           {"aten::searchsorted.Tensor", "searchsorted"},
};

constexpr NamedBuilder kBuilders[] = {
    {"grouped_mm", build_grouped},
    {"renorm", build_renorm},
    {"searchsorted", build_search},
    {"transform", build_transform},
};

}  // namespace

Family other_family() { return {"other", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
