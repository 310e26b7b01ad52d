#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>

/// Random numbers of ranks that are threads. They share torch's default generator, so each keeps a
/// state of its own (its stream), put in place while an op draws. Streams start equal, and advance
/// equally as long as ranks run the same program. A rank that is a process uses the default
/// generator as it is.
namespace hyper_parallel::torch_layer {

/// Start the calling rank thread's stream; an undefined state ends it. From here on random ops on
/// plain tensors draw from it too, unless they are given a generator.
void begin_rank_stream(const at::Tensor& state);

/// Seed it, as torch.manual_seed does the default generator.
void seed_rank_stream(std::uint64_t seed);

/// Its state, as torch.get_rng_state and torch.set_rng_state see the default generator's.
at::Tensor rank_stream_state();
void set_rank_stream_state(const at::Tensor& state);

/// Puts this rank's stream in place of torch's default generator while it lives. It nests. Ranks
/// take turns, so nothing that waits for other ranks may happen meanwhile.
class Drawing {
 public:
  Drawing();
  ~Drawing();
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;

 private:
  std::unique_lock<std::mutex> turn_;
  at::Tensor before_;
};

}  // namespace hyper_parallel::torch_layer
