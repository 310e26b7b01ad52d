// Products with an addend, where some axis splits the sum of the product but not the addend: the
// result is P(sum), so the addend must count once.

#include <ATen/ops/scalar_tensor.h>

#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/handlers/internal.h"

namespace hyper_parallel::torch_layer::handlers {

at::Tensor counted_once(const at::Tensor& addend, const Layout* layout, const Layout* result,
                        const Mesh* mesh) {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh->ndim(); ++axis) {
    const bool counted = layout != nullptr && layout->placement(axis).is_partial();
    if (result->placement(axis).is_partial(ReduceOp::sum) && !counted) axes.push_back(axis);
  }
  if (group_index(mesh, axes) == 0) return addend;
  // Zeros that stay in the graph: the addend's gradient is then zero here, not missing, and the
  // collectives behind it run on every rank. Filled, not multiplied: 0 * inf is nan.
  const auto options = at::TensorOptions(at::kBool).device(addend.device());
  return addend.masked_fill(at::scalar_tensor(true, options), 0);
}

namespace {

void linear_addend(HandlerCall& c) {
  const std::string_view name = c.find("bias") != nullptr ? "bias" : "self";
  c.set(name, counted_once(c.tensor(name), c.layout(name), c.plan().outputs[0], c.mesh()));
  c.call();
}

constexpr HandlerEntry kLinear[] = {
    {"linear_addend", linear_addend},
};

}  // namespace

std::span<const HandlerEntry> linear_entries() { return kLinear; }

}  // namespace hyper_parallel::torch_layer::handlers
