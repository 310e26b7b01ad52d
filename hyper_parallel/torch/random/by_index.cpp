#include "hyper_parallel/torch/random/by_index.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace hyper_parallel::torch_layer {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

using Block = std::array<std::uint32_t, 4>;

Block philox(std::uint64_t counter, std::uint64_t key) {
  Block c{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t p0 = static_cast<std::uint64_t>(kMultiplier0) * c[0];
    const std::uint64_t p1 = static_cast<std::uint64_t>(kMultiplier1) * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

/// The words of a stream, read mostly in order.
class Words {
 public:
  explicit Words(std::uint64_t key) : key_(key) {}

  std::uint32_t at(std::uint64_t place) {
    if (const std::uint64_t counter = place / 4; counter != counter_) {
      block_ = philox(counter, key_);
      counter_ = counter;
    }
    return block_[place % 4];
  }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = UINT64_MAX;
  Block block_{};
};

// Numbers of one element: `Real` is double for results of 8 bytes, else float.
template <class Real>
class Numbers {
 public:
  static constexpr bool kWide = sizeof(Real) == 8;

  explicit Numbers(std::uint64_t key) : words_(key) {}

  /// 32 or 64 bits.
  std::uint64_t bits(std::uint64_t i) {
    if constexpr (!kWide) return words_.at(i);
    const std::uint64_t low = words_.at(2 * i);
    return low | static_cast<std::uint64_t>(words_.at(2 * i + 1)) << 32;
  }

  /// [0, 1), all multiples of 2^-24 or 2^-53 alike.
  Real uniform(std::uint64_t i) {
    if constexpr (kWide) return static_cast<Real>(bits(i) >> 11) * 0x1p-53;
    return static_cast<Real>(bits(i) >> 8) * 0x1p-24F;
  }

  /// Elements 2 j and 2 j + 1 are the two numbers of a pair.
  Real normal(std::uint64_t i) {
    const std::uint64_t first = i & ~std::uint64_t{1};
    const Real radius = std::sqrt(Real{-2} * std::log(Real{1} - uniform(first)));
    const Real angle = Real{2} * std::numbers::pi_v<Real> * uniform(first + 1);
    return radius * (i == first ? std::cos(angle) : std::sin(angle));
  }

 private:
  Words words_;
};

template <class Real>
double real_number(Numbers<Real>& n, const Distribution& d, std::uint64_t i) {
  using Kind = Distribution::Kind;
  const auto a = static_cast<Real>(d.a);
  const auto b = static_cast<Real>(d.b);
  switch (d.kind) {
    case Kind::uniform: {
      const Real out = a + (b - a) * n.uniform(i);
      return out < b || !(a < b) ? out : a;  // rounding may reach b, which is not in
    }
    case Kind::normal:
      return a + b * n.normal(i);
    case Kind::exponential:
      return -std::log(Real{1} - n.uniform(i)) / a;
    case Kind::cauchy:
      return a + b * std::tan(std::numbers::pi_v<Real> * (n.uniform(i) - Real{0.5}));
    case Kind::log_normal:
      return std::exp(a + b * n.normal(i));
    case Kind::geometric: {
      if (d.a == 1) return 1;
      return std::max(std::ceil(std::log1p(-static_cast<double>(n.uniform(i))) / std::log1p(-d.a)),
                      1.0);
    }
    case Kind::bernoulli:
      return static_cast<double>(n.uniform(i)) < d.a ? 1 : 0;
    case Kind::integer:
      break;
  }
  return 0;
}

// Exact for all counts up to 2^64: the high half of a product (Lemire, "Fast random integer
// generation in an interval", 2019) without its rejection; the bias is below count / 2^64.
template <class Real>
std::int64_t integer_number(Numbers<Real>& n, const Distribution& d, std::uint64_t i) {
  const std::uint64_t bits = n.bits(i);
  std::uint64_t picked = 0;
  if constexpr (sizeof(Real) == 8) {
    picked =
        d.count == 0
            ? bits
            : static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits) * d.count) >> 64);
  } else {
    picked = (bits * d.count) >> 32;
  }
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(d.low) + picked);
}

/// The places of a part: global indices along each dim, and by how much a step there moves.
struct Places {
  std::vector<std::vector<std::int64_t>> offsets;  // by dim, for each local index
};

