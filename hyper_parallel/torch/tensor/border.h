#pragma once

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/torch/comm/exchange.h"

/// Where plain code and DTensors meet. Plain code computes a loss that is one number, the same on
/// all ranks; what it holds of a value in layout T has its gradient in a layout G, by default T
/// with every P made R: each rank has the whole gradient of what it holds. DTensors have theirs in
/// the dual layout, each rank its own contribution. So the adjoints of a crossing are no transposes
/// of maps between ranks; they are crossings the other way, and this is closed:
///
///     In  (V -> L; G)   backward   Out (dual(L) -> G; V)
///     Out (L -> T; G)   backward   In  (G -> dual(L); T)
///
/// so derivatives of any order are right. Values are kept on the way in: R -> P(sum) is 1 / n on
/// each rank, and nothing is sent.
namespace hyper_parallel::torch_layer {

/// Plain values in `layout` become local values of a DTensor, as they are; `gradient` is that of
/// the plain values. `sizes`: global. Throws UnsupportedError: P(max), P(min) or P(prod).
ExchangePtr border_way_in(const Layout* layout, const Layout* gradient, const Shape& sizes);

/// Local values of a DTensor in `from` are moved to `target` and become plain.
ExchangePtr border_way_out(const Layout* from, const Layout* target, const Layout* gradient,
                           const Shape& sizes);

/// Move a value from layout `from` to layout `to`; where `from` is R and `to` is P(sum) each rank
/// takes 1 / n (the older system's sens / N). Differentiable with the true transposes.
/// `sizes`: global.
at::Tensor convert_cotangent(const at::Tensor& local, const Layout* from, const Layout* to,
                             c10::IntArrayRef sizes);

/// The layout in which plain code holds the gradient of a value in `layout`: every R whole. That is
/// `layout` itself with P(*) replaced by R.
const Layout* whole_gradient(const Layout* layout);

/// The local cotangent of a value in `layout` from `gradient`: a DTensor in any layout, or plain
/// code's, which is whole on each rank. The cotangent is in the dual layout. Differentiable.
at::Tensor local_cotangent(const at::Tensor& gradient, const Layout* layout,
                           c10::IntArrayRef sizes);

/// The factor by which the gradient of a value in `layout` is larger than its local cotangent: n
/// for each axis that is P(avg), where ranks give 1 / n of the value each; else 1.
double gradient_factor(const Layout* layout);

}  // namespace hyper_parallel::torch_layer
