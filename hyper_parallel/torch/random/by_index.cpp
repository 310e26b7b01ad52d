#include "hyper_parallel/torch/random/by_index.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>

#include <algorithm>
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

// Blocks of one stream at a time: enough to keep vector units busy.
constexpr std::size_t kLanes = 8;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define HP_FOR_EACH_PROCESSOR [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define HP_FOR_EACH_PROCESSOR
#endif

/// The words of `blocks` counters from `counter` on, a multiple of kLanes.
HP_FOR_EACH_PROCESSOR void philox(std::uint64_t counter, std::uint64_t key, std::size_t blocks,
                                  std::uint32_t* out) {
  for (std::size_t first = 0; first < blocks; first += kLanes) {
    std::uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) {
      const std::uint64_t c = counter + first + i;
      c0[i] = static_cast<std::uint32_t>(c);
      c1[i] = static_cast<std::uint32_t>(c >> 32);
      c2[i] = c3[i] = 0;
    }
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        const std::uint64_t p0 = static_cast<std::uint64_t>(kMultiplier0) * c0[i];
        const std::uint64_t p1 = static_cast<std::uint64_t>(kMultiplier1) * c2[i];
        c0[i] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
        c1[i] = static_cast<std::uint32_t>(p1);
        c2[i] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
        c3[i] = static_cast<std::uint32_t>(p0);
      }
      k0 += kWeyl0;
      k1 += kWeyl1;
    }
    for (std::size_t i = 0; i < kLanes; ++i) {
      std::uint32_t* const block = out + 4 * (first + i);
      block[0] = c0[i];
      block[1] = c1[i];
      block[2] = c2[i];
      block[3] = c3[i];
    }
  }
}

/// Numbers of a run of elements side by side: `Real` is double for results of 8 bytes, else float.
template <class Real>
class Run {
 public:
  static constexpr std::uint64_t kWords = sizeof(Real) / 4;  // of an element
  static constexpr std::int64_t kMost = 4096;                // elements of a run

  Run(std::uint64_t key, const Distribution& draw) : key_(key), draw_(draw) {
    words_.resize(static_cast<std::size_t>(kMost + 2) * kWords + 8 * kLanes);
    numbers_.resize(static_cast<std::size_t>(kMost) + 2);
    second_.resize(numbers_.size());
  }

  /// Elements `first` to `first + count` of the global order.
  const std::vector<Real>& real(std::uint64_t first, std::int64_t count) {
    const auto n = static_cast<std::size_t>(count);
    using Kind = Distribution::Kind;
    const auto a = static_cast<Real>(draw_.a);
    const auto b = static_cast<Real>(draw_.b);
    if (draw_.kind == Kind::normal || draw_.kind == Kind::log_normal) {
      normal(first, n);
    } else {
      read(first, n);
      for (std::size_t i = 0; i < n; ++i) numbers_[i] = uniform(i);
    }
    at::Tensor x = tensor(numbers_, n);
    switch (draw_.kind) {
      case Kind::uniform:
        for (std::size_t i = 0; i < n; ++i) {
          const Real out = a + (b - a) * numbers_[i];
          numbers_[i] = out < b || !(a < b) ? out : a;  // rounding may reach b, which is not in
        }
        break;
      case Kind::normal:
        x.mul_(b).add_(a);
        break;
      case Kind::log_normal:
        x.mul_(b).add_(a).exp_();
        break;
      case Kind::exponential:
        x.neg_().log1p_().div_(-a);
        break;
      case Kind::cauchy:
        x.sub_(0.5).mul_(std::numbers::pi).tan_().mul_(b).add_(a);
        break;
      case Kind::geometric:
        if (draw_.a == 1) {
          x.fill_(1);
        } else {
          x.copy_(
              x.to(at::kDouble).neg_().log1p_().div_(std::log1p(-draw_.a)).ceil_().clamp_min_(1));
        }
        break;
      case Kind::bernoulli:
        for (std::size_t i = 0; i < n; ++i) {
          numbers_[i] = static_cast<double>(numbers_[i]) < draw_.a ? 1 : 0;
        }
        break;
      case Kind::integer:
        break;
    }
    return numbers_;
  }

  /// Prepare `integer` for elements from `first` on.
  void read(std::uint64_t first, std::size_t n) {
    const std::uint64_t begin = first * kWords;
    const std::uint64_t end = (first + n) * kWords;
    const std::uint64_t counter = begin / 4;
    const std::uint64_t blocks = (end + 3) / 4 - counter;
    philox(counter, key_, (blocks + kLanes - 1) / kLanes * kLanes, words_.data());
    start_ = begin - 4 * counter;
  }

