// Internal: from words to numbers, in loops over arrays.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hyper_parallel::torch_layer {

// Loops over arrays that the vectorizer takes whole.
#if defined(__GNUC__) && !defined(__clang__)
#define HP_VECTORIZED [[gnu::optimize("O3")]]
#else
#define HP_VECTORIZED
#endif

/// [0, 1), all multiples of 2^-24 or 2^-53 alike, of 1 or 2 words each.
HP_VECTORIZED inline void to_unit(const std::uint32_t* words, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = static_cast<float>(static_cast<std::int32_t>(words[i] >> 8)) * 0x1p-24F;
  }
}
HP_VECTORIZED inline void to_unit(const std::uint32_t* words, std::size_t n, double* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t bits = words[2 * i] | static_cast<std::uint64_t>(words[2 * i + 1]) << 32;
    out[i] = static_cast<double>(static_cast<std::int64_t>(bits >> 11)) * 0x1p-53;
  }
}

/// Of pairs (u, v): (u, u) to `u`, and to `v` the angles v and v - 1/4, in turns.
template <class Real>
HP_VECTORIZED void to_pairs(Real* u, Real* v, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 2) {
    v[i] = u[i + 1];
    v[i + 1] = u[i + 1] - Real{0.25};
    u[i + 1] = u[i];
  }
}

template <class T, class Real>
HP_VECTORIZED void spread(const Real* numbers, std::size_t n, T* out, std::int64_t step) {
  if (step == 1) {
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<T>(numbers[i]);
  } else {
    for (std::size_t i = 0; i < n; ++i) {
      out[static_cast<std::int64_t>(i) * step] = static_cast<T>(numbers[i]);
    }
  }
}

#undef HP_VECTORIZED

}  // namespace hyper_parallel::torch_layer
