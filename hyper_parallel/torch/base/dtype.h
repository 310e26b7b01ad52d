#pragma once

#include <ATen/core/Tensor.h>

#include "hyper_parallel/core/tensor_meta.h"

/// Torch's element types and shapes in the words of the torch-free part.
namespace hyper_parallel::torch_layer {

/// `DType::other` for a type that core does not name.
DType dtype_of(c10::ScalarType type);

/// Sizes and element type; those of the whole for a DTensor.
TensorMeta meta_of(const at::Tensor& t);

}  // namespace hyper_parallel::torch_layer
