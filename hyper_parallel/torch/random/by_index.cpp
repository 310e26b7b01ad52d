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

#include "hyper_parallel/torch/random/loops.h"
#include "hyper_parallel/torch/random/philox.h"

namespace hyper_parallel::torch_layer {
namespace {

/// Numbers of a run of elements side by side: `Real` is double for results of 8 bytes, else float.
template <class Real>
class Run {
 public:
  static constexpr std::uint64_t kWords = sizeof(Real) / 4;  // of an element
  static constexpr std::int64_t kMost = 8192;                // elements of a run

  Run(std::uint64_t key, const Distribution& draw) : key_(key), draw_(draw) {
    words_.resize(static_cast<std::size_t>(kMost + 2) * kWords + 8 * kPhiloxLanes);
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
      to_unit(words_.data() + start_, n, numbers_.data());
    }
    at::Tensor x = tensor(numbers_, n);
    switch (draw_.kind) {
      case Kind::uniform:
        if (a == 0 && b == 1) break;
        for (std::size_t i = 0; i < n; ++i) {
          const Real out = a + (b - a) * numbers_[i];
          numbers_[i] = out < b || !(a < b) ? out : a;  // rounding may reach b, which is not in
        }
        break;
      case Kind::normal:
        if (a != 0 || b != 1) x.mul_(b).add_(a);
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
    philox(counter, key_, (blocks + kPhiloxLanes - 1) / kPhiloxLanes * kPhiloxLanes, words_.data());
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

  // Elements 2 j and 2 j + 1 are the two numbers of a pair (Box and Muller): one radius, and angles
  // a quarter apart.
  void normal(std::uint64_t first, std::size_t n) {
    const std::size_t skip = first % 2;
    const std::size_t all = (n + skip + 1) / 2 * 2;
    read(first - skip, all);
    to_unit(words_.data() + start_, all, numbers_.data());
    to_pairs(numbers_.data(), second_.data(), all);
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

/// Where the elements of a part stand in the global order.
struct Places {
  std::vector<std::vector<std::int64_t>> offsets;  // of the dims but the last, by local index
  std::vector<Interval> runs;  // of the last dim: elements that follow each other
};

std::vector<std::int64_t> steps_of(const Shape& sizes, c10::IntArrayRef strides) {
  std::vector<std::int64_t> out(strides.begin(), strides.end());
  if (!out.empty()) return out;
  out.resize(sizes.size());
  std::int64_t next = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    out[d] = next;
    next *= sizes[d];
  }
  return out;
}

Places places_of(const Shape& sizes, const Region& region, c10::IntArrayRef strides) {
  Places out;
  if (sizes.empty()) {
    out.runs.push_back({0, 1});
    return out;
  }
  const std::vector<std::int64_t> steps = steps_of(sizes, strides);
  for (std::size_t d = 0; d + 1 < sizes.size(); ++d) {
    std::vector<std::int64_t> offsets;
    for (const Interval& i : region[d]) {
      for (std::int64_t k = i.begin; k < i.end; ++k) offsets.push_back(k * steps[d]);
    }
    out.offsets.push_back(std::move(offsets));
  }
  for (const Interval& i : region.back()) {
    if (steps.back() == 1) {
      if (i.size() > 0) out.runs.push_back(i);
      continue;
    }
    for (std::int64_t k = i.begin; k < i.end; ++k) {
      out.runs.push_back({k * steps.back(), k * steps.back() + 1});
    }
  }
  return out;
}

template <class T, class Real>
void draw_run(Run<Real>& run, const Distribution& draw, std::uint64_t first, std::int64_t count,
              T* to, std::int64_t step) {
  const auto n = static_cast<std::size_t>(count);
  if (draw.kind != Distribution::Kind::integer) {
    return spread(run.real(first, count).data(), n, to, step);
  }
  run.read(first, n);
  for (std::int64_t i = 0; i < count; ++i) {
    to[i * step] = static_cast<T>(run.integer(static_cast<std::size_t>(i)));
  }
}

template <class T, class Real>
void fill_type(at::Tensor& out, std::uint64_t key, const Distribution& draw, const Places& places) {
  const std::int64_t ndim = out.dim();
  const std::int64_t length = ndim == 0 ? 1 : out.size(-1);
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
      T* to = data + at;
      for (const Interval& i : places.runs) {
        for (std::int64_t k = i.begin; k < i.end; k += Run<Real>::kMost) {
          const std::int64_t n = std::min(i.end - k, Run<Real>::kMost);
          draw_run(run, draw, static_cast<std::uint64_t>(place + k), n, to, step);
          to += n * step;
        }
      }
    }
  });
}

bool fill_on_cpu(at::Tensor& out, std::uint64_t key, const Distribution& draw,
                 const Places& places) {
  switch (out.scalar_type()) {
    case at::kDouble:
      fill_type<double, double>(out, key, draw, places);
      return true;
    case at::kFloat:
      fill_type<float, float>(out, key, draw, places);
      return true;
    case at::kBFloat16:
      fill_type<at::BFloat16, float>(out, key, draw, places);
      return true;
    case at::kHalf:
      fill_type<at::Half, float>(out, key, draw, places);
      return true;
    case at::kLong:
      fill_type<std::int64_t, double>(out, key, draw, places);
      return true;
    case at::kInt:
      fill_type<std::int32_t, float>(out, key, draw, places);
      return true;
    case at::kShort:
      fill_type<std::int16_t, float>(out, key, draw, places);
      return true;
    case at::kChar:
      fill_type<std::int8_t, float>(out, key, draw, places);
      return true;
    case at::kByte:
      fill_type<std::uint8_t, float>(out, key, draw, places);
      return true;
    case at::kBool:
      fill_type<bool, float>(out, key, draw, places);
      return true;
    default:
      return false;
  }
}

// ---- By ops of ATen ------------------------------------------------------------------------

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

at::Tensor index_tensor(const Places& places, at::Device device) {
  std::vector<std::vector<std::int64_t>> offsets = places.offsets;
  offsets.emplace_back();
  for (const Interval& i : places.runs) {
    for (std::int64_t k = i.begin; k < i.end; ++k) offsets.back().push_back(k);
  }
  at::Tensor out = at::zeros({}, at::TensorOptions(at::kLong).device(device));
  for (const auto& each : offsets) {
    const at::Tensor row = at::empty({static_cast<std::int64_t>(each.size())}, at::kLong);
    std::copy(each.begin(), each.end(), row.mutable_data_ptr<std::int64_t>());
    out = out.unsqueeze(-1) + row.to(device);
  }
  return out;
}

}  // namespace

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
  const Places places = places_of(sizes, region, strides);
  if (out.device().is_cpu() && fill_on_cpu(out, key, draw, places)) return;
  const at::Tensor index = index_tensor(places, out.device()).view(out.sizes());
  out.copy_(drawn_by_ops(index, key, draw, is_wide(out.scalar_type())));
}

}  // namespace hyper_parallel::torch_layer
