// List ops: each element has a strategy of its own.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/handlers/internal.h"
#include "hyper_parallel/torch/handlers/split_norm.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

std::vector<std::int64_t> all_dims(const at::Tensor& t) {
  std::vector<std::int64_t> out;
  for (std::int64_t d = 0; d < t.dim(); ++d) out.push_back(d);
  return out;
}

// One collective for all tensors that are cut by the same axes: clip_grad_norm_ calls this once a
// step with every gradient.
void foreach_norm(HandlerCall& c) {
  const std::vector<at::Tensor> list = c.find("self")->toTensorVector();
  const double ord = c.number("ord", 2);
  std::map<std::pair<std::vector<int>, at::ScalarType>, std::vector<std::size_t>> groups;
  std::vector<NormOperand> operands;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const at::Tensor x = c.dtype() ? list[i].to(*c.dtype()) : list[i];
    operands.push_back({x, all_dims(x)});
    const Layout* layout = c.plan().inputs[i].layout;
    groups[{layout ? axes_of(layout, operands[i].dims) : std::vector<int>(), x.scalar_type()}]
        .push_back(i);
  }
  std::vector<at::Tensor> out(list.size());
  for (const auto& [key, members] : groups) {
    std::vector<NormOperand> some;
    for (std::size_t i : members) some.push_back(operands[i]);
    const auto norms = split_norms(some, ord, c.mesh(), key.first);
    for (std::size_t k = 0; k < members.size(); ++k) {
      out[members[k]] = norms[k].reshape({}).to(key.second);
    }
  }
  c.finish_list(std::move(out));
}

// Members of `self` that are R where the member's result is P(sum): kept on one rank.
void mask_addends(HandlerCall& c) {
  std::vector<at::Tensor> list = c.find("self")->toTensorVector();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const RunHandler::Member& member = c.members()[i];
    if (!member.handled) continue;
    list[i] = counted_once(list[i], c.plan().inputs[i].layout, member.result, c.mesh());
  }
  c.set("self", std::move(list));
  c.call();
}

// The kernels walk over parameters and gradients side by side in memory, so both must have the same
// strides. Plain autograd sees to that; a gradient that was moved may lie otherwise.
void fused(HandlerCall& c) {
  const std::vector<at::Tensor> parameters = c.find("self")->toTensorVector();
  const std::vector<at::Tensor> given = c.find("grads")->toTensorVector();
  std::vector<at::Tensor> grads = given;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].strides() == parameters[i].strides()) continue;
    grads[i] = at::empty_like(parameters[i], grads[i].options()).copy_(given[i]);
  }
  c.set("grads", grads);
  c.call();
  if (c.find("grad_scale") == nullptr) return;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].is_same(given[i])) given[i].copy_(grads[i]);
  }
}

constexpr HandlerEntry kLists[] = {
    {"fused", fused},
    {"linear_addend", nullptr, mask_addends},
    {"norm", nullptr, foreach_norm},
};

}  // namespace

std::span<const HandlerEntry> lists_entries() { return kLists; }

}  // namespace hyper_parallel::torch_layer::handlers
