#include "hyper_parallel/torch/handlers/split_moments.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/real.h>
#include <ATen/ops/stack.h>

#include "hyper_parallel/torch/comm/collective_ops.h"

namespace hyper_parallel::torch_layer {

at::Tensor Moments::mean() const { return shift + offset; }

namespace {

// Not by abs(): its derivative at 0 would lose the second one.
at::Tensor squared(const at::Tensor& t) { return t.is_complex() ? at::real(t * t.conj()) : t * t; }

}  // namespace

Moments split_moments(const at::Tensor& x, c10::ArrayRef<std::int64_t> dims, double count,
                      const Mesh* mesh, const std::vector<int>& axes) {
  Moments out;
  out.shift = all_reduce(x.detach().sum(dims, true), mesh, axes) / count;
  out.shifted = x - out.shift;
  const at::Tensor sums = all_reduce(
      at::stack({out.shifted.sum(dims, true), squared(out.shifted).sum(dims, true)}), mesh, axes);
  out.offset = sums.select(0, 0) / count;
  const at::Tensor all = sums.select(0, 1);
  out.squares =
      ((all.is_complex() ? at::real(all) : all) - squared(out.offset) * count).clamp_min(0);
  return out;
}

}  // namespace hyper_parallel::torch_layer
