// Losses whose batch is cut, where the op itself would count only its own part of it.

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ctc_loss.h>
#include <ATen/ops/tensor.h>

#include <array>

#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/handlers/internal.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

// The lengths of all sequences, from a list or a whole tensor.
std::vector<std::int64_t> lengths(const HandlerCall& c, std::string_view name) {
  const c10::IValue* v = c.find(name);
  if (!v->isTensor()) return v->toIntVector();
  const at::Tensor t = v->toTensor().to(at::kCPU, at::kLong).contiguous();
  return {t.const_data_ptr<std::int64_t>(), t.const_data_ptr<std::int64_t>() + t.numel()};
}

// log_probs [t n k], targets [n s] or [s], lengths [n] -> [n] or a number; n is cut.
void ctc_loss(HandlerCall& c) {
  const LocalDim batch = c.dim_of("log_probs", 1);
  const at::Tensor log_probs = c.tensor("log_probs");
  const at::Tensor targets = c.tensor("targets");
  const std::vector<std::int64_t> inputs = lengths(c, "input_lengths");
  const std::vector<std::int64_t> outputs = lengths(c, "target_lengths");
  const auto size = static_cast<std::size_t>(batch.size);
  TORCH_CHECK(inputs.size() == size && outputs.size() == size,
              "ctc_loss: input_lengths and target_lengths must be of size batch_size");
  std::vector<std::int64_t> own_inputs;
  std::vector<std::int64_t> own_outputs;
  std::vector<at::Tensor> joined = {targets.flatten().narrow(0, 0, 0)};
  std::int64_t at = 0;  // where the targets of a sequence begin, if they stand in one row
  auto interval = batch.intervals.begin();
  for (std::int64_t i = 0; i < batch.size; ++i) {
    while (interval != batch.intervals.end() && i >= interval->end) ++interval;
    const std::int64_t length = outputs[static_cast<std::size_t>(i)];
    if (interval != batch.intervals.end() && i >= interval->begin) {
      own_inputs.push_back(inputs[static_cast<std::size_t>(i)]);
      own_outputs.push_back(length);
      if (targets.dim() == 1) joined.push_back(targets.narrow(0, at, length));
    }
    at += length;
  }
  const std::int64_t reduction = c.integer("reduction", at::Reduction::Mean);
  at::Tensor loss;
  if (own_inputs.empty()) {
    loss = log_probs.sum({0, 2});  // of no sequences, but in the graph
  } else {
    loss = at::ctc_loss(log_probs, targets.dim() == 1 ? at::cat(joined) : targets, own_inputs,
                        own_outputs, c.integer("blank", 0), at::Reduction::None,
                        c.boolean("zero_infinity", false));
  }
  if (reduction == at::Reduction::Mean) {
    const at::Tensor count = at::tensor(own_outputs, loss.options()).clamp_min(1);
    loss = (loss / count).sum() / static_cast<double>(batch.size);
  } else if (reduction == at::Reduction::Sum) {
    loss = loss.sum();
  }
  c.finish({loss});
}

// The op keeps gradients from its forward, in results of its own: those of a sum are divided, too.
void linear_cross_entropy(HandlerCall& c) {
  if (c.find("reduction")->toStringRef() != "mean") return c.call();
  const at::Tensor target = c.tensor("target");
  at::Tensor own;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor ignored = target.eq(c.integer("ignore_index", -100));
    const at::Tensor input = c.tensor("input");
    at::Tensor weight = ignored.logical_not().to(input.scalar_type());
    if (c.find("weight") != nullptr) {
      weight = c.tensor("weight").take(target.masked_fill(ignored, 0)).masked_fill(ignored, 0);
    }
    own = widened(weight).sum();
  }
  at::Tensor factor = all_reduce(own, c.mesh(), axes_of(c.layout("input"), {0})).reciprocal();
  // A sum in f16 may be out of range where the mean is not. Without tokens there is no mean.
  const bool mean = c.tensor("input").scalar_type() == at::kHalf && own.ne(0).item<bool>();
  if (mean) factor = factor * own;
  c.set("reduction", std::string(mean ? "mean" : "sum"));
  c.call();
  std::array<at::Tensor, 4> out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const at::Tensor part = i == 0 ? c.result(i) : c.result(i).detach();
    out[i] = (widened(part) * factor).to(part.scalar_type());
  }
  c.finish({out[0], out[1], out[2], out[3]});
}

constexpr HandlerEntry kTokens[] = {
    {"ctc_loss", ctc_loss},
    {"linear_cross_entropy", linear_cross_entropy},
};

}  // namespace

std::span<const HandlerEntry> tokens_entries() { return kTokens; }

}  // namespace hyper_parallel::torch_layer::handlers
