#include "hyper_parallel/torch/handlers/split_norm.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "hyper_parallel/torch/comm/collective_ops.h"

namespace hyper_parallel::torch_layer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// `value` with the gradient of `shadow`, an expression equal to it up to rounding.
struct WithGradientOf : torch::autograd::Function<WithGradientOf> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& value, const at::Tensor& shadow) {
    (void)shadow;
    return value.clone();
  }
  static variable_list backward(AutogradContext*, variable_list grads) {
    return {at::Tensor(), grads[0]};
  }
};

at::ScalarType real_wide_type(const NormOperand& o) {
  return at::toRealValueType(at::toOpMathType(o.x.scalar_type()));
}

at::Tensor filled_like_result(const NormOperand& o, double value) {
  auto sizes = o.x.sizes().vec();
  for (std::int64_t d : o.dims) sizes[static_cast<std::size_t>(d)] = 1;
  return at::full(sizes, value, o.x.options().dtype(real_wide_type(o)));
}

bool is_empty(const NormOperand& o) {
  return std::any_of(o.dims.begin(), o.dims.end(),
                     [&](std::int64_t d) { return o.x.size(d) == 0; });
}

// The sum of |x|^p, by way of the norm: its kernel makes no copy of x, and knows the gradient at 0.
at::Tensor powers(const NormOperand& o, double p) {
  // Nothing to add, but in the graph: the collective's backward must run on every rank.
  if (p < 0 && is_empty(o)) return o.x.abs().to(real_wide_type(o)).sum(o.dims, true);
  const at::Tensor n =
      at::linalg_vector_norm(o.x, p, o.dims, true, at::toOpMathType(o.x.scalar_type()));
  if (p == 0 || p == 1) return n;
  if (p == 2) return n * n;
  if (p < 0) return n.pow(p);
  const at::Tensor zero = n.detach().eq(0);
  return n.masked_fill(zero, 1).pow(p).masked_fill(zero, 0);
}

at::Tensor extreme(const NormOperand& o, double p) {
  if (is_empty(o)) {
    return filled_like_result(o, std::copysign(std::numeric_limits<double>::infinity(), -p));
  }
  return at::linalg_vector_norm(o.x.detach(), p, o.dims, true, at::toOpMathType(o.x.scalar_type()));
}

// Equal extremes share the gradient.
at::Tensor with_gradient(const at::Tensor& value, const NormOperand& o, const Mesh* mesh,
                         const std::vector<int>& axes) {
  if (!at::GradMode::is_enabled() || !o.x.requires_grad()) return value;
  const at::Tensor size = o.x.abs().to(value.scalar_type());
  const at::Tensor hit =
      size.detach().eq(value).logical_or_(size.detach().isnan().logical_and_(value.isnan()));
  const at::Tensor ties = all_reduce(hit.sum(o.dims, true).to(value.scalar_type()), mesh, axes);
  const at::Tensor shadow = (size.masked_fill(hit.logical_not(), 0) / ties).sum(o.dims, true);
  return WithGradientOf::apply(value, all_reduce(shadow, mesh, axes));
}

}  // namespace

at::Tensor safe_root(const at::Tensor& t, double p) {
  if (p < 0) return t.pow(1 / p);
  const at::Tensor zero = t.detach().eq(0);
  const at::Tensor safe = t.masked_fill(zero, 1);
  return (p == 2 ? safe.sqrt() : safe.pow(1 / p)).masked_fill(zero, 0);
}

std::vector<at::Tensor> split_norms(const std::vector<NormOperand>& operands, double p,
                                    const Mesh* mesh, const std::vector<int>& axes) {
  const bool reduced = !std::isinf(p);
  std::vector<at::Tensor> flat;
  std::vector<std::int64_t> lengths;
  std::vector<std::vector<std::int64_t>> shapes;
  for (const NormOperand& o : operands) {
    const at::Tensor local = reduced ? powers(o, p) : extreme(o, p);
    shapes.push_back(local.sizes().vec());
    lengths.push_back(local.numel());
    flat.push_back(local.reshape({-1}));
  }
  at::Tensor all = flat.size() == 1 ? flat[0] : at::cat(flat);
  if (reduced) {
    all = all_reduce(all, mesh, axes);
    if (p != 0 && p != 1) all = safe_root(all, p);
  } else {
    const at::Tensor stack = all_gather_stack(all, mesh, axes);
    all = p > 0 ? stack.amax(0) : stack.amin(0);
  }
  std::vector<at::Tensor> out = all.split_with_sizes(lengths);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = out[i].view(shapes[i]);
    if (!reduced) out[i] = with_gradient(out[i], operands[i], mesh, axes);
  }
  return out;
}

}  // namespace hyper_parallel::torch_layer
