#include "hyper_parallel/torch/base/dtype.h"

namespace hyper_parallel::torch_layer {

DType dtype_of(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Double:
      return DType::f64;
    case c10::ScalarType::Float:
      return DType::f32;
    case c10::ScalarType::Half:
      return DType::f16;
    case c10::ScalarType::BFloat16:
      return DType::bf16;
    case c10::ScalarType::Long:
      return DType::i64;
    case c10::ScalarType::Int:
      return DType::i32;
    case c10::ScalarType::Short:
      return DType::i16;
    case c10::ScalarType::Char:
      return DType::i8;
    case c10::ScalarType::Byte:
      return DType::u8;
    case c10::ScalarType::Bool:
      return DType::boolean;
    case c10::ScalarType::ComplexFloat:
      return DType::c64;
    case c10::ScalarType::ComplexDouble:
      return DType::c128;
    default:
      return DType::other;
  }
}

TensorMeta meta_of(const at::Tensor& t) {
  return {Shape(t.sizes().begin(), t.sizes().end()), dtype_of(t.scalar_type())};
}

}  // namespace hyper_parallel::torch_layer
