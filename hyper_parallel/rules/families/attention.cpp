// Scaled dot-product attention: query [..., hq, l, e], key [..., h, s, e], value [..., h, s, v],
// mask broadcast to [..., hq, l, s], result [..., hq, l, v].
//
// Grouped heads (enable_gqa): hq = h * g, query head i reads key head i / g. The heads of the query
// are the factors h, g; either may be split. Where they come cut in yet another way (more ranks
// than key heads) they are the joint factor q: handler sdpa picks from whole keys the heads that
// its own queries read. Split queries read all keys; a causal mask then starts at the own offset.
// Linear in the value.

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

enum : std::size_t { kQuery, kKey, kValue, kMask };

class Attention {
 public:
  explicit Attention(const Call& call) : call_(call) {}

  ConcreteRule run() {
    check_count(call_, 3, 4);
    const std::size_t ndim = sizes(kQuery).size();
    if (ndim < 2) check_ndim(call_, kQuery, 4);
    check_ndim(call_, kKey, ndim);
    check_ndim(call_, kValue, ndim);
    rule_ = start(call_);
    out_ = whole(sizes(kQuery));
    const std::size_t lead = ndim - 2;
    const bool grouped = call_.boolean("enable_gqa", false) && lead > 0 &&
                         sizes(kQuery)[lead - 1] != sizes(kKey)[lead - 1];
    for (std::size_t d = 0; d < lead; ++d) {
      if (grouped && d == lead - 1) {
        heads(d);
      } else {
        batch(d);
      }
    }
    rows(lead);
    if (call_.inputs.size() > kMask && call_.inputs[kMask].present) mask();
    rule_.inputs[kValue].linear = true;
    // Without elements torch takes another kernel, whose backward works in another order: then
    // ranks would meet in different collectives.
    fill_all(rule_);
    const auto dropout = call_.attrs.find("dropout_p");
    rule_.random = dropout != call_.attrs.end() && !is_number(call_, "dropout_p", 0);
    rule_.outputs.push_back(std::move(out_));
    return std::move(rule_);
  }

 private:
  const Shape& sizes(std::size_t i) const { return call_.inputs[i].meta.sizes; }

  void batch(std::size_t d) {
    std::int64_t size = 1;
    for (std::size_t i : {kQuery, kKey, kValue}) {
      if (sizes(i)[d] == 1) continue;
      if (size != 1 && size != sizes(i)[d]) throw_sizes(call_, i, d, sizes(i)[d], size, "query");
      size = sizes(i)[d];
    }
    out_.sizes[d] = size;
    const int f = add_factor(rule_, "d" + std::to_string(d), size, {{out_, d}});
    for (std::size_t i : {kQuery, kKey, kValue}) {
      if (sizes(i)[d] != 1) put(rule_.inputs[i], d, f);
    }
  }

  void heads(std::size_t d) {
    const std::int64_t all = sizes(kQuery)[d];
    const std::int64_t own = sizes(kKey)[d];
    if (own == 0 || all % own != 0) {
      throw_sizes(call_, kQuery, d, all, own, "key (not a multiple)");
    }
    if (sizes(kValue)[d] != own) throw_sizes(call_, kValue, d, sizes(kValue)[d], own, "key");
    TensorMap& query = rule_.inputs[kQuery];
    add_factor(rule_, "h", own,
               {{query, d}, {out_, d}, {rule_.inputs[kKey], d}, {rule_.inputs[kValue], d}});
    add_factor(rule_, "g", all / own, {{query, d}, {out_, d}});
    if (query.dims[d].size() < 2) return;
    const int q = add_factor(rule_, "q", all);
    run_by(rule_, q, "sdpa");
    put_joint(query, d, q);
    put_joint(out_, d, q);
  }

  void rows(std::size_t lead) {
    if (sizes(kKey)[lead + 1] != sizes(kQuery)[lead + 1]) {
      throw_sizes(call_, kKey, lead + 1, sizes(kKey)[lead + 1], sizes(kQuery)[lead + 1], "query");
    }
    if (sizes(kValue)[lead] != sizes(kKey)[lead]) {
      throw_sizes(call_, kValue, lead, sizes(kValue)[lead], sizes(kKey)[lead], "key");
    }
    TensorMap& query = rule_.inputs[kQuery];
    TensorMap& key = rule_.inputs[kKey];
    TensorMap& value = rule_.inputs[kValue];
    const int l = add_factor(rule_, "l", query.sizes[lead], {{query, lead}, {out_, lead}});
    s_ = add_factor(rule_, "s", key.sizes[lead], {{key, lead}, {value, lead}}, FactorKind::blocked);
    add_factor(rule_, "e", query.sizes[lead + 1], {{query, lead + 1}, {key, lead + 1}},
               FactorKind::blocked);
    add_factor(rule_, "v", value.sizes[lead + 1], {{value, lead + 1}, {out_, lead + 1}});
    if (call_.boolean("is_causal", false)) run_by(rule_, l, "sdpa");
    out_.sizes[lead + 1] = sizes(kValue)[lead + 1];
  }

