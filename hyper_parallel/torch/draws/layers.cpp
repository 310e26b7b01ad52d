// Recurrent layers with dropout between them, layer by layer: each is the op with one layer, by its
// own rule, and the dropout is torch's, of [t, b, h] as on one device.
// Source: torch 2.13, ATen/native/RNN.cpp, apply_layer_stack.

#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/draws/draws.h"

namespace hyper_parallel::torch_layer::draws {
namespace {

std::size_t position(const Frame& f, const char* name) {
  const auto at = f.op.schema().argumentIndexWithName(name);
  check_internal(at.has_value(), f.info.name + " has no argument " + name);
  return static_cast<std::size_t>(*at);
}

}  // namespace

// input [t, b, f] ([b, t, f] with batch_first), states [l * directions, b, h] -> [t, b, h], states
void layers(Frame& f, const OpPlan&, Operands&) {
  const std::vector<c10::IValue> given(f.stack->begin() + static_cast<std::ptrdiff_t>(f.base),
                                       f.stack->end());
  const std::size_t states_at = position(f, "hx");
  const std::size_t weights_at = position(f, "params");
  const std::size_t count_at = position(f, "num_layers");
  const std::size_t rate_at = position(f, "dropout");
  const std::size_t first_at = position(f, "batch_first");
  const std::int64_t count = given[count_at].toInt();
  const std::int64_t directions = given[position(f, "bidirectional")].toBool() ? 2 : 1;
  const double rate = given[rate_at].toDouble();
  const bool batch_first = given[first_at].toBool();
  const bool several = given[states_at].isTensorList();  // lstm: h and c
  const std::vector<at::Tensor> states = several
                                             ? given[states_at].toTensorVector()
                                             : std::vector<at::Tensor>{given[states_at].toTensor()};
  const std::vector<at::Tensor> weights = given[weights_at].toTensorVector();
  const std::size_t of_layer = weights.size() / static_cast<std::size_t>(count);

  at::Tensor x = given[0].toTensor();
  if (batch_first) x = x.transpose(0, 1);
  std::vector<std::vector<at::Tensor>> last(states.size());
  for (std::int64_t layer = 0; layer < count; ++layer) {
    torch::jit::Stack stack(given.begin(), given.end());
    stack[0] = x;
    std::vector<at::Tensor> own;
    for (const at::Tensor& s : states) own.push_back(s.narrow(0, layer * directions, directions));
    stack[states_at] = several ? c10::IValue(own) : c10::IValue(own[0]);
    const auto begin =
        weights.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(layer) * of_layer);
    stack[weights_at] =
        std::vector<at::Tensor>(begin, begin + static_cast<std::ptrdiff_t>(of_layer));
    stack[count_at] = std::int64_t{1};
    stack[rate_at] = 0.0;
    stack[first_at] = false;
    f.op.callBoxed(&stack);
    x = stack[0].toTensor();
    for (std::size_t k = 0; k < states.size(); ++k) last[k].push_back(stack[k + 1].toTensor());
    if (layer + 1 < count) x = at::dropout(x, rate, true);
  }
  if (batch_first) x = x.transpose(0, 1);
  f.stack->resize(f.base);
  f.stack->emplace_back(x);
  for (const std::vector<at::Tensor>& each : last) f.stack->emplace_back(at::cat(each, 0));
}

}  // namespace hyper_parallel::torch_layer::draws
