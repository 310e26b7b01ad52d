// Maxima, top k and sort over a cut dim. Ranks exchange candidates, (value, global index) pairs; of
// equal values the lowest index wins, as on one device.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/handlers/internal.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

// The index of a candidate that is none: behind all others.
constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

struct Candidates {
  at::Tensor values;
  at::Tensor indices;  // global
};

template <class T>
at::Scalar bound(bool lowest) {
  return lowest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
}

// A value that no other loses to.
at::Scalar worst(at::ScalarType type, bool largest) {
  switch (type) {
    case at::kBool:
      return !largest;
    case at::kByte:
      return bound<std::uint8_t>(largest);
    case at::kChar:
      return bound<std::int8_t>(largest);
    case at::kShort:
      return bound<std::int16_t>(largest);
    case at::kInt:
      return bound<std::int32_t>(largest);
    case at::kLong:
      return bound<std::int64_t>(largest);
    default: {
      const double infinity = std::numeric_limits<double>::infinity();
      return largest ? -infinity : infinity;
    }
  }
}

Candidates no_candidates(const at::Tensor& like, const std::vector<std::int64_t>& sizes,
                         const at::Scalar& value) {
  return {at::full(sizes, value, like.options()),
          at::full(sizes, kNone, like.options().dtype(at::kLong))};
}

// Those of all ranks, stacked on a new first dim. Both tensors travel as bytes in one collective.
Candidates gather_candidates(const Candidates& mine, const Mesh* mesh,
                             const std::vector<int>& axes) {
  const auto shape = mine.values.sizes().vec();
  const auto bytes = [](const at::Tensor& t) { return t.reshape({-1}).view(at::kByte); };
  const at::Tensor packed = at::cat({bytes(mine.indices), bytes(mine.values)});
  const at::Tensor all = all_gather_stack(packed, mesh, axes);
  const std::int64_t split = 8 * mine.indices.numel();
  std::vector<std::int64_t> stacked = shape;
  stacked.insert(stacked.begin(), all.size(0));
  const auto unpack = [&](std::int64_t begin, std::int64_t length, at::ScalarType type) {
    return all.narrow(1, begin, length).clone().reshape({-1}).view(type).view(stacked);
  };
  return {unpack(split, packed.numel() - split, mine.values.scalar_type()),
          unpack(0, split, at::kLong)};
}

// The best over the first dim: nan beats all.
Candidates best(const Candidates& all, bool largest) {
  const at::Tensor value = largest ? all.values.amax(0) : all.values.amin(0);
  at::Tensor wins = all.values.eq(value);
  if (all.values.is_floating_point()) wins.logical_or_(all.values.isnan());
  return {value, all.indices.masked_fill(wins.logical_not(), kNone).amin(0)};
}

bool needs_gradient(const at::Tensor& t) { return at::GradMode::is_enabled() && t.requires_grad(); }

// The values at `index` with their gradients: the owner's value, summed over ranks.
at::Tensor values_at(const at::Tensor& x, std::int64_t dim, const at::Tensor& index,
                     const LocalDim& d, const Mesh* mesh) {
  return all_reduce(gather_mine(x, dim, index, d), mesh, d.axes);
}

/// The winner along `dim`, which is kept.
Candidates winner(const at::Tensor& x, std::int64_t dim, const LocalDim& d, bool largest,
                  const Mesh* mesh) {
  Candidates mine;
  if (x.size(dim) == 0) {
    auto sizes = x.sizes().vec();
    sizes[static_cast<std::size_t>(dim)] = 1;
    mine = no_candidates(x, sizes, worst(x.scalar_type(), largest));
  } else {
    auto [values, indices] = largest ? x.max(dim, true) : x.min(dim, true);
    mine = {values, to_global_index(indices, d)};
  }
  return best(gather_candidates(mine, mesh, d.axes), largest);
}

// Without a dim the index counts in the flattened global tensor, whose order the local one keeps.
at::Tensor flat_winner(const HandlerCall& c, const at::Tensor& x, bool largest) {
  const Layout* layout = c.layout("self");
  std::vector<int> axes;
  for (const Split& s : layout->splits()) axes.insert(axes.end(), s.axes.begin(), s.axes.end());
  Candidates mine;
  if (x.numel() == 0) {
    mine = no_candidates(x, {1}, worst(x.scalar_type(), largest));
  } else {
    const auto [values, indices] =
        largest ? x.reshape({-1}).max(0, true) : x.reshape({-1}).min(0, true);
    at::Tensor rest = indices;
    at::Tensor index = at::zeros_like(indices);
    std::int64_t stride = 1;
    for (int dim = static_cast<int>(x.dim()) - 1; dim >= 0; --dim) {
      const LocalDim d = c.dim_of("self", dim);
      index = index + to_global_index(rest.remainder(x.size(dim)), d) * stride;
      rest = rest.floor_divide(x.size(dim));
      stride *= d.size;
    }
    mine = {values, index};
  }
  return best(gather_candidates(mine, c.mesh(), axes), largest).indices;
}