  void mask() {
    TensorMap& map = rule_.inputs[kMask];
    const std::size_t ndim = out_.sizes.size();
    if (map.sizes.size() > ndim) check_ndim(call_, kMask, ndim);
    const std::size_t skip = ndim - map.sizes.size();
    for (std::size_t d = 0; d < map.sizes.size(); ++d) {
      if (map.sizes[d] == 1) continue;
      const bool last = skip + d == ndim - 1;
      const std::int64_t wanted = last ? sizes(kKey)[ndim - 2] : out_.sizes[skip + d];
      if (map.sizes[d] != wanted) throw_sizes(call_, kMask, d, map.sizes[d], wanted, "the scores");
      if (last) {
        put(map, d, s_);
      } else {
        map.dims[d] = out_.dims[skip + d];
        if (!out_.joint.empty()) put_joint(map, d, out_.joint[skip + d]);
      }
    }
  }

  const Call& call_;
  ConcreteRule rule_;
  TensorMap out_;
  int s_ = kNoFactor;
};

ConcreteRule build(const Call& call, Words) { return Attention(call).run(); }

// rope(q, k?, v?, sin?, cos?, position_ids?): q, k, v [b, s, h, d] are turned, each on its own, by
// the angle of their place s. sin, cos end in [s, d] or [s, 1, d]; with position_ids [b, s] they
// are looked up by place, and their s must be whole. Halves or pairs of d belong together.
ConcreteRule build_rope(const Call& call, Words) {
  check_count(call, 1, 6);
  check_ndim(call, 0, 4);
  ConcreteRule rule = start(call);
  const std::vector<int> query = spread(rule, 0);
  const Shape& sizes = call.inputs[0].meta.sizes;
  block(rule, query[3]);
  const auto present = [&](std::size_t i) {
    return i < call.inputs.size() && call.inputs[i].present;
  };
  for (std::size_t i = 0; i < 3; ++i) {
    TensorMap out = whole(present(i) ? call.inputs[i].meta.sizes : Shape{});
    out.present = present(i);
    if (out.present) {
      check_ndim(call, i, 4);
      TensorMap& map = rule.inputs[i];
      for (std::size_t d : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
        if (map.sizes[d] != sizes[d]) throw_sizes(call, i, d, map.sizes[d], sizes[d], "q");
        map.dims[d] = rule.inputs[0].dims[d];
      }
      if (map.sizes[2] == sizes[2]) {
        map.dims[2] = rule.inputs[0].dims[2];
      } else if (map.sizes[2] != 1) {
        put(map, 2, add_factor(rule, "h" + std::to_string(i), map.sizes[2]));
      }
      map.linear = true;
      map.term = static_cast<int>(i);
      out.dims = map.dims;
    }
    rule.outputs.push_back(std::move(out));
  }
  for (std::size_t i = 3; i < 5; ++i) {
    if (!present(i) || present(5)) continue;
    TensorMap& map = rule.inputs[i];
    const std::size_t n = map.sizes.size();
    const std::size_t s = n == 4 ? 1 : 0;
    if (n > s && map.sizes[s] == sizes[1]) put(map, s, query[1]);
  }
  if (present(5)) {
    check_ndim(call, 5, 2);
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t size = rule.inputs[5].sizes[d];
      if (size != sizes[d]) throw_sizes(call, 5, d, size, sizes[d], "q");
      put(rule.inputs[5], d, query[d]);
    }
  }
  return rule;
}

constexpr Row kRows[] = {{"aten::scaled_dot_product_attention", "attention"},
                         {"hyper_parallel::rope", "rope"}};
constexpr NamedBuilder kBuilders[] = {{"attention", build}, {"rope", build_rope}};

}  // namespace

Family attention_family() { return {"attention", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