Places grid_of(const Shape& sizes, const Region& region, c10::IntArrayRef strides) {
  Places out;
  std::vector<std::int64_t> steps(strides.begin(), strides.end());
  if (steps.empty()) {
    steps.resize(sizes.size());
    std::int64_t next = 1;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      steps[d] = next;
      next *= sizes[d];
    }
  }
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    std::vector<std::int64_t> offsets;
    for (const Interval& i : region[d]) {
      for (std::int64_t k = i.begin; k < i.end; ++k) offsets.push_back(k * steps[d]);
    }
    out.offsets.push_back(std::move(offsets));
  }
  return out;
}

/// Call `row(pointer index of the first element, global place, ...)` for each row of the last dim.
template <class T, class Real, class Number>
void fill_cpu(at::Tensor& out, std::uint64_t key, const Places& grid, Number number) {
  const std::int64_t ndim = out.dim();
  const std::int64_t length = ndim == 0 ? 1 : out.size(-1);
  const std::int64_t step = ndim == 0 ? 1 : out.stride(-1);
  const std::int64_t rows = length == 0 ? 0 : out.numel() / length;
  T* const data = out.mutable_data_ptr<T>();
  const std::int64_t grain = std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(length, 1));
  at::parallel_for(0, rows, grain, [&](std::int64_t begin, std::int64_t end) {
    Numbers<Real> numbers(key);
    for (std::int64_t r = begin; r < end; ++r) {
      std::int64_t rest = r;
      std::int64_t at = 0;
      std::int64_t place = 0;
      for (std::int64_t d = ndim - 2; d >= 0; --d) {
        const std::int64_t k = rest % out.size(d);
        rest /= out.size(d);
        at += k * out.stride(d);
        place += grid.offsets[static_cast<std::size_t>(d)][static_cast<std::size_t>(k)];
      }
      for (std::int64_t k = 0; k < length; ++k) {
        const std::int64_t i =
            ndim == 0 ? 0 : place + grid.offsets.back()[static_cast<std::size_t>(k)];
        data[at + k * step] = static_cast<T>(number(numbers, static_cast<std::uint64_t>(i)));
      }
    }
  });
}

template <class T, class Real>
void fill_type(at::Tensor& out, std::uint64_t key, const Distribution& draw, const Places& grid) {
  if (draw.kind == Distribution::Kind::integer) {
    fill_cpu<T, Real>(out, key, grid, [&](Numbers<Real>& n, std::uint64_t i) {
      return integer_number<Real>(n, draw, i);
    });
  } else {
    fill_cpu<T, Real>(out, key, grid, [&](Numbers<Real>& n, std::uint64_t i) {
      return real_number<Real>(n, draw, i);
    });
  }
}

bool fill_on_cpu(at::Tensor& out, std::uint64_t key, const Distribution& draw, const Places& grid) {
  switch (out.scalar_type()) {
    case at::kDouble:
      fill_type<double, double>(out, key, draw, grid);
      return true;
    case at::kFloat:
      fill_type<float, float>(out, key, draw, grid);
      return true;
    case at::kBFloat16:
      fill_type<at::BFloat16, float>(out, key, draw, grid);
      return true;
    case at::kHalf:
      fill_type<at::Half, float>(out, key, draw, grid);
      return true;
    case at::kLong:
      fill_type<std::int64_t, double>(out, key, draw, grid);
      return true;
    case at::kInt:
      fill_type<std::int32_t, float>(out, key, draw, grid);
      return true;
    case at::kShort:
      fill_type<std::int16_t, float>(out, key, draw, grid);
      return true;
    case at::kChar:
      fill_type<std::int8_t, float>(out, key, draw, grid);
      return true;
    case at::kByte:
      fill_type<std::uint8_t, float>(out, key, draw, grid);
      return true;
    case at::kBool:
      fill_type<bool, float>(out, key, draw, grid);
      return true;
    default:
      return false;
  }
}

// ---- By ops of ATen ------------------------------------------------------------------------

constexpr std::int64_t kLow = 0xFFFFFFFF;

// Products of 32-bit numbers wrap around in i64, and their bits are right all the same.
at::Tensor high(const at::Tensor& product) { return product.bitwise_right_shift(32) & kLow; }

