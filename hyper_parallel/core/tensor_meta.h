#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hyper_parallel/core/layout.h"

namespace hyper_parallel {

/// Element types, by their short names in text: f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool c64 c128,
/// and `other` for those that the planner only needs the width of (as if 1 byte).
enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u8,
  boolean,
  c64,
  c128,
  other
};

/// Write the short name, read it back, and the bytes of one element. `parse_dtype` throws
/// UsageError (HP-T002), which lists the names.
std::string_view to_string(DType dtype);
DType parse_dtype(std::string_view text);
int bytes_of(DType dtype);

/// True for integers and bool; false for `other`.
bool is_integral(DType dtype);

/// Global shape and element type of a tensor.
struct TensorMeta {
  Shape sizes;
  DType dtype = DType::f32;

  std::int64_t numel() const;
  /// Bytes of the whole tensor.
  std::int64_t bytes() const { return numel() * bytes_of(dtype); }
  friend bool operator==(const TensorMeta&, const TensorMeta&) = default;
};

}  // namespace hyper_parallel
