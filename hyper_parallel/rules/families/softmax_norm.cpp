// Softmax and norms: each result needs the whole row, so a split row takes a handler.

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

// layer_norm, rms_norm (input, weight?, bias?) with attribute normalized_shape. `native`: also the
// statistics, mean and rstd; `rstd`: the latter only.
ConcreteRule build_norm(const Call& call, Words words) {
  check_count(call, 1, 3);
  const Shape& sizes = call.inputs[0].meta.sizes;
  const std::vector<std::int64_t> row = call.integers("normalized_shape");
  if (row.size() > sizes.size()) check_ndim(call, 0, row.size());
  const std::size_t lead = sizes.size() - row.size();
  for (std::size_t d = 0; d < row.size(); ++d) {
    if (sizes[lead + d] != row[d]) {
      throw_sizes(call, 0, lead + d, sizes[lead + d], row[d], "normalized_shape");
    }
  }
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread(rule, 0);
  for (std::size_t d = 0; d < row.size(); ++d) {
    const int f = factors[lead + d];
    if (words.front() == "!") {
      block(rule, f);
    } else {
      run_by(rule, f, words.front());
    }
  }
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].present) continue;
    check_ndim(call, i, row.size());
    for (std::size_t d = 0; d < row.size(); ++d) {
      if (rule.inputs[i].sizes[d] != row[d]) {
        throw_sizes(call, i, d, rule.inputs[i].sizes[d], row[d], "normalized_shape");
      }
      put(rule.inputs[i], d, factors[lead + d]);
    }
    rule.inputs[i].addend = i == 2;  // the bias: nothing multiplies it
  }
  TensorMap out = whole(sizes);
  out.dims = rule.inputs[0].dims;
  TensorMap statistics = out;
  for (std::size_t d = lead; d < sizes.size(); ++d) {
    statistics.sizes[d] = 1;
    statistics.dims[d].clear();
  }
  rule.outputs.push_back(std::move(out));
  if (has_word(words, "native")) rule.outputs.insert(rule.outputs.end(), 2, statistics);
  if (has_word(words, "rstd")) rule.outputs.push_back(statistics);
  return rule;
}

// group_norm(input [n, c, ...], weight? [c], bias? [c]): only n passes. `native`: attribute N is
// the length of n, and the statistics are results, [n, group].
ConcreteRule build_group_norm(const Call& call, Words words) {
  check_count(call, 1, 3);
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread(rule, 0);
  for (std::size_t d = 1; d < factors.size(); ++d) block(rule, factors[d]);
  TensorMap out = whole(call.inputs[0].meta.sizes);
  out.dims = rule.inputs[0].dims;
  rule.outputs.push_back(std::move(out));
  if (!has_word(words, "native")) return rule;
  if (factors.empty()) check_ndim(call, 0, 3);
  const std::int64_t n = call.inputs[0].meta.sizes[0];
  if (call.integer("N", n) != n) throw_sizes(call, 0, 0, n, call.integer("N", n), "argument N");
  rule.rewrites.push_back({Rewrite::Kind::local_size, "N", 0, 0});
  TensorMap statistics = whole({n, call.integer("group", 1)});
  put(statistics, 0, factors[0]);
  rule.outputs.insert(rule.outputs.end(), 2, statistics);
  return rule;
}

// batch_norm(input [n, c, ...], weight?, bias?, running_mean?, running_var?): channels pass; the
// rest passes too; in training, where the statistics are those of the batch, by handler batch_norm.
//   train, eval  so it is, where no attribute tells
//   saved        mean and 1 / deviation of the batch are results; [0] if they are not of the batch
//   reserve      and a buffer without elements
ConcreteRule build_batch_norm(const Call& call, Words words) {
  check_count(call, 1, 5);
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread(rule, 0);
  const bool own = has_word(words, "train") || call.boolean("training", false);
  if (factors.size() > 1) fill(rule, factors[1]);
  for (std::size_t d = 0; own && d < factors.size(); ++d) {
    if (d != 1) run_by(rule, factors[d], "batch_norm");
  }
  for (std::size_t i = 1; i < call.inputs.size() && factors.size() > 1; ++i) {
    if (call.inputs[i].present && rule.inputs[i].sizes.size() == 1) {
      put(rule.inputs[i], 0, factors[1]);
    }
  }
  TensorMap out = whole(call.inputs[0].meta.sizes);
  out.dims = rule.inputs[0].dims;
  rule.outputs.push_back(std::move(out));
  if (has_word(words, "saved")) {
    if (factors.size() < 2) check_ndim(call, 0, 2);
    fill_all(rule);  // torch divides by the count
    TensorMap statistics = whole({own ? call.inputs[0].meta.sizes[1] : 0});
    if (own) put(statistics, 0, factors[1]);
    rule.outputs.insert(rule.outputs.end(), 2, statistics);
  }
  if (has_word(words, "reserve")) rule.outputs.push_back(whole({0}));
  return rule;
}

constexpr Row kRows[] = {
    {"aten::_batch_norm_no_update", "batch_norm eval saved reserve"},
    {"aten::_batch_norm_with_update", "batch_norm train saved reserve"},
    {"aten::_fused_rms_norm", "norm ! rstd"},
    {"aten::_log_softmax", "... d~log_softmax@dim -> ="},
    {"aten::_log_softmax_backward_data", "*... d!@dim, ... d!@dim -> ="},
    {"aten::_native_batch_norm_legit", "batch_norm saved"},
    {"aten::_native_batch_norm_legit.no_stats", "batch_norm saved"},
    {"aten::_native_batch_norm_legit_no_training", "batch_norm eval saved"},
    {"aten::_safe_softmax", "... d!@dim -> ="},
    {"aten::_softmax", "... d~softmax@dim -> ="},
    {"aten::_softmax_backward_data", "*... d!@dim, ... d!@dim -> ="},
    {"aten::batch_norm", "batch_norm"},
    {"aten::group_norm", "group_norm"},
    {"aten::layer_norm", "norm layer_norm"},
    {"aten::log_softmax.int", "... d~log_softmax@dim -> ="},
    {"aten::native_batch_norm", "batch_norm saved"},
    {"aten::native_group_norm", "group_norm native"},
    {"aten::native_layer_norm", "norm ! native"},
    {"aten::rms_norm", "norm rms_norm"},
    {"aten::softmax.int", "... d~softmax@dim -> ="},
    {"aten::special_log_softmax", "... d~log_softmax@dim -> ="},
    {"aten::special_softmax", "... d~softmax@dim -> ="},
};

constexpr NamedBuilder kBuilders[] = {
    {"batch_norm", build_batch_norm}, {"group_norm", build_group_norm}, {"norm", build_norm}};

}  // namespace

Family softmax_norm_family() { return {"softmax_norm", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
