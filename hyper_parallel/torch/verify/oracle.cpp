#include "hyper_parallel/torch/verify/oracle.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/real.h>
#include <ATen/ops/where.h>

#include <limits>
#include <sstream>

#include "hyper_parallel/core/text.h"

namespace hyper_parallel::torch_layer::oracle {
namespace {

using Coordinate = std::vector<int>;

Coordinate coordinate_of(const Mesh* mesh, int position) {
  Coordinate out(static_cast<std::size_t>(mesh->ndim()));
  for (int axis = mesh->ndim() - 1; axis >= 0; --axis) {
    out[static_cast<std::size_t>(axis)] = position % mesh->size(axis);
    position /= mesh->size(axis);
  }
  return out;
}

int position_of(const Mesh* mesh, const Coordinate& coordinate) {
  int out = 0;
  for (int axis = 0; axis < mesh->ndim(); ++axis) {
    out = out * mesh->size(axis) + coordinate[static_cast<std::size_t>(axis)];
  }
  return out;
}

bool is_half(const at::Tensor& t) {
  return t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16;
}

}  // namespace

at::Tensor random_like(const at::Tensor& t, at::Generator& random) {
  if (t.is_complex()) {
    const at::Tensor real = at::real(t);
    return at::complex(random_like(real, random), random_like(real, random));
  }
  if (t.is_floating_point() && !is_half(t)) {
    return at::randn(t.sizes(), random, t.options()).mul_(64).round_().div_(64);
  }
  const std::int64_t most = is_half(t) ? 2 : 9;
  return at::randint(-most, most + 1, t.sizes(), random, t.options().dtype(at::kLong))
      .to(t.scalar_type());
}

namespace {

// 1/2, 1 or 2 of either sign: it can be divided away. For integers 1 or -1.
at::Tensor random_factor(const at::Tensor& t, at::Generator& random) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return at::randint(low, high, t.sizes(), random, t.options().dtype(at::kLong));
  };
  const at::Tensor sign = draw(0, 2).mul_(2).sub_(1);
  if (!t.is_floating_point() && !t.is_complex()) return sign.to(t.scalar_type());
  return at::exp2(draw(-1, 2).to(at::kDouble)).mul_(sign).to(t.scalar_type());
}

std::vector<at::Tensor> part_sum(const at::Tensor& whole, int n, at::Generator& random) {
  std::vector<at::Tensor> out;
  at::Tensor rest = whole;
  for (int i = 0; i + 1 < n; ++i) {
    out.push_back(random_like(whole, random).mul_(i + 1));
    rest = rest - out.back();
  }
  out.push_back(rest);
  return out;
}

std::vector<at::Tensor> part_product(const at::Tensor& whole, int n, at::Generator& random) {
  std::vector<at::Tensor> out;
  at::Tensor rest = whole;
  for (int i = 0; i + 1 < n; ++i) {
    out.push_back(random_factor(whole, random));
    // A factor of an integer is its own inverse here: 1 or -1.
    const bool real = whole.is_floating_point() || whole.is_complex();
    rest = real ? rest / out.back() : rest * out.back();
  }
  out.push_back(rest);
  return out;
}

std::vector<at::Tensor> part_extreme(const at::Tensor& whole, int n, bool largest,
                                     at::Generator& random) {
  const at::Tensor owner =
      at::randint(0, n, whole.sizes(), random, whole.options().dtype(at::kLong));
  std::vector<at::Tensor> out;
  for (int i = 0; i < n; ++i) {
    const at::Tensor gap = random_like(whole, random).abs().add_(1);
    out.push_back(at::where(owner.eq(i), whole, largest ? whole - gap : whole + gap));
  }
  return out;
}

std::vector<at::Tensor> part(const at::Tensor& whole, ReduceOp op, int n, at::Generator& random) {
  switch (op) {
    case ReduceOp::sum:
      return part_sum(whole, n, random);
    case ReduceOp::avg: {
      // Multiples of n: dividing a part by n is then as exact as dividing the sum.
      std::vector<at::Tensor> out = part_sum(whole, n, random);
      for (at::Tensor& t : out) t = t * n;
      return out;
    }
    case ReduceOp::prod:
      return part_product(whole, n, random);
    case ReduceOp::max:
      return part_extreme(whole, n, true, random);
    case ReduceOp::min:
      return part_extreme(whole, n, false, random);
  }
  return {};
}

