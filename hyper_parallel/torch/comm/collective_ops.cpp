#include "hyper_parallel/torch/comm/collective_ops.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/torch/base/dtype.h"
#include "hyper_parallel/torch/comm/record.h"
#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "hyper_parallel/torch/ranks/ranks.h"

namespace hyper_parallel::torch_layer {
namespace {

at::Tensor call(const char* name, std::vector<c10::IValue> arguments) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  torch::jit::Stack stack(std::make_move_iterator(arguments.begin()),
                          std::make_move_iterator(arguments.end()));
  op.callBoxed(&stack);
  return stack.back().toTensor();
}

at::Tensor wait(const at::Tensor& t) { return call("_c10d_functional::wait_tensor", {t}); }

const std::string& group_of(const Mesh* mesh, const std::vector<int>& axes) {
  return current_rank().group_name(mesh->group(axes, current_rank().rank()));
}

}  // namespace

int group_index(const Mesh* mesh, const std::vector<int>& axes) {
  const auto& here = my_coordinate(mesh);
  int out = 0;
  for (int axis : axes) out = out * mesh->size(axis) + here[static_cast<std::size_t>(axis)];
  return out;
}

at::Tensor all_reduce(const at::Tensor& local, const Mesh* mesh, const std::vector<int>& axes,
                      ReduceOp op) {
  if (mesh->size(axes) == 1) return local;
  std::vector<std::optional<ReduceOp>> partials(static_cast<std::size_t>(mesh->ndim()));
  for (int axis : axes) partials[static_cast<std::size_t>(axis)] = op;
  const auto plan =
      plan::redistribute(Layout::get(mesh, {}, partials), Layout::replicated(mesh), meta_of(local));
  if (op == ReduceOp::sum) return redistribute(plan, local);
  at::NoGradGuard no_grad;
  return execute(*plan, local.detach());
}

at::Tensor all_gather_stack(const at::Tensor& local, const Mesh* mesh,
                            const std::vector<int>& axes) {
  at::NoGradGuard no_grad;
  const at::Tensor row = local.detach().contiguous().unsqueeze(0);
  const int n = mesh->size(axes);
  if (n == 1) return row;
  const TensorMeta meta = meta_of(local);
  note_collective("all_gather", mesh, axes, meta, static_cast<double>((n - 1) * meta.bytes()));
  return wait(call("_c10d_functional::all_gather_into_tensor", {row, n, group_of(mesh, axes)}));
}

at::Tensor broadcast(const at::Tensor& value, const Mesh* mesh, int source_rank) {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh->ndim(); ++axis) axes.push_back(axis);
  const auto& members = mesh->ranks();
  const auto at = std::find(members.begin(), members.end(), source_rank);
  if (at == members.end()) {
    throw UsageError(Message("HP-M011", "rank " + std::to_string(source_rank) +
                                            " is not in the mesh, it cannot be the source")
                         .fact("mesh", mesh->to_string()));
  }
  if (mesh->size() == 1) return value;
  at::NoGradGuard no_grad;
  const TensorMeta meta = meta_of(value);
  note_collective("broadcast", mesh, axes, meta, static_cast<double>(meta.bytes()));
  return wait(call("_c10d_functional::broadcast",
                   {value.detach().contiguous(), static_cast<std::int64_t>(at - members.begin()),
                    group_of(mesh, axes)}));
}

std::int64_t sum_over_axes(std::int64_t value, const Mesh* mesh, const std::vector<int>& axes) {
  if (mesh->size(axes) == 1) return value;
  at::NoGradGuard no_grad;
  return all_reduce(at::scalar_tensor(value, at::kLong), mesh, axes).item<std::int64_t>();
}

}  // namespace hyper_parallel::torch_layer