bool is_wide(at::ScalarType type) { return c10::elementSize(type) == 8; }

at::Tensor uniform_of(const at::Tensor& index, std::uint64_t key, bool wide) {
  if (!wide) {
    return philox_words(index, key).bitwise_right_shift(8).to(at::kFloat) * 0x1p-24F;
  }
  const at::Tensor low = philox_words(index * 2, key);
  const at::Tensor top = philox_words(index * 2 + 1, key);
  return (top * (std::int64_t{1} << 21) + low.bitwise_right_shift(11)).to(at::kDouble) * 0x1p-53;
}

at::Tensor normal_of(const at::Tensor& index, std::uint64_t key, bool wide) {
  const at::Tensor first = index - (index & 1);
  const at::Tensor radius = (-2 * (1 - uniform_of(first, key, wide)).log()).sqrt();
  const at::Tensor angle = 2 * std::numbers::pi * uniform_of(first + 1, key, wide);
  return radius * at::where(index.eq(first), angle.cos(), angle.sin());
}

at::Tensor drawn_by_ops(const at::Tensor& index, std::uint64_t key, const Distribution& d,
                        bool wide) {
  using Kind = Distribution::Kind;
  switch (d.kind) {
    case Kind::uniform: {
      const at::Tensor out = d.a + (d.b - d.a) * uniform_of(index, key, wide);
      return d.a < d.b ? at::where(out.lt(d.b), out, d.a) : out;
    }
    case Kind::normal:
      return d.a + d.b * normal_of(index, key, wide);
    case Kind::exponential:
      return -(1 - uniform_of(index, key, wide)).log() / d.a;
    case Kind::cauchy:
      return d.a + d.b * (std::numbers::pi * (uniform_of(index, key, wide) - 0.5)).tan();
    case Kind::log_normal:
      return (d.a + d.b * normal_of(index, key, wide)).exp();
    case Kind::geometric:
      if (d.a == 1) return at::where(index.eq(index), 1.0, 1.0);
      return ((-uniform_of(index, key, wide)).to(at::kDouble).log1p() / std::log1p(-d.a))
          .ceil()
          .clamp_min(1);
    case Kind::bernoulli:
      return uniform_of(index, key, wide).to(at::kDouble).lt(d.a);
    case Kind::integer:
      break;
  }
  // Multiples of 2^-53 of the interval: the device has no product of 128 bits.
  const at::Tensor u = uniform_of(index, key, true);
  return (u * static_cast<double>(d.count)).floor().to(at::kLong) + d.low;
}

at::Tensor index_tensor(const Places& grid, at::Device device) {
  at::Tensor out = at::zeros({}, at::TensorOptions(at::kLong).device(device));
  for (const auto& offsets : grid.offsets) {
    const at::Tensor row = at::empty({static_cast<std::int64_t>(offsets.size())}, at::kLong);
    std::copy(offsets.begin(), offsets.end(), row.mutable_data_ptr<std::int64_t>());
    out = out.unsqueeze(-1) + row.to(device);
  }
  return out;
}

}  // namespace

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

void fill_by_index(at::Tensor& out, std::uint64_t key, const Distribution& draw, const Shape& sizes,
                   const Region& region, c10::IntArrayRef strides) {
  if (out.numel() == 0) return;
  if (out.is_complex()) {
    at::Tensor real = at::view_as_real(out);
    Shape more = sizes;
    more.push_back(2);
    Region parts = region;
    parts.push_back({{0, 2}});
    std::vector<std::int64_t> steps;
    for (const std::int64_t step : strides) steps.push_back(2 * step);
    if (!steps.empty()) steps.push_back(1);
    Distribution half = draw;
    if (draw.kind == Distribution::Kind::normal) half.b /= std::numbers::sqrt2;
    return fill_by_index(real, key, half, more, parts, steps);
  }
  const Places grid = grid_of(sizes, region, strides);
  if (out.device().is_cpu() && fill_on_cpu(out, key, draw, grid)) return;
  out.copy_(drawn_by_ops(index_tensor(grid, out.device()), key, draw, is_wide(out.scalar_type())));
}

}  // namespace hyper_parallel::torch_layer
