// Maxima, minima and products whose gradient is wanted.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/prod.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/handlers/internal.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// `value` with the gradient of `t`.
struct WithGradientOf : torch::autograd::Function<WithGradientOf> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& t, const at::Tensor& value) {
    (void)t;
    return value.clone();
  }
  static variable_list backward(AutogradContext*, variable_list grads) {
    return {grads[0], at::Tensor()};
  }
};

// self [*a *d *b] -> [*a *b], or d as 1; some d is cut.
// All places that hold the value share its gradient equally, as in torch.
void extreme(HandlerCall& c) {
  const at::Tensor x = c.tensor("self");
  const auto dims = c.dims(static_cast<int>(x.dim()));
  const auto axes = axes_of(c.layout("self"), dims);
  const bool largest = !c.smallest();
  at::Tensor value;
  at::Tensor share;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor here = largest ? at::amax(x, dims, true) : at::amin(x, dims, true);
    value = all_reduce(here, c.mesh(), axes, largest ? ReduceOp::max : ReduceOp::min);
    const at::Tensor holds = x.eq(value).logical_or_(at::isnan(x).logical_and_(at::isnan(value)));
    share = holds.to(x.scalar_type());
    share = share / all_reduce(share.sum(dims, true), c.mesh(), axes);
  }
  const at::Tensor sum = all_reduce((x * share).sum(dims, true), c.mesh(), axes);
  const at::Tensor out = WithGradientOf::apply(sum, value);
  c.finish({c.boolean("keepdim", false) ? out : out.squeeze(dims)});
}

void prod(HandlerCall& c) {
  const at::Tensor x = c.tensor("self");
  const auto dims = c.dims(static_cast<int>(x.dim()));
  const auto axes = axes_of(c.layout("self"), dims);
  const at::Tensor here = c.find("dim") == nullptr
                              ? at::prod(x, c.dtype())
                              : at::prod(x, dims[0], c.boolean("keepdim", false), c.dtype());
  const at::Tensor mine = here.unsqueeze(0);
  Shape sizes = mine.sizes().vec();
  sizes[0] = c.mesh()->size(axes);
  const Layout* stacked = Layout::get(c.mesh(), {Split{.dim = 0, .axes = axes}});
  c.finish({at::prod(move(mine, stacked, Layout::replicated(c.mesh()), sizes), 0)});
}

constexpr HandlerEntry kExtreme[] = {
    {"extreme", extreme},
    {"prod", prod},
};

}  // namespace

std::span<const HandlerEntry> extreme_entries() { return kExtreme; }

}  // namespace hyper_parallel::torch_layer::handlers