at::Tensor combine(const at::Tensor& a, const at::Tensor& b, ReduceOp op) {
  if (a.scalar_type() == at::kBool) {
    const bool all = op == ReduceOp::min || op == ReduceOp::prod;
    return all ? a.logical_and(b) : a.logical_or(b);
  }
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return a + b;
    case ReduceOp::prod:
      return a * b;
    case ReduceOp::max:
      return at::maximum(a, b);
    case ReduceOp::min:
      return at::minimum(a, b);
  }
  return a;
}

// The indices of each split dim that the rank at `coordinate` holds, taken out of `whole`.
at::Tensor take(const at::Tensor& whole, const Layout* layout, const Coordinate& coordinate) {
  at::Tensor out = whole;
  for (const Split& split : layout->splits()) {
    std::vector<at::Tensor> pieces;
    for (const Interval& piece :
         local_intervals(layout, split.dim, whole.size(split.dim), coordinate)) {
      pieces.push_back(out.slice(split.dim, piece.begin, piece.end));
    }
    out = at::cat(pieces, split.dim);
  }
  return out;
}

// All coordinates that differ from `base` along `axes` only.
std::vector<Coordinate> along(const Mesh* mesh, const std::vector<int>& axes, Coordinate base) {
  std::vector<Coordinate> out{std::move(base)};
  for (int axis : axes) {
    std::vector<Coordinate> next;
    for (const Coordinate& c : out) {
      for (int i = 0; i < mesh->size(axis); ++i) {
        next.push_back(c);
        next.back()[static_cast<std::size_t>(axis)] = i;
      }
    }
    out = std::move(next);
  }
  return out;
}

at::Tensor reduce(const std::vector<at::Tensor>& parts, const Layout* layout,
                  const std::vector<int>& partial_axes, const Coordinate& at_coordinate) {
  const Mesh* mesh = layout->mesh();
  at::Tensor out;
  double count = 1;
  ReduceOp op = ReduceOp::sum;
  for (int axis : partial_axes) {
    op = layout->placement(axis).op();
    if (op == ReduceOp::avg) count *= mesh->size(axis);
  }
  for (const Coordinate& c : along(mesh, partial_axes, at_coordinate)) {
    const at::Tensor& t = parts[static_cast<std::size_t>(position_of(mesh, c))];
    out = out.defined() ? combine(out, t, op) : t;
  }
  return count == 1 ? out : out / count;
}

}  // namespace

double bound_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
    case at::kComplexFloat:
      return 1e-4;
    case at::kHalf:
    case at::kBFloat16:
      return 2e-2;
    case at::kDouble:
    case at::kComplexDouble:
      return 1e-10;
    default:
      return 0;
  }
}

double bound_of(const std::vector<at::Tensor>& operands, const std::vector<at::Tensor>& results) {
  double out = 0;
  for (const auto* tensors : {&operands, &results}) {
    for (const at::Tensor& t : *tensors) {
      if (t.defined()) out = std::max(out, bound_of(t.scalar_type()));
    }
  }
  return out;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || at::equal(a, b)) return 0;
  if (a.is_complex()) {
    return distance(at::view_as_real(a.resolve_conj()), at::view_as_real(b.resolve_conj()));
  }
  if (!a.is_floating_point()) return std::numeric_limits<double>::infinity();
  const at::Tensor x = a.to(at::kDouble);
  const at::Tensor y = b.to(at::kDouble);
  at::Tensor d = (x - y).abs().div_(y.abs().add_(1));
  d = at::where(x.eq(y).logical_or(at::isnan(x).logical_and(at::isnan(y))), at::zeros_like(d), d);
  const double out = d.max().item<double>();  // a nan on one side only stays nan
  return out == out ? out : std::numeric_limits<double>::infinity();
}

bool can_part(at::ScalarType type, ReduceOp op) {
  if (type == at::kBool) return false;
  if (op == ReduceOp::sum) return true;
  if (op == ReduceOp::prod) return !at::isComplexType(type);
  if (op == ReduceOp::avg) return !at::isIntegralType(type, true);
  return !at::isComplexType(type);
}