  /// Element `i` of those read. The high half of a product (Lemire, "Fast random integer generation
  /// in an interval", 2019) without its rejection: the bias is below count / 2^64, or 2^32.
  std::int64_t integer(std::size_t i) const {
    std::uint64_t picked = bits(i);
    if constexpr (kWords == 2) {
      if (draw_.count != 0) {
        picked = static_cast<std::uint64_t>(
            (static_cast<unsigned __int128>(picked) * draw_.count) >> 64);
      }
    } else {
      picked = (picked * draw_.count) >> 32;
    }
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(draw_.low) + picked);
  }

 private:
  std::uint64_t bits(std::size_t i) const {
    const std::uint32_t* const w = words_.data() + start_ + i * kWords;
    if constexpr (kWords == 1) return w[0];
    return w[0] | static_cast<std::uint64_t>(w[1]) << 32;
  }

  /// [0, 1), all multiples of 2^-24 or 2^-53 alike.
  Real uniform(std::size_t i) const {
    if constexpr (kWords == 2) return static_cast<Real>(bits(i) >> 11) * 0x1p-53;
    return static_cast<Real>(bits(i) >> 8) * 0x1p-24F;
  }

  // Elements 2 j and 2 j + 1 are the two numbers of a pair (Box and Muller): one radius, and angles
  // a quarter apart.
  void normal(std::uint64_t first, std::size_t n) {
    const std::size_t skip = first % 2;
    const std::size_t all = (n + skip + 1) / 2 * 2;
    read(first - skip, all);
    for (std::size_t i = 0; i < all; i += 2) {
      const Real angle = uniform(i + 1);
      numbers_[i] = numbers_[i + 1] = uniform(i);
      second_[i] = angle;
      second_[i + 1] = angle - Real{0.25};
    }
    at::Tensor radius = tensor(numbers_, all);
    at::Tensor angle = tensor(second_, all);
    radius.neg_().log1p_().mul_(-2).sqrt_().mul_(angle.mul_(2 * std::numbers::pi).cos_());
    if (skip != 0) std::copy(numbers_.begin() + 1, numbers_.begin() + 1 + n, numbers_.begin());
  }

  static at::Tensor tensor(std::vector<Real>& data, std::size_t n) {
    constexpr auto type = kWords == 2 ? at::kDouble : at::kFloat;
    return at::from_blob(data.data(), {static_cast<std::int64_t>(n)}, type);
  }

  const std::uint64_t key_;
  const Distribution& draw_;
  std::vector<std::uint32_t> words_;
  std::uint64_t start_ = 0;
  std::vector<Real> numbers_;
  std::vector<Real> second_;
};

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

/// The end of the run of elements that follow each other in the global order, from `k` on.
std::int64_t run_end(const std::vector<std::int64_t>& offsets, std::int64_t k, std::int64_t most) {
  const auto size = static_cast<std::int64_t>(offsets.size());
  const std::int64_t limit = std::min(size, k + most);
  std::int64_t end = k + 1;
  while (end < limit &&
         offsets[static_cast<std::size_t>(end)] == offsets[static_cast<std::size_t>(end - 1)] + 1) {
    ++end;
  }
  return end;
}

template <class T, class Real>
void fill_type(at::Tensor& out, std::uint64_t key, const Distribution& draw, const Places& places) {
  const std::int64_t ndim = out.dim();
  const std::vector<std::int64_t> alone = {0};
  const std::vector<std::int64_t>& last = ndim == 0 ? alone : places.offsets.back();
  const auto length = static_cast<std::int64_t>(last.size());
  const std::int64_t step = ndim == 0 ? 1 : out.stride(-1);
  const std::int64_t rows = out.numel() / length;
  T* const data = out.mutable_data_ptr<T>();
  const std::int64_t grain = std::max<std::int64_t>(1, 32768 / length);
  at::parallel_for(0, rows, grain, [&](std::int64_t begin, std::int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    Run<Real> run(key, draw);
    for (std::int64_t r = begin; r < end; ++r) {
      std::int64_t rest = r;
      std::int64_t at = 0;
      std::int64_t place = 0;
      for (std::int64_t d = ndim - 2; d >= 0; --d) {
        const std::int64_t k = rest % out.size(d);
        rest /= out.size(d);
        at += k * out.stride(d);
        place += places.offsets[static_cast<std::size_t>(d)][static_cast<std::size_t>(k)];
      }
      for (std::int64_t k = 0; k < length;) {
        const std::int64_t stop = run_end(last, k, Run<Real>::kMost);
        const auto first = static_cast<std::uint64_t>(place + last[static_cast<std::size_t>(k)]);
        const auto n = static_cast<std::size_t>(stop - k);
        T* const to = data + at + k * step;
        if (draw.kind == Distribution::Kind::integer) {
          run.read(first, n);
          for (std::size_t i = 0; i < n; ++i) {
            to[static_cast<std::int64_t>(i) * step] = static_cast<T>(run.integer(i));
          }
        } else {
          const std::vector<Real>& numbers = run.real(first, stop - k);
          for (std::size_t i = 0; i < n; ++i) {
            to[static_cast<std::int64_t>(i) * step] = static_cast<T>(numbers[i]);
          }
        }
        k = stop;
      }
    }
  });
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
  const at::Tensor radius = (-2 * (-uniform_of(first, key, wide)).log1p()).sqrt();
  const at::Tensor turn = uniform_of(first + 1, key, wide) - (index & 1) * 0.25;
  return radius * (2 * std::numbers::pi * turn).cos();
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
      return (-uniform_of(index, key, wide)).log1p() / -d.a;
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
