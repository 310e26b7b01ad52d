// Ops of extra_ops.cpp over dims that are cut.

#include <ATen/TensorOperators.h>

#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/handlers/internal.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

// label [*n k] -> the same; k is cut.
void label_smooth(HandlerCall& c) {
  const double epsilon = c.number("epsilon", 0.1);
  const auto classes = static_cast<double>(c.sizes("label").back());
  c.finish({c.tensor("label") * (1 - epsilon) + epsilon / classes});
}

// logits [*a k *b], label [*a 1 *b] or [*a k *b] -> softmax [*a k *b], loss [*a 1 *b]; k is cut.
void softmax_cross_entropy(HandlerCall& c) {
  at::Tensor x = c.tensor("logits");
  x = x.to(type_in_autocast(x, "cross_entropy_loss"));
  const std::int64_t dim = c.dims(static_cast<int>(x.dim()))[0];
  const LocalDim cut = c.dim_of("logits", static_cast<int>(dim));
  const at::Tensor log = split_log_softmax(widened(x), dim, c.mesh(), cut.axes);
  const at::Tensor label = c.tensor("label");
  const at::Tensor mine = c.boolean("soft_label", false) ? (log * label).sum(dim, true)
                                                         : gather_mine(log, dim, label, cut);
  const at::Tensor loss = -all_reduce(mine, c.mesh(), cut.axes);
  c.finish({log.exp().to(x.scalar_type()), loss.to(x.scalar_type())});
}

constexpr HandlerEntry kExtra[] = {
    {"label_smooth", label_smooth},
    {"softmax_cross_entropy", softmax_cross_entropy},
};

}  // namespace

std::span<const HandlerEntry> extra_entries() { return kExtra; }

}  // namespace hyper_parallel::torch_layer::handlers
