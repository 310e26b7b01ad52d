#include "hyper_parallel/torch/comm/collective_ops.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/comm/group_exchanges.h"

namespace hyper_parallel::torch_layer {

at::Tensor all_reduce(const at::Tensor& local, const Mesh* mesh, const std::vector<int>& axes,
                      ReduceOp op) {
  if (mesh->size(axes) == 1) return local;
  const ExchangePtr exchange = all_reduce_exchange(group_along(mesh, axes), op);
  if (op == ReduceOp::sum) return run(exchange, local);
  at::NoGradGuard no_grad;
  return run(exchange, local.detach());
}

at::Tensor all_gather_stack(const at::Tensor& local, const Mesh* mesh,
                            const std::vector<int>& axes) {
  at::NoGradGuard no_grad;
  const at::Tensor row = local.detach().contiguous().unsqueeze(0);
  const Group group = group_along(mesh, axes);
  if (group.size == 1) return row;
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(group.size), 1);
  return run(all_gather_exchange(group, row.sizes().vec(), 0, ones), row);
}

at::Tensor broadcast(const at::Tensor& value, const Mesh* mesh, int source_rank) {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh->ndim(); ++axis) axes.push_back(axis);
  const auto& members = mesh->ranks();
  const auto at = std::find(members.begin(), members.end(), source_rank);
  if (at == members.end()) {
    throw UsageError(Message("HP-M015", "rank " + std::to_string(source_rank) +
                                            " is not in the mesh, it cannot be the source")
                         .fact("mesh", mesh->to_string()));
  }
  if (mesh->size() == 1) return value;
  at::NoGradGuard no_grad;
  const int source = static_cast<int>(at - members.begin());
  return run(broadcast_exchange(group_along(mesh, axes), source), value.detach());
}

std::int64_t sum_over_axes(std::int64_t value, const Mesh* mesh, const std::vector<int>& axes) {
  if (mesh->size(axes) == 1) return value;
  at::NoGradGuard no_grad;
  return all_reduce(at::scalar_tensor(value, at::kLong), mesh, axes).item<std::int64_t>();
}

}  // namespace hyper_parallel::torch_layer
