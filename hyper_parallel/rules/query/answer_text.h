#pragma once

#include <string>

#include "hyper_parallel/rules/query/infer.h"

namespace hyper_parallel::rules {

/// An answer for readers: what a rank moves, each tensor as it must lie, each change with its
/// reason. Sizes that are known after the run only are -1.
///
///     aten::mm on dp=2 tp=2: a rank moves 0 bytes
///       input 0  f32[8, 16] S(0) S(1)
///       input 1  f32[16, 32] R S(0)
///       output 0  f32[8, 32] S(0) P(sum)
///       change input 1: R R -> R S(0), 0 bytes: axis tp splits the sum over k
std::string to_string(const Query& query, const Inference& made);
std::string to_string(const Query& query, const Gradient& made);

/// `input 1: R R -> R S(0), 0 bytes: axis tp splits the sum over k`.
std::string to_string(const Query& query, const Change& change);

/// The element type that results are shown with: that of the first operand of floating point or
/// bool, else of the first one.
DType result_dtype(const Query& query);

}  // namespace hyper_parallel::rules
