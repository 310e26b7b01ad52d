#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/core/TensorOptions.h>

#include "hyper_parallel/core/layout.h"

/// New DTensors of a global size, made part by part: no rank holds more than its part.
///
///     zeros({4096, 1024}, layout, at::kBFloat16)    f32[4096, 1024] on dp=2 tp=4: S(0) S(1)
///
/// `options` are torch's: element type, device, requires_grad. Where the layout has P, the
/// pieces of all ranks add up to the value. Nothing is communicated.
/// All throw UsageError: HP-M032 the rank is not in the mesh, HP-L005 a split dim that the sizes
/// lack.
namespace hyper_parallel {

/// Values are arbitrary.
at::Tensor empty(const Shape& sizes, const Layout* layout, const at::TensorOptions& options = {});
at::Tensor zeros(const Shape& sizes, const Layout* layout, const at::TensorOptions& options = {});
at::Tensor ones(const Shape& sizes, const Layout* layout, const at::TensorOptions& options = {});

/// One value; its element type is that of `value` by default.
at::Tensor full(const Shape& sizes, const at::Scalar& value, const Layout* layout,
                const at::TensorOptions& options = {});

/// Numbers from 0 up to 1, those that one device would draw.
at::Tensor rand(const Shape& sizes, const Layout* layout, const at::TensorOptions& options = {});

/// Normal numbers, those that one device would draw.
at::Tensor randn(const Shape& sizes, const Layout* layout, const at::TensorOptions& options = {});

}  // namespace hyper_parallel
