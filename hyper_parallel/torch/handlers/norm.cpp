// Norms over dims that are cut. Statistics are f32 for half types.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>

#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/handlers/internal.h"
#include "hyper_parallel/torch/handlers/split_moments.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

struct Normalised {
  std::vector<std::int64_t> dims;
  std::vector<int> axes;
  double count = 1;  // global
};

Normalised normalised(const HandlerCall& c) {
  Normalised out;
  const Shape& sizes = c.sizes("input");
  const auto n = c.find("normalized_shape")->toListRef().size();
  for (std::size_t d = sizes.size() - n; d < sizes.size(); ++d) {
    out.dims.push_back(static_cast<std::int64_t>(d));
    out.count *= static_cast<double>(sizes[d]);
  }
  out.axes = axes_of(c.layout("input"), out.dims);
  return out;
}

at::Tensor affine(const HandlerCall& c, at::Tensor y) {
  const at::Tensor weight = c.tensor("weight");
  if (weight.defined()) y = y * widened(weight);
  if (c.find("bias") != nullptr) y = y + widened(c.tensor("bias"));
  return y;
}

// input [*a *d], weight and bias [*d] -> [*a *d]; some d is cut.
void layer_norm(HandlerCall& c) {
  at::Tensor x = c.tensor("input");
  x = x.to(type_in_autocast(x, "layer_norm"));
  const Normalised n = normalised(c);
  const Moments m = split_moments(widened(x), n.dims, n.count, c.mesh(), n.axes);
  const at::Tensor scale = (m.squares / n.count + c.number("eps", 1e-5)).rsqrt();
  const at::Tensor y = affine(c, m.shifted * scale - m.offset * scale).to(x.scalar_type());
  if (c.returns() == 1) {
    c.finish({y});
  } else {
    c.finish({y, m.mean(), scale});
  }
}

// input [n c *s], one statistic a channel [c]; n or s is cut.
// In training, of a batch or of space that is cut. The running statistics are whole there, and each
// rank writes the same.
void batch_norm(HandlerCall& c) {
  at::Tensor x = c.tensor("input");
  x = x.to(type_in_autocast(x, "batch_norm"));
  const Shape& sizes = c.sizes("input");
  std::vector<std::int64_t> dims;
  double count = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (d == 1) continue;
    dims.push_back(static_cast<std::int64_t>(d));
    count *= static_cast<double>(sizes[d]);
  }
  const Moments m =
      split_moments(widened(x), dims, count, c.mesh(), axes_of(c.layout("input"), dims));
  const at::Tensor var = m.squares / count;
  const at::Tensor scale = (var + c.number("eps", 1e-5)).rsqrt();
  std::vector<std::int64_t> row(sizes.size(), 1);
  row[1] = -1;
  at::Tensor y = m.shifted * scale - m.offset * scale;
  if (c.find("weight") != nullptr) y = y * widened(c.tensor("weight")).reshape(row);
  if (c.find("bias") != nullptr) y = y + widened(c.tensor("bias")).reshape(row);
  y = y.to(x.scalar_type());

  at::Tensor mean = c.tensor("running_mean");
  at::Tensor variance = c.tensor("running_var");
  if (mean.defined()) {
    at::NoGradGuard no_grad;
    const double momentum = c.number("momentum", 0.1);
    const at::Tensor new_mean = m.mean().detach().reshape(-1).to(mean.scalar_type());
    const at::Tensor new_var =
        (m.squares / std::max(count - 1, 1.0)).detach().reshape(-1).to(variance.scalar_type());
    if (c.returns() < 5) {
      mean.mul_(1 - momentum).add_(new_mean, momentum);
      variance.mul_(1 - momentum).add_(new_var, momentum);
    } else {
      mean = mean * (1 - momentum) + new_mean * momentum;
      variance = variance * (1 - momentum) + new_var * momentum;
    }
  }
  const at::Tensor saved = m.mean().reshape(-1);
  const at::Tensor rate = scale.reshape(-1);
  switch (c.returns()) {
    case 1:
      return c.finish({y});
    case 3:  // torch's own: what its backward needs
      return c.finish({y, saved.detach(), rate.detach()});
    case 4:
      return c.finish(
          {y, saved.detach(), rate.detach(), at::empty({0}, x.options().dtype(at::kByte))});
    default:
      return c.finish({y, mean, variance, saved, rate});
  }
}

void rms_norm(HandlerCall& c) {
  at::Tensor x = c.tensor("input");
  x = x.to(type_in_autocast(x, "rms_norm"));
  const Normalised n = normalised(c);
  const at::Tensor wide = widened(x);
  // torch takes the epsilon of the type that it computes in.
  const double eps =
      c.number("eps", wide.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                        : std::numeric_limits<float>::epsilon());
  const at::Tensor squares = all_reduce((wide * wide).sum(n.dims, true), c.mesh(), n.axes);
  const at::Tensor scale = (squares / n.count + eps).rsqrt();
  const at::Tensor y = affine(c, wide * scale).to(x.scalar_type());
  if (c.returns() == 1) {
    c.finish({y});
  } else {
    c.finish({y, scale});
  }
}

constexpr HandlerEntry kNorm[] = {
    {"batch_norm", batch_norm},
    {"layer_norm", layer_norm},
    {"rms_norm", rms_norm},
};

}  // namespace

std::span<const HandlerEntry> norm_entries() { return kNorm; }

}  // namespace hyper_parallel::torch_layer::handlers