bool can_part(at::ScalarType type, const Layout* layout) {
  for (const Placement& p : layout->placements()) {
    if (p.is_partial() && !can_part(type, p.op())) return false;
  }
  return true;
}

std::vector<at::Tensor> cut(const at::Tensor& whole, const Layout* layout, at::Generator& random) {
  const Mesh* mesh = layout->mesh();
  // Whole-shaped values, one for each coordinate along the partial axes.
  std::vector<int> partial_axes;
  std::vector<at::Tensor> values{whole};
  for (int axis = 0; axis < mesh->ndim(); ++axis) {
    if (!layout->placement(axis).is_partial()) continue;
    partial_axes.push_back(axis);
    std::vector<at::Tensor> next;
    for (const at::Tensor& v : values) {
      for (at::Tensor& p : part(v, layout->placement(axis).op(), mesh->size(axis), random)) {
        next.push_back(std::move(p));
      }
    }
    values = std::move(next);
  }
  std::vector<at::Tensor> out;
  for (int position = 0; position < mesh->size(); ++position) {
    const Coordinate here = coordinate_of(mesh, position);
    std::size_t index = 0;
    for (int axis : partial_axes) {
      index = index * static_cast<std::size_t>(mesh->size(axis)) +
              static_cast<std::size_t>(here[static_cast<std::size_t>(axis)]);
    }
    out.push_back(take(values[index], layout, here));
  }
  return out;
}

Match compare(const std::vector<at::Tensor>& parts, const Layout* layout, const at::Tensor& whole) {
  const Mesh* mesh = layout->mesh();
  std::vector<int> partial_axes;
  for (int axis = 0; axis < mesh->ndim(); ++axis) {
    if (layout->placement(axis).is_partial()) partial_axes.push_back(axis);
  }
  Match out;
  for (int position = 0; position < mesh->size(); ++position) {
    const Coordinate here = coordinate_of(mesh, position);
    const at::Tensor& mine = parts[static_cast<std::size_t>(position)];
    const Shape wanted = local_shape(layout, whole.sizes(), here);
    const Shape found(mine.sizes().begin(), mine.sizes().end());
    if (wanted != found || mine.scalar_type() != whole.scalar_type()) {
      std::ostringstream text;
      text << "rank " << position << " holds " << c10::toString(mine.scalar_type())
           << to_string(found) << ", expected " << c10::toString(whole.scalar_type())
           << to_string(wanted);
      return {0, text.str()};
    }
  }
  for (int position = 0; position < mesh->size(); ++position) {
    const Coordinate here = coordinate_of(mesh, position);
    // The first rank along the partial axes stands for all of them.
    bool first = true;
    for (int axis : partial_axes) first &= here[static_cast<std::size_t>(axis)] == 0;
    if (!first) continue;
    const at::Tensor value = reduce(parts, layout, partial_axes, here);
    out.error = std::max(out.error, distance(value, take(whole, layout, here)));
  }
  return out;
}

double cotangent_scale(const Layout* layout) {
  double out = 1;
  for (int axis = 0; axis < layout->mesh()->ndim(); ++axis) {
    if (layout->placement(axis).is_partial(ReduceOp::avg)) out /= layout->mesh()->size(axis);
  }
  return out;
}

bool has_dual(const Layout* layout) {
  for (const Placement& p : layout->placements()) {
    if (p.is_partial() && !p.is_partial(ReduceOp::sum) && !p.is_partial(ReduceOp::avg))
      return false;
  }
  return true;
}

bool is_clear(const Layout* layout) {
  const Placement* first = nullptr;
  const auto linear = [](const Placement& p) {
    return p.is_partial(ReduceOp::sum) || p.is_partial(ReduceOp::avg);
  };
  for (const Placement& p : layout->placements()) {
    if (!p.is_partial()) continue;
    if (first == nullptr) first = &p;
    if (p != *first && !(linear(p) && linear(*first))) return false;
  }
  return true;
}

}  // namespace hyper_parallel::torch_layer::oracle
