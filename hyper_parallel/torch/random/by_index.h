#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hyper_parallel/core/region.h"

/// Random numbers by index: element i of the global tensor gets numbers that are a function of a
/// key and of i alone, so they are the same on one rank and under every layout and world size. A
/// rank computes those of its own part, and nothing moves.
///
/// Element i of the row-major order reads the words
/// [i * w, (i + 1) * w) of the stream of `key` (philox.h), where word j is lane j % 4 of counter j
/// / 4 and w is 1 for results of up to 4 bytes and 2 for f64 and i64.
namespace hyper_parallel::torch_layer {

/// What is drawn, and its parameters.
struct Distribution {
  enum class Kind : std::uint8_t {
    uniform,      // [a, b)
    normal,       // mean a, standard deviation b (Box and Muller, two elements a pair)
    exponential,  // rate a
    cauchy,       // median a, scale b
    log_normal,   // of the logarithm: mean a, standard deviation b
    geometric,    // trials until a success of probability a, from 1 on
    bernoulli,    // 1 with probability a, else 0
    integer,      // [low, low + count)
  };
  Kind kind = Kind::uniform;
  double a = 0;
  double b = 1;
  std::int64_t low = 0;
  std::uint64_t count = 0;
};

/// Fill `out`, this rank's part `region` of a tensor of `sizes`, in place; any strides, any real or
/// complex element type. A complex number is two real ones whose dim stands last; the variance of
/// complex normal numbers is b * b in all.
///
/// `strides` orders the elements instead of row-major order: i is the place in memory of a dense
/// tensor with these strides, as one device fills it. Empty: row-major.
void fill_by_index(at::Tensor& out, std::uint64_t key, const Distribution& draw, const Shape& sizes,
                   const Region& region, c10::IntArrayRef strides = {});

}  // namespace hyper_parallel::torch_layer
