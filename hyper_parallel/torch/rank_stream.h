#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

/// Random numbers of ranks that are threads. They share torch's default generator, so each keeps a
/// state of its own (its stream), put in place while an op on DTensors draws. Streams start equal
/// and advance equally. A rank that is a process uses the default generator as it is.
namespace hyper_parallel::torch_layer {

/// Start the calling rank thread's stream; an undefined state ends it.
void begin_rank_stream(const at::Tensor& state);

/// Seed it, as torch.manual_seed does the default generator.
void seed_rank_stream(std::uint64_t seed);

}  // namespace hyper_parallel::torch_layer
