// Look-ups and writes by one index whose last dim holds the places in several dims.
//
// gather_nd(self, index [..., k]) -> [..., rest]: the last dim of index holds the places in the
// first k dims of self. scatter_nd_add(self, index, updates) adds updates there.

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

struct Places {
  ConcreteRule rule;
  TensorMap result;        // [..., rest]
  std::vector<int> taken;  // factors of the first k dims of self
  std::vector<int> index;  // factors of the dims of index but the last
};

Places index_places(const Call& call) {
  Places out;
  out.rule = start(call);
  const Shape& index = call.inputs[1].meta.sizes;
  if (index.empty()) check_ndim(call, 1, 1);
  const auto k = static_cast<std::size_t>(index.back());
  const std::vector<int> self = spread(out.rule, 0);
  if (k > self.size())
    throw_sizes(call, 1, index.size() - 1, index.back(), static_cast<std::int64_t>(self.size()),
                "the dims of self");
  for (std::size_t d = 0; d + 1 < index.size(); ++d) {
    add_dim(out.result, index[d]);
    out.index.push_back(add_factor(out.rule, "i" + std::to_string(d), index[d],
                                   {{out.rule.inputs[1], d}, {out.result, d}}));
  }
  for (std::size_t d = 0; d < self.size(); ++d) {
    if (d < k) {
      out.taken.push_back(self[d]);
      continue;
    }
    out.result.sizes.push_back(call.inputs[0].meta.sizes[d]);
    out.result.dims.push_back(out.rule.inputs[0].dims[d]);
  }
  return out;
}

ConcreteRule build_gather_nd(const Call& call, Words) {
  check_count(call, 2, 2);
  Places places = index_places(call);
  for (int f : places.taken) block(places.rule, f);
  places.rule.inputs[0].linear = true;
  places.rule.partial = PartialRule::any;
  places.rule.outputs.push_back(std::move(places.result));
  return std::move(places.rule);
}

ConcreteRule build_scatter_nd_add(const Call& call, Words) {
  check_count(call, 3, 3);
  Places places = index_places(call);
  ConcreteRule& rule = places.rule;
  if (call.inputs[2].meta.sizes != places.result.sizes) {
    throw UsageError(Message("HP-S002", call.op + ": updates have other sizes than index asks for")
                         .fact("updates", hyper_parallel::to_string(call.inputs[2].meta.sizes))
                         .fact("needed", hyper_parallel::to_string(places.result.sizes)));
  }
  for (int f : places.taken) run_by(rule, f, "index_write");
  for (int f : places.index) sum_over(rule, f);
  rule.inputs[2].dims = places.result.dims;
  rule.inputs[0].linear = rule.inputs[0].addend = rule.inputs[2].linear = true;
  rule.inputs[2].term = 1;
  rule.outputs.push_back(like(rule.inputs[0]));
  return std::move(places.rule);
}

constexpr Row kRows[] = {
    {"hyper_parallel::gather_nd", "gather_nd"},
    {"hyper_parallel::scatter_nd_add", "scatter_nd_add"},
};

constexpr NamedBuilder kBuilders[] = {{"gather_nd", build_gather_nd},
                                      {"scatter_nd_add", build_scatter_nd_add}};

}  // namespace

Family places_family() { return {"places", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
