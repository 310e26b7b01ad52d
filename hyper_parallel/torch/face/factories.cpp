#include "hyper_parallel/torch/face/factories.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/face/api.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "hyper_parallel/torch/ranks/ranks.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel {
namespace {

// `fill` writes all values in place, as an op on DTensors: draws are those of one device.
template <class Fill>
at::Tensor made(const Shape& sizes, const Layout* layout, const at::TensorOptions& options,
                const Fill& fill) {
  const Mesh* mesh = layout->mesh();
  const int rank = torch_layer::current_rank().rank();
  if (!mesh->coordinate(rank)) {
    throw UsageError(Message("HP-M032", "rank " + std::to_string(rank) + " is not in the mesh")
                         .fact("mesh", mesh->to_string()));
  }
  at::Tensor out;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor part = at::empty(local_shape(layout, sizes, torch_layer::my_coordinate(mesh)),
                                      options.requires_grad(std::nullopt));
    at::Tensor whole = torch_layer::wrap(part, layout->reduced(), sizes);
    fill(whole);
    out = redistribute(whole, layout);
  }
  if (options.requires_grad()) out.requires_grad_(true);
  return out;
}

}  // namespace

at::Tensor empty(const Shape& sizes, const Layout* layout, const at::TensorOptions& options) {
  return made(sizes, layout, options, [](at::Tensor&) {});
}

at::Tensor zeros(const Shape& sizes, const Layout* layout, const at::TensorOptions& options) {
  return made(sizes, layout, options, [](at::Tensor& t) { t.zero_(); });
}

at::Tensor ones(const Shape& sizes, const Layout* layout, const at::TensorOptions& options) {
  return made(sizes, layout, options, [](at::Tensor& t) { t.fill_(1); });
}

at::Tensor full(const Shape& sizes, const at::Scalar& value, const Layout* layout,
                const at::TensorOptions& options) {
  const at::TensorOptions typed =
      options.has_dtype() ? options : options.dtype(at::full({}, value).dtype());
  return made(sizes, layout, typed, [&](at::Tensor& t) { t.fill_(value); });
}

at::Tensor rand(const Shape& sizes, const Layout* layout, const at::TensorOptions& options) {
  return made(sizes, layout, options, [](at::Tensor& t) { t.uniform_(); });
}

at::Tensor randn(const Shape& sizes, const Layout* layout, const at::TensorOptions& options) {
  return made(sizes, layout, options, [](at::Tensor& t) { t.normal_(); });
}

}  // namespace hyper_parallel
