#pragma once

#include <cstddef>

namespace hyper_parallel {

/// Mix `value` into `seed` (64-bit finaliser of splitmix64).
inline void hash_combine(std::size_t& seed, std::size_t value) {
  std::size_t x = seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  seed = x ^ (x >> 31);
}

}  // namespace hyper_parallel
