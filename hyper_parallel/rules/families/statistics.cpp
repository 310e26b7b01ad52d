// Norms that also return their statistics, as training frameworks store them. None is an op of
// torch.
//
//   batch_norm(input [n, c, ...], weight?, bias?, running_mean?, running_var?; training, momentum)
//       -> result, new running_mean, new running_var, mean, 1 / deviation
//   group_norm(input [n, c, ...], weight?, bias?; num_groups) -> result, mean, variance [n, groups]
//   instance_norm(input [n, c, ...], weight?, bias?)          -> result, mean, variance [n, c]
//
// The statistics of a batch are those of the whole batch, so splitting n or space in training takes
// handler batch_norm: an all-reduce of two numbers a channel.

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

// Operands with one number a channel.
void put_channels(ConcreteRule& rule, const Call& call, int channels) {
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].present) continue;
    check_ndim(call, i, 1);
    const std::int64_t wanted = call.inputs[0].meta.sizes[1];
    if (rule.inputs[i].sizes[0] != wanted) {
      throw_sizes(call, i, 0, rule.inputs[i].sizes[0], wanted, "dim 1 of the input");
    }
    put(rule.inputs[i], 0, channels);
    rule.inputs[i].addend = i == 2;  // the bias: nothing multiplies it
  }
}

std::vector<int> start_norm(ConcreteRule& rule, const Call& call) {
  if (call.inputs[0].meta.sizes.size() < 2) check_ndim(call, 0, 2);
  rule = start(call);
  return spread(rule, 0);
}

ConcreteRule build_batch_norm(const Call& call, Words) {
  check_count(call, 1, 5);
  ConcreteRule rule;
  const std::vector<int> factors = start_norm(rule, call);
  const bool training = call.boolean("training", false);
  for (std::size_t d = 0; d < factors.size(); ++d) {
    if (d == 1) fill(rule, factors[d]);
    if (d != 1 && training) run_by(rule, factors[d], "batch_norm");
  }
  put_channels(rule, call, factors[1]);
  rule.outputs.push_back(like(rule.inputs[0]));
  TensorMap channels = whole({call.inputs[0].meta.sizes[1]});
  put(channels, 0, factors[1]);
  rule.outputs.insert(rule.outputs.end(), 4, channels);
  return rule;
}

// groups: the statistics are of a group of channels, else of each channel.
ConcreteRule build_statistics(const Call& call, Words words) {
  check_count(call, 1, 3);
  ConcreteRule rule;
  const std::vector<int> factors = start_norm(rule, call);
  const bool groups = has_word(words, "groups");
  for (std::size_t d = groups ? 1 : 2; d < factors.size(); ++d) block(rule, factors[d]);
  put_channels(rule, call, factors[1]);
  const Shape& sizes = call.inputs[0].meta.sizes;
  const std::int64_t count = groups ? call.integer("num_groups", 1) : sizes[1];
  if (count < 1 || sizes[1] % count != 0) {
    throw UsageError(Message("HP-S005", call.op + ": num_groups does not divide the channels")
                         .fact("num_groups", std::to_string(count))
                         .fact("channels", std::to_string(sizes[1])));
  }
  TensorMap statistics = whole({sizes[0], count});
  put(statistics, 0, factors[0]);
  if (!groups) put(statistics, 1, factors[1]);
  rule.outputs.push_back(like(rule.inputs[0]));
  rule.outputs.insert(rule.outputs.end(), 2, statistics);
  return rule;
}

constexpr Row kRows[] = {
    {"hyper_parallel::batch_norm", "batch_statistics"},
    {"hyper_parallel::group_norm", "statistics groups"},
    {"hyper_parallel::instance_norm", "statistics"},
};

constexpr NamedBuilder kBuilders[] = {{"batch_statistics", build_batch_norm},
                                      {"statistics", build_statistics}};

}  // namespace

Family statistics_family() { return {"statistics", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
