#include "hyper_parallel/torch/random/philox.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HP_AVX2
#endif

namespace hyper_parallel::torch_layer {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;
constexpr std::int64_t kLow = 0xFFFFFFFF;

void one(std::uint64_t counter, std::uint64_t key, std::uint32_t* out) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter);
  std::uint32_t c1 = static_cast<std::uint32_t>(counter >> 32);
  std::uint32_t c2 = 0;
  std::uint32_t c3 = 0;
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t p0 = static_cast<std::uint64_t>(kMultiplier0) * c0;
    const std::uint64_t p1 = static_cast<std::uint64_t>(kMultiplier1) * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

#ifdef HP_AVX2
/// Four counters, each word in a slot of 64 bits.
struct Four {
  __m256i c0, c1, c2, c3;
};

[[gnu::target("avx2")]] inline void turn(Four& c, __m256i k0, __m256i k1, __m256i m0, __m256i m1,
                                         __m256i low) {
  const __m256i p0 = _mm256_mul_epu32(c.c0, m0);
  const __m256i p1 = _mm256_mul_epu32(c.c2, m1);
  c.c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c.c1), k0);
  c.c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c.c3), k1);
  c.c1 = _mm256_and_si256(p1, low);
  c.c3 = _mm256_and_si256(p0, low);
}

[[gnu::target("avx2")]] inline void store(const Four& c, std::uint32_t* out) {
  const __m256i a = _mm256_or_si256(c.c0, _mm256_slli_epi64(c.c1, 32));  // words 0, 1 of each
  const __m256i b = _mm256_or_si256(c.c2, _mm256_slli_epi64(c.c3, 32));  // words 2, 3
  const __m256i even = _mm256_unpacklo_epi64(a, b);                      // counters 0 and 2
  const __m256i odd = _mm256_unpackhi_epi64(a, b);                       // counters 1 and 3
  auto* const to = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}

[[gnu::target("avx2")]] void philox_avx2(std::uint64_t counter, std::uint64_t key,
                                         std::size_t blocks, std::uint32_t* out) {
  const __m256i m0 = _mm256_set1_epi64x(kMultiplier0);
  const __m256i m1 = _mm256_set1_epi64x(kMultiplier1);
  const __m256i low = _mm256_set1_epi64x(kLow);
  const __m256i zero = _mm256_setzero_si256();
  for (std::size_t first = 0; first < blocks; first += kPhiloxLanes) {
    const auto base = static_cast<std::int64_t>(counter + first);
    const __m256i n0 = _mm256_add_epi64(_mm256_set1_epi64x(base), _mm256_set_epi64x(3, 2, 1, 0));
    const __m256i n1 = _mm256_add_epi64(n0, _mm256_set1_epi64x(4));
    Four a{_mm256_and_si256(n0, low), _mm256_srli_epi64(n0, 32), zero, zero};
    Four b{_mm256_and_si256(n1, low), _mm256_srli_epi64(n1, 32), zero, zero};
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < kRounds; ++round) {
      const __m256i v0 = _mm256_set1_epi64x(k0);
      const __m256i v1 = _mm256_set1_epi64x(k1);
      turn(a, v0, v1, m0, m1, low);
      turn(b, v0, v1, m0, m1, low);
      k0 += kWeyl0;
      k1 += kWeyl1;
    }
    store(a, out + 4 * first);
    store(b, out + 4 * first + 16);
  }
}
#endif

// Products of 32-bit numbers wrap around in i64, and their bits are right all the same.
at::Tensor high(const at::Tensor& product) { return product.bitwise_right_shift(32) & kLow; }

}  // namespace

void philox(std::uint64_t counter, std::uint64_t key, std::size_t blocks, std::uint32_t* out) {
#ifdef HP_AVX2
  static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  if (avx2) return philox_avx2(counter, key, blocks, out);
#endif
  for (std::size_t i = 0; i < blocks; ++i) one(counter + i, key, out + 4 * i);
}

at::Tensor philox_words(const at::Tensor& places, std::uint64_t key) {
  at::Tensor c0 = places.bitwise_right_shift(2) & kLow;
  at::Tensor c1 = places.bitwise_right_shift(34) & kLow;
  at::Tensor c2 = at::zeros_like(c0);
  at::Tensor c3 = c2;
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const at::Tensor p0 = c0 * static_cast<std::int64_t>(kMultiplier0);
    const at::Tensor p1 = c2 * static_cast<std::int64_t>(kMultiplier1);
    c0 = high(p1).bitwise_xor(c1).bitwise_xor(static_cast<std::int64_t>(k0));
    c2 = high(p0).bitwise_xor(c3).bitwise_xor(static_cast<std::int64_t>(k1));
    c1 = p1 & kLow;
    c3 = p0 & kLow;
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  const at::Tensor lane = places & 3;
  return at::where(lane.lt(2), at::where(lane.eq(0), c0, c1), at::where(lane.eq(2), c2, c3));
}

}  // namespace hyper_parallel::torch_layer
