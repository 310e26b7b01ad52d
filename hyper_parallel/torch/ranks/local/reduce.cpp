#include "hyper_parallel/torch/ranks/local/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <type_traits>

#include <ATen/Dispatch_v2.h>
#include <c10/core/ScalarType.h>
#include <c10/util/complex.h>

namespace hyper_parallel::torch_layer {
namespace {

using RedOp = c10d::ReduceOp::RedOpType;

// Small enough to stay in the first-level cache with its inputs.
constexpr std::int64_t kChunk = 2048;

template <class T>
inline constexpr bool kIsComplex = c10::is_complex<T>::value;

// Narrow floats are summed in f32; everything else in its own type.
template <class T>
using Sum = std::conditional_t<std::is_arithmetic_v<T> || kIsComplex<T>, T, float>;

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  return false;
}

// NaN wins, as in torch.maximum.
template <class T>
T larger(T a, T b) {
  return is_nan(a) || a > b ? a : b;
}

template <class T>
T smaller(T a, T b) {
  return is_nan(a) || a < b ? a : b;
}

template <class T, class F>
void fold(Sum<T>* acc, const T* in, std::int64_t n, F combine) {
  for (std::int64_t i = 0; i < n; ++i) acc[i] = combine(acc[i], static_cast<Sum<T>>(in[i]));
}

template <class T>
void accumulate(RedOp op, Sum<T>* acc, const T* in, std::int64_t n) {
  using S = Sum<T>;
  switch (op) {
    case RedOp::SUM:
    case RedOp::AVG:
      return fold<T>(acc, in, n, [](S a, S b) { return static_cast<S>(a + b); });
    case RedOp::PRODUCT:
      return fold<T>(acc, in, n, [](S a, S b) { return static_cast<S>(a * b); });
    default:
      break;
  }
  if constexpr (!kIsComplex<T>) {
    if (op == RedOp::MAX) return fold<T>(acc, in, n, larger<S>);
    if (op == RedOp::MIN) return fold<T>(acc, in, n, smaller<S>);
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == RedOp::BAND)
      return fold<T>(acc, in, n, [](S a, S b) { return static_cast<S>(a & b); });
    if (op == RedOp::BOR)
      return fold<T>(acc, in, n, [](S a, S b) { return static_cast<S>(a | b); });
    if (op == RedOp::BXOR)
      return fold<T>(acc, in, n, [](S a, S b) { return static_cast<S>(a ^ b); });
  }
}

template <class T>
void reduce_typed(RedOp op, const std::vector<Block>& inputs, const std::vector<Block>& outputs,
                  std::int64_t begin, std::int64_t end) {
  std::array<Sum<T>, kChunk> acc;
  const auto ranks = static_cast<double>(inputs.size());
  for (std::int64_t at = begin; at < end; at += kChunk) {
    const std::int64_t n = std::min(kChunk, end - at);
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
      const T* in = reinterpret_cast<const T*>(inputs[rank].data) + at;
      if (rank == 0) {
        std::transform(in, in + n, acc.begin(), [](T x) { return static_cast<Sum<T>>(x); });
      } else {
        accumulate<T>(op, acc.data(), in, n);
      }
    }
    if constexpr (!std::is_same_v<T, bool>) {
      if (op == RedOp::AVG) {
        using Count = std::conditional_t<std::is_integral_v<T>, Sum<T>,
                                         typename c10::scalar_value_type<Sum<T>>::type>;
        const auto count = static_cast<Count>(ranks);
        for (std::int64_t i = 0; i < n; ++i) acc[i] = static_cast<Sum<T>>(acc[i] / count);
      }
    }
    for (const Block& output : outputs) {
      T* out = reinterpret_cast<T*>(output.data) + at;
      std::transform(acc.begin(), acc.begin() + n, out, [](Sum<T> x) { return static_cast<T>(x); });
    }
  }
}

}  // namespace

void check_reduction(const char* collective, RedOp op, at::ScalarType dtype) {
  const bool integral = c10::isIntegralType(dtype, /*includeBool=*/true);
  bool known = true;
  switch (op) {
    case RedOp::SUM:
    case RedOp::PRODUCT:
      break;
    case RedOp::AVG:
      known = dtype != at::kBool;
      break;
    case RedOp::MAX:
    case RedOp::MIN:
      known = !c10::isComplexType(dtype);
      break;
    case RedOp::BAND:
    case RedOp::BOR:
    case RedOp::BXOR:
      known = integral;
      break;
    default:
      known = false;
  }
  if (known) return;
  throw UnsupportedError(
      Message("HP-C009", std::string(collective) + ": no such reduction of " + c10::toString(dtype))
          .fact("reductions",
                "sum, prod; avg except of bool; max, min of real "
                "numbers; band, bor, bxor of integers and bool"));
}

void reduce(RedOp op, const std::vector<Block>& inputs, const std::vector<Block>& outputs,
            std::int64_t begin, std::int64_t end) {
  AT_DISPATCH_V2(inputs.front().dtype, "reduce",
                 AT_WRAP([&] { reduce_typed<scalar_t>(op, inputs, outputs, begin, end); }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
                 AT_EXPAND(AT_FLOAT8_TYPES), at::kBool, at::kHalf, at::kBFloat16);
}

}  // namespace hyper_parallel::torch_layer
