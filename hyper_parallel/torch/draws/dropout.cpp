// Dropout is a factor for each element, or for each channel, and with "alpha" a shift. Ranks of a
// P(sum) share one factor.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "hyper_parallel/torch/draws/draws.h"
#include "hyper_parallel/torch/draws/noise.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer::draws {
namespace {

/// `layout` without P, and without splits from dim `dims` on.
const Layout* over_first(const Layout* layout, int dims) {
  std::vector<Split> splits = layout->splits();
  std::erase_if(splits, [&](const Split& s) { return s.dim >= dims; });
  return Layout::get(layout->mesh(), splits, {});
}

// x [*d] -> x * factor + shift, where the coins are [*d], or [n, c, 1 ...] for whole channels.
// Source: torch 2.13, ATen/native/Dropout.cpp, _dropout_impl.
at::Tensor dropped(const at::Tensor& x, const Place& place, double p, bool alpha) {
  if (p == 1) return x * at::zeros({}, x.options());
  if (!alpha) return x * coins(place, 1 - p).div_(1 - p);
  constexpr double kAlpha = 1.7580993408473766;  // of SELU: its value at minus infinity is -kAlpha
  const double scale = 1.0 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  const at::Tensor kept = coins(place, 1 - p);
  const at::Tensor shift = (kept - 1).mul_(kAlpha * scale).add_(kAlpha * scale * p);
  return x * (kept * scale) + shift;
}

}  // namespace

void dropout(Frame& f, const OpPlan& plan, Operands& operands) {
  const at::Tensor t = operands.tensors[0];
  const bool in_place = f.info.writes;
  if (in_place) check_writable(f, t);
  const rules::RowOptions options = rules::row_options(*f.info.row);
  const Layout* layout = in_place ? impl_of(t)->layout() : plan.outputs[0];
  const double p = f.argument(1).toDouble();
  Place place{.layout = layout->reduced(),
              .sizes = {t.sizes().begin(), t.sizes().end()},
              .strides = dense_strides(t),
              .options = impl_of(t)->local().options()};
  if (options.channels) {
    std::fill(place.sizes.begin() + 2, place.sizes.end(), 1);
    place.strides.clear();
    place.layout = over_first(place.layout, 2);
  }
  const at::Tensor local = local_operand(plan, operands, 0);
  if (f.info.written_return.size() == 2) {  // native_dropout: the mask too
    place.options = place.options.dtype(at::kBool);
    const at::Tensor kept = coins(place, 1 - p);
    const at::Tensor out = local * kept * (p == 1 ? 0 : 1 / (1 - p));
    return leave(f,
                 {wrap(out, plan.outputs[0], t.sizes()), wrap(kept, plan.outputs[1], t.sizes())});
  }
  at::Tensor out = dropped(local, place, p, options.alpha);
  if (!in_place) return leave(f, {wrap(out, layout, t.sizes())});
  at::Tensor target = local_for_use(t);
  target.copy_(out);
  refresh(t, target, layout, t.sizes());
  leave(f, {t});
}

}  // namespace hyper_parallel::torch_layer::draws
