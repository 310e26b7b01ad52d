#pragma once

#include <string_view>

#include "hyper_parallel/rules/query/infer.h"

namespace hyper_parallel::rules {

/// Read a call of an op and meet it with its rule.
///
///     read_call("aten::mm", "f32[8, 16] on dp=2 tp=2: S(0) R; f32[16, 32] R S(1)")
///     read_call("topk", "f32[8, 16]", "axis=1 k=2")
///
/// The first layout that names a mesh gives it to those that do not. Without any, all operands are
/// whole on a mesh of one axis of two ranks, `x=2`: what strategies are asked on.
/// Throws UsageError: text that does not read (HP-S042, HP-S043, HP-T001), and what `query` throws.
Query read_call(std::string_view op, std::string_view operands, std::string_view attrs = "");

}  // namespace hyper_parallel::rules
