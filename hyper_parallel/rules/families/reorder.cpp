// Ops that move, add or drop dims.

#include <algorithm>
#include <numeric>

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"
#include "hyper_parallel/rules/families/view.h"

namespace hyper_parallel::rules {
namespace {

constexpr std::size_t kNewDim = static_cast<std::size_t>(-1);

// Result dim i is dim from[i] of the operand; kNewDim one of size 1.
ConcreteRule take_dims(const Call& call, const std::vector<std::size_t>& from, bool view = true) {
  check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  spread(rule, 0);
  TensorMap out;
  for (std::size_t d : from) {
    add_dim(out, d == kNewDim ? 1 : rule.inputs[0].sizes[d]);
    if (d != kNewDim) out.dims.back() = rule.inputs[0].dims[d];
  }
  rule.inputs[0].linear = true;
  rule.partial = PartialRule::any;
  rule.aliases = view;
  rule.outputs.push_back(std::move(out));
  return rule;
}

std::size_t ndim_of(const Call& call) {
  check_count(call, 1, call.inputs.size());
  return call.inputs[0].meta.sizes.size();
}

std::vector<std::size_t> identity(const Call& call) {
  std::vector<std::size_t> from(ndim_of(call));
  std::iota(from.begin(), from.end(), std::size_t{0});
  return from;
}

ConcreteRule build_same(const Call& call, Words words) {
  return take_dims(call, identity(call), !has_word(words, "copy"));
}

ConcreteRule build_permute(const Call& call, Words) {
  const std::size_t ndim = ndim_of(call);
  std::vector<std::size_t> from;
  for (std::int64_t d : call.integers("dims")) from.push_back(check_dim(call, d, ndim));
  std::vector<std::size_t> sorted = from;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != identity(call)) {
    throw UsageError(Message(
        "HP-S004", call.op + ": dims are no permutation of the " + std::to_string(ndim) + " dims"));
  }
  return take_dims(call, from);
}

// transpose: attributes named by the words; t, mT: the last two.
ConcreteRule build_transpose(const Call& call, Words words) {
  const std::size_t ndim = ndim_of(call);
  std::vector<std::size_t> from = identity(call);
  if (words.size() == 2) {
    if (ndim == 0) return take_dims(call, from);
    std::swap(from[dim_of(call, words[0], 0, ndim)], from[dim_of(call, words[1], 0, ndim)]);
  } else if (has_word(words, "all")) {
    std::reverse(from.begin(), from.end());
  } else if (ndim >= 2) {
    std::swap(from[from.size() - 1], from[from.size() - 2]);
  }
  return take_dims(call, from);
}

ConcreteRule build_unsqueeze(const Call& call, Words) {
  std::vector<std::size_t> from = identity(call);
  const std::size_t place = dim_of(call, "dim", 0, ndim_of(call) + 1);
  from.insert(from.begin() + static_cast<std::ptrdiff_t>(place), kNewDim);
  return take_dims(call, from);
}

// Trap: a dim that is split to one index a rank looks like one of size 1 to the local op. Where a
// dim must stay that the op would then drop, handler squeeze drops the right ones.
ConcreteRule build_squeeze(const Call& call, Words words) {
  const std::size_t ndim = ndim_of(call);
  const std::vector<std::size_t> named =
      has_word(words, "all") ? identity(call) : dims_of(call, "dim", ndim);
  std::vector<std::size_t> from;
  for (std::size_t d : identity(call)) {
    const bool drop = std::find(named.begin(), named.end(), d) != named.end() &&
                      call.inputs[0].meta.sizes[d] == 1;
    if (!drop) from.push_back(d);
  }
  ConcreteRule rule = take_dims(call, from);
  for (std::size_t d : named) {
    for (int f : rule.inputs[0].dims[d]) {
      run_by(rule, f, "squeeze");
    }
  }
  return rule;
}

ConcreteRule build_movedim(const Call& call, Words) {
  const std::size_t ndim = ndim_of(call);
  const auto source = call.integers("source");
  const auto destination = call.integers("destination");
  if (source.size() != destination.size()) {
    throw UsageError(Message("HP-S005", call.op + ": source and destination differ in length"));
  }
  std::vector<std::size_t> from(ndim, kNewDim);
  std::vector<char> used(from.size(), 0);
  for (std::size_t i = 0; i < source.size(); ++i) {
    const std::size_t s = check_dim(call, source[i], ndim);
    from[check_dim(call, destination[i], ndim)] = s;
    used[s] = 1;
  }
  std::size_t next = 0;
  for (std::size_t& d : from) {
    if (d != kNewDim) continue;
    while (used[next] != 0) ++next;
    d = next++;
  }
  return take_dims(call, from);
}

// expand, broadcast_to: a dim of size 1 becomes a factor that the operand lacks.
ConcreteRule build_expand(const Call& call, Words) {
  check_count(call, 1, 1);
  const Shape& have = call.inputs[0].meta.sizes;
  Shape want = call.integers("size");
  if (want.size() < have.size()) check_ndim(call, 0, want.size());
  const std::size_t lead = want.size() - have.size();
  ConcreteRule rule = start(call);
  rule.inputs[0].linear = true;
  rule.partial = PartialRule::any;
  rule.aliases = true;
  for (std::size_t d = 0; d < have.size(); ++d) {
    std::int64_t& w = want[lead + d];
    if (w == -1) w = have[d];
    if (have[d] != 1 && have[d] != w) throw_sizes(call, 0, d, have[d], w, "the target");
  }
  TensorMap out = whole(want);
  for (std::size_t d = 0; d < want.size(); ++d) {
    if (want[d] == 1) continue;
    const int f = add_factor(rule, "d" + std::to_string(d), want[d], {{out, d}});
    if (d >= lead && have[d - lead] != 1) put(rule.inputs[0], d - lead, f);
  }
  rule.outputs.push_back(std::move(out));
  rule.rewrites.push_back({Rewrite::Kind::local_shape, "size", 0, 0});
  return rule;
}

// Pairs of numbers as complex ones and back.
ConcreteRule build_complex(const Call& call, Words words) {
  std::vector<std::size_t> from = identity(call);
  if (has_word(words, "real")) {
    ConcreteRule rule = take_dims(call, from);
    rule.partial = PartialRule::linear;  // complex numbers have no maximum
    rule.outputs[0].sizes.push_back(2);
    rule.outputs[0].dims.emplace_back();
    return rule;
  }
  if (from.empty() || call.inputs[0].meta.sizes.back() != 2) {
    throw UsageError(Message("HP-S002", call.op + ": the last dim must have size 2"));
  }
  from.pop_back();
  ConcreteRule rule = take_dims(call, from);
  rule.partial = PartialRule::linear;
  for (int f : rule.inputs[0].dims.back()) block(rule, f);
  return rule;
}

constexpr Group kGroups[] = {
    {"same", "alias contiguous detach"},
    {"same copy", "clone lift lift_fresh"},
    {"permute", "permute"},
    {"transpose dim0 dim1", "swapdims transpose.int"},
    {"transpose axis0 axis1", "swapaxes"},
    {"transpose", "adjoint matrix_H mH mT t"},
    {"transpose all", "numpy_T"},
    {"unsqueeze", "unsqueeze"},
    {"squeeze all", "squeeze"},
    {"squeeze", "squeeze.dim squeeze.dims"},
    {"movedim", "moveaxis.int moveaxis.intlist movedim.int movedim.intlist"},
    {"expand", "broadcast_to expand"},
    {"complex", "view_as_complex"},
    {"complex real", "view_as_real"},
};

constexpr NamedBuilder kBuilders[] = {
    {"complex", build_complex},     {"expand", build_expand},       {"movedim", build_movedim},
    {"permute", build_permute},     {"same", build_same},           {"squeeze", build_squeeze},
    {"transpose", build_transpose}, {"unsqueeze", build_unsqueeze},
};

}  // namespace

Family reorder_family() { return {"reorder", {}, kGroups, kBuilders}; }

}  // namespace hyper_parallel::rules
