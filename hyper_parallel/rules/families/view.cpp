// Ops that only name the same elements otherwise: every kind of partial passes.
//
// A reshape is a factorisation of both shapes: the finest one in which each dim of either side is a
// product of neighbouring factors. [6, 4] -> [2, 3, 4] has factors 2, 3, 4. Where the shapes do not
// nest
// ([6, 4] -> [4, 6]) a common major factor (here 2) still passes and the rest is whole.

#include <algorithm>
#include <numeric>

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"
#include "hyper_parallel/rules/families/view.h"

namespace hyper_parallel::rules {
namespace {

void add_blocked(ConcreteRule& rule, TensorMap& map, std::size_t dim, std::int64_t size) {
  add_factor(rule, "rest", size, {{map, dim}}, FactorKind::blocked);
}

// Walks both shapes from the left, taking the largest factor that both current dims still have.
void factorise(ConcreteRule& rule, TensorMap& in, TensorMap& out) {
  std::size_t i = 0;
  std::size_t o = 0;
  std::int64_t left = 1;   // of in.sizes[i - 1], not yet given to a factor
  std::int64_t right = 1;  // of out.sizes[o - 1]
  while (true) {
    while (left == 1 && i < in.sizes.size()) left = in.sizes[i++];
    while (right == 1 && o < out.sizes.size()) right = out.sizes[o++];
    if (left == 1 || right == 1) return;
    const std::int64_t common = std::gcd(left, right);
    if (common > 1) {
      add_factor(rule, "d" + std::to_string(rule.factors.size()), common,
                 {{in, i - 1}, {out, o - 1}});
    }
    left /= common;
    right /= common;
    if (left == 1 || right == 1) continue;
    // Neither divides the other: from here to where the shapes meet again all is whole.
    add_blocked(rule, in, i - 1, left);
    add_blocked(rule, out, o - 1, right);
    while (left != right) {
      if (left < right) {
        left *= in.sizes[i];
        add_blocked(rule, in, i, in.sizes[i]);
        ++i;
      } else {
        right *= out.sizes[o];
        add_blocked(rule, out, o, out.sizes[o]);
        ++o;
      }
    }
    left = right = 1;
  }
}

// Nothing to split but leading dims that are the same.
void match_leading(ConcreteRule& rule, TensorMap& in, TensorMap& out) {
  for (std::size_t d = 0; d < std::min(in.sizes.size(), out.sizes.size()); ++d) {
    if (in.sizes[d] != out.sizes[d]) return;
    if (in.sizes[d] == 1) continue;
    add_factor(rule, "d" + std::to_string(d), in.sizes[d], {{in, d}, {out, d}});
  }
}

Shape complete(const Call& call, Shape sizes) {
  const std::int64_t have = product(call.inputs[0].meta.sizes);
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  for (std::int64_t& s : sizes) {
    if (s == -1 && open == nullptr) {
      open = &s;
    } else {
      known *= s;
    }
  }
  if (open != nullptr && known > 0 && have % known == 0) {
    *open = have / known;
    known = have;
  }
  if (known != have || std::any_of(sizes.begin(), sizes.end(), [](auto s) { return s < 0; })) {
    throw UsageError(Message("HP-S008", call.op + ": the sizes do not hold the same number of "
                                                  "elements")
                         .fact("from", to_string(call.inputs[0].meta))
                         .fact("to", hyper_parallel::to_string(sizes)));
  }
  return sizes;
}

ConcreteRule build_view(const Call& call, Words words) {
  check_count(call, 1, 1);
  const std::string name(words.front());
  ConcreteRule rule = view_rule(call, complete(call, call.integers(name)));
  rule.rewrites.push_back({Rewrite::Kind::local_shape, name, 0, 0});
  return rule;
}

ConcreteRule build_flatten(const Call& call, Words) {
  check_count(call, 1, 1);
  const Shape& sizes = call.inputs[0].meta.sizes;
  const std::size_t ndim = sizes.size();
  if (ndim == 0) return view_rule(call, {1});
  const std::size_t first = dim_of(call, "start_dim", 0, ndim);
  const std::size_t last = dim_of(call, "end_dim", -1, ndim);
  Shape out(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(first));
  out.push_back(product(std::span(sizes).subspan(first, last - first + 1)));
  out.insert(out.end(), sizes.begin() + static_cast<std::ptrdiff_t>(last + 1), sizes.end());
  return view_rule(call, std::move(out));
}

constexpr Row kRows[] = {
    {"aten::_unsafe_view", "view size"}, {"aten::flatten.using_ints", "flatten"},
    {"aten::ravel", "flatten"},          {"aten::reshape", "view shape"},
    {"aten::view", "view size"},
};

constexpr NamedBuilder kBuilders[] = {{"flatten", build_flatten}, {"view", build_view}};

}  // namespace

ConcreteRule view_rule(const Call& call, Shape sizes) {
  ConcreteRule rule = start(call);
  rule.inputs[0].linear = true;
  rule.partial = PartialRule::any;
  rule.aliases = true;
  TensorMap out = whole(std::move(sizes));
  if (product(out.sizes) == 0) {
    match_leading(rule, rule.inputs[0], out);
  } else {
    factorise(rule, rule.inputs[0], out);
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

Family view_family() { return {"view", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
