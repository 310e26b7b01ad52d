// Internal: dims of images, which windows read. For convolution and pooling.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/window.h"

namespace hyper_parallel::rules {

/// Attribute `name` as one number a spatial dim.
std::vector<std::int64_t> spatial(const Call& call, std::string_view name, std::size_t count,
                                  std::int64_t otherwise);

/// Windows that fit into `room` indices more than one takes, `stride` apart; 0 if none does.
std::int64_t count_windows(std::int64_t room, std::int64_t stride);

/// Factors of all dims of the first operand, which has `count` spatial dims; the channels are dim
/// ndim - count - 1.
std::vector<int> spread_image(ConcreteRule& rule, const Call& call, std::size_t count);

/// Dim `d` of the result `out`, which reads `factor` of the first operand through `window`. A dim
/// of size 1 is never split; what is not `sound` stays whole: the op itself shall say what is
/// wrong. `handled`: an attribute or a result names indices of the whole, so that a piece needs the
/// handler even where index o reads index o alone.
void put_space(ConcreteRule& rule, TensorMap& out, std::size_t d, int factor, Window window,
               bool sound = true, bool handled = false);

}  // namespace hyper_parallel::rules
