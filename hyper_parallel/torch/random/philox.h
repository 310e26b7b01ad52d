#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>

/// Philox4x32-10, a counter-based generator: 32-bit words that are a function of a key and of their
/// place. Word j of a stream is lane j % 4 of counter j / 4.
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
namespace hyper_parallel::torch_layer {

/// Counters that the kernel works on at a time.
inline constexpr std::size_t kPhiloxLanes = 8;

/// The 4 * `blocks` words of the counters from `counter` on; `blocks` is a multiple of
/// kPhiloxLanes.
void philox(std::uint64_t counter, std::uint64_t key, std::size_t blocks, std::uint32_t* out);

/// The words at `places` (i64) as i64 in [0, 2^32), by ops of ATen, for devices without a kernel.
at::Tensor philox_words(const at::Tensor& places, std::uint64_t key);

}  // namespace hyper_parallel::torch_layer