// self [*a d *b] -> [*a *b], [*a 1 *b] with keepdim; d is cut.
void argmax(HandlerCall& c) {
  const at::Tensor x = c.tensor("self").detach();
  const bool largest = !c.smallest();
  const bool keepdim = c.boolean("keepdim", false);
  if (c.find("dim") == nullptr) {
    const at::Tensor index = flat_winner(c, x, largest);
    const Shape kept(static_cast<std::size_t>(x.dim()), 1);
    return c.finish({index.view(keepdim ? kept : Shape{})});
  }
  const std::int64_t dim = c.dims(static_cast<int>(x.dim()))[0];
  const LocalDim d = c.dim_of("self", static_cast<int>(dim));
  if (d.is_whole()) return c.call();
  const at::Tensor index = winner(x, dim, d, largest, c.mesh()).indices;
  c.finish({keepdim ? index : index.squeeze(dim)});
}

void minmax_dim(HandlerCall& c) {
  const at::Tensor x = c.tensor("self");
  const std::int64_t dim = c.dims(static_cast<int>(x.dim()))[0];
  const LocalDim d = c.dim_of("self", static_cast<int>(dim));
  if (d.is_whole()) return c.call();
  Candidates best = winner(x.detach(), dim, d, !c.smallest(), c.mesh());
  if (needs_gradient(x)) best.values = values_at(x, dim, best.indices, d, c.mesh());
  if (c.boolean("keepdim", false)) return c.finish({best.values, best.indices});
  c.finish({best.values.squeeze(dim), best.indices.squeeze(dim)});
}

// self [*a d *b] -> values and indices [*a k *b]; d is cut, k whole.
void topk(HandlerCall& c) {
  const at::Tensor x = c.tensor("self");
  const int ndim = static_cast<int>(x.dim());
  const std::int64_t dim = c.find("dim") ? c.dims(ndim)[0] : ndim - 1;
  const LocalDim d = c.dim_of("self", static_cast<int>(dim));
  const std::int64_t k = c.integer("k", 0);
  if (d.is_whole()) return c.call();
  TORCH_CHECK(k >= 0 && k <= d.size, "selected index k out of range");
  const bool largest = c.boolean("largest", true);

  // A rank with fewer than k gives what it has. The rest is filled with what sorts last (nan is
  // the largest) and, among equals, has the largest index.
  const std::int64_t own = std::min(k, x.size(dim));
  auto [values, indices] = at::topk(x.detach(), own, dim, largest, true);
  Candidates mine{values, to_global_index(indices, d)};
  if (own < k) {
    auto sizes = x.sizes().vec();
    sizes[static_cast<std::size_t>(dim)] = k - own;
    const at::Scalar last = !largest && x.is_floating_point()
                                ? at::Scalar(std::numeric_limits<double>::quiet_NaN())
                                : worst(x.scalar_type(), largest);
    const Candidates fill = no_candidates(x, sizes, last);
    mine = {at::cat({mine.values, fill.values}, dim), at::cat({mine.indices, fill.indices}, dim)};
  }
  const Candidates all = gather_candidates(mine, c.mesh(), d.axes);
  const auto row = [&](const at::Tensor& t) { return t.movedim(0, dim).flatten(dim, dim + 1); };
  const auto [by_index, first_order] = at::sort(row(all.indices), false, dim, false);
  const at::Tensor in_order = row(all.values).gather(dim, first_order);
  const auto [sorted, order] = at::sort(in_order, true, dim, largest);
  const at::Tensor index = by_index.gather(dim, order.narrow(dim, 0, k));
  c.finish({needs_gradient(x) ? values_at(x, dim, index, d, c.mesh()) : sorted.narrow(dim, 0, k),
            index});
}

// self [*a d *b] -> the same; d is cut.
struct Sorted {
  Candidates part;  // of this rank
  bool whole;       // the dim is not cut: nothing was done
};

Sorted sorted_part(HandlerCall& c) {
  const at::Tensor x = c.tensor("self");
  const auto ndim = static_cast<int>(x.dim());
  const std::int64_t dim = c.find("dim") ? c.dims(ndim)[0] : ndim - 1;
  const LocalDim d = c.dim_of("self", static_cast<int>(dim));
  if (d.is_whole()) return {{}, true};
  const Layout* cut = c.layout("self");
  const Layout* whole = cut;
  for (int axis : d.axes) whole = whole->with(axis, Placement::replicate());
  const at::Tensor row = move(x, cut, whole, c.sizes("self"));
  const auto [values, indices] =
      at::sort(row, c.boolean("stable", false), dim, c.boolean("descending", false));
  return {{local_part(values, dim, d), local_part(indices, dim, d)}, false};
}

void sort(HandlerCall& c) {
  const Sorted sorted = sorted_part(c);
  if (sorted.whole) return c.call();
  c.finish({sorted.part.values, sorted.part.indices});
}

void argsort(HandlerCall& c) {
  const Sorted sorted = sorted_part(c);
  if (sorted.whole) return c.call();
  c.finish({sorted.part.indices});
}

constexpr HandlerEntry kSelect[] = {
    {"argmax", argmax}, {"argsort", argsort}, {"minmax_dim", minmax_dim},
    {"sort", sort},     {"topk", topk},
};

}  // namespace

std::span<const HandlerEntry> select_entries() { return kSelect; }

}  // namespace hyper_parallel::torch_layer::handlers
