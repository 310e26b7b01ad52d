#pragma once

#include <cstdint>
#include <vector>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "hyper_parallel/torch/ranks/local/world.h"

namespace hyper_parallel::torch_layer {

/// Throw UnsupportedError unless `op` is defined on `dtype`.
///
/// Sum, avg, prod: all types (bool: or, -, and). Max, min: all but complex. Bitwise: integers,
/// bool.
void check_reduction(const char* collective, c10d::ReduceOp::RedOpType op, at::ScalarType dtype);

/// Combine elements `begin` to `end` of `inputs` in their order and write each of `outputs`,
/// which may be the same memory as inputs at the same place.
///
/// The order is fixed, so the result does not depend on who calls, nor on how the range is cut.
/// f16, bf16 and f8 add up in f32 and round once. avg divides the sum (integers: towards zero).
void reduce(c10d::ReduceOp::RedOpType op, const std::vector<Block>& inputs,
            const std::vector<Block>& outputs, std::int64_t begin, std::int64_t end);

}  // namespace hyper_parallel::torch_layer
