// Recurrent layers: the batch. Each rank runs the whole layer on its sequences.
//
// recurrent(input [t, b, f] ([b, t, f] with batch_first), hx [l, b, h], weights...)
//     -> [t, b, h directions], [l, b, h]
// recurrent lstm: hx is a list [l, b, h], [l, b, c], and both are returned
// recurrent cell: input [b, f], hx [b, h] -> [b, h]
//
// Split by the ops that they are made of, states that start as whole zeros would stay whole.

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

ConcreteRule build_recurrent(const Call& call, Words words) {
  const std::size_t states = has_word(words, "lstm") ? 2 : 1;
  const bool cell = has_word(words, "cell");
  check_count(call, 1 + states, call.inputs.size() + 1 + states);
  check_ndim(call, 0, cell ? 2 : 3);
  const std::size_t batch = cell || call.boolean("batch_first", false) ? 0 : 1;
  ConcreteRule rule = start(call);
  const std::int64_t size = rule.inputs[0].sizes[batch];
  const int b = add_factor(rule, "b", size, {{rule.inputs[0], batch}});
  for (std::size_t i = 1; i <= states; ++i) {
    check_ndim(call, i, cell ? 2 : 3);
    const std::size_t dim = cell ? 0 : 1;
    if (rule.inputs[i].sizes[dim] != size) {
      throw_sizes(call, i, dim, rule.inputs[i].sizes[dim], size, "input");
    }
    put(rule.inputs[i], dim, b);
  }
  if (!cell) {
    TensorMap out = like(rule.inputs[0]);
    out.sizes[2] = rule.inputs[1].sizes[2] * (call.boolean("bidirectional", false) ? 2 : 1);
    rule.outputs.push_back(std::move(out));
    // Dropout between layers draws for the whole batch.
    rule.random = call.boolean("train", false) && !is_number(call, "dropout", 0);
    if (rule.random) block(rule, b);
  }
  for (std::size_t i = 1; i <= states; ++i) rule.outputs.push_back(like(rule.inputs[i]));
  return rule;
}

constexpr Group kGroups[] = {
    {"recurrent", "gru.input rnn_relu.input rnn_tanh.input"},
    {"recurrent lstm", "lstm.input"},
    {"recurrent cell", "gru_cell rnn_relu_cell rnn_tanh_cell"},
    {"recurrent cell lstm", "lstm_cell"},
};

constexpr NamedBuilder kBuilders[] = {{"recurrent", build_recurrent}};

}  // namespace

Family recurrent_family() { return {"recurrent", {}, kGroups, kBuilders}; }

}  // namespace hyper_parallel::rules
