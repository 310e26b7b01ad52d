// Reductions whose result is not a plain sum, maximum or the like of the ranks' results.

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include <algorithm>

#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/handlers/internal.h"
#include "hyper_parallel/torch/handlers/split_moments.h"
#include "hyper_parallel/torch/handlers/split_norm.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

double count(const Shape& sizes, const std::vector<std::int64_t>& dims) {
  double out = 1;
  for (std::int64_t d : dims) out *= static_cast<double>(sizes[static_cast<std::size_t>(d)]);
  return out;
}

// What torch's overloads of var and std mean by their arguments.
double correction(const HandlerCall& c) {
  if (c.find("unbiased") != nullptr) return c.boolean("unbiased", true) ? 1 : 0;
  return c.number("correction", 1);
}

// Of all four: self [*a *d *b] with cut dims d that are reduced; results [*a *b], or d as 1.
// Over a cut dim d of cumsum, [*a d *b] -> the same.

void mean(HandlerCall& c) {
  const at::Tensor x = c.tensor("self");
  const auto type = c.dtype().value_or(x.scalar_type());
  if (!at::isFloatingType(type) && !at::isComplexType(type)) return c.call();  // torch refuses
  const auto dims = c.dims(static_cast<int>(x.dim()));
  // Half types: the sum may be out of range where the mean is not.
  const at::Tensor sum = x.sum(dims, c.boolean("keepdim", false), at::toOpMathType(type));
  c.finish({(sum / count(c.sizes("self"), dims)).to(type)});
}

void var(HandlerCall& c) {
  const at::Tensor x = c.tensor("self");
  const auto dims = c.dims(static_cast<int>(x.dim()));
  const auto axes = axes_of(c.layout("self"), dims);
  const double n = count(c.sizes("self"), dims);
  const bool keepdim = c.boolean("keepdim", false);
  const Moments m = split_moments(widened(x), dims, n, c.mesh(), axes);
  at::Tensor out = m.squares / std::max(n - correction(c), 0.0);
  if (c.options().root) out = safe_root(out, 2);
  out = out.to(at::toRealValueType(x.scalar_type()));
  const auto shaped = [&](const at::Tensor& t) { return keepdim ? t : t.squeeze(dims); };
  if (c.returns() == 1) {
    c.finish({shaped(out)});
  } else {
    c.finish({shaped(out), shaped(m.mean().to(x.scalar_type()))});
  }
}

void norm(HandlerCall& c) {
  at::Tensor x = c.tensor("self");
  x = x.to(type_in_autocast(x, "norm"));
  const auto dims = c.dims(static_cast<int>(x.dim()));
  const double ord = c.number("ord", c.number("p", 2));
  const auto type = at::toRealValueType(c.dtype().value_or(x.scalar_type()));
  const at::Tensor source = c.dtype() ? x.to(*c.dtype()) : x;
  at::Tensor out = split_norms({{source, dims}}, ord, c.mesh(), axes_of(c.layout("self"), dims))[0];
  out = out.to(type);
  c.finish({c.boolean("keepdim", false) ? out : out.squeeze(dims)});
}

void cumsum(HandlerCall& c) {
  at::Tensor x = c.tensor("self");
  x = x.to(type_in_autocast(x, "cumsum"));
  if (const auto type = c.dtype()) {
    x = x.to(*type);
  } else if (at::isIntegralType(x.scalar_type(), true)) {
    x = x.to(at::kLong);
  }
  const std::int64_t dim = c.dims(static_cast<int>(x.dim()))[0];
  const LocalDim d = c.dim_of("self", static_cast<int>(dim));
  if (d.is_whole()) return c.call();
  const at::Tensor wide = widened(x);

  // A rank holds one piece of each segment: scan each by itself, and let every rank know the totals
  // of all pieces, [ranks, pieces, rows]. Pieces of lower order are added: segment first, then
  // rank.
  std::vector<std::int64_t> lengths;
  for (const Interval& i : d.intervals) lengths.push_back(i.size());
  const auto pieces = wide.split_with_sizes(lengths, dim);
  std::vector<at::Tensor> totals;
  for (const at::Tensor& p : pieces) totals.push_back(p.sum(dim, true));
  const auto k = static_cast<std::int64_t>(pieces.size());
  const std::int64_t n = c.mesh()->size(d.axes);
  const at::Tensor mine = at::stack(totals).unsqueeze_(0);
  Shape sizes = mine.sizes().vec();
  sizes[0] = n;
  const Layout* stacked = Layout::get(c.mesh(), {Split{.dim = 0, .axes = d.axes}});
  const at::Tensor all =
      move(mine, stacked, Layout::replicated(c.mesh()), sizes).transpose(0, 1).flatten(0, 1);
  const std::int64_t here = group_index(c.mesh(), d.axes);
  std::vector<at::Tensor> out;
  for (std::int64_t s = 0; s < k; ++s) {
    const at::Tensor before = all.narrow(0, 0, s * n + here).sum(0);
    out.push_back(pieces[static_cast<std::size_t>(s)].cumsum(dim) + before);
  }
  c.finish({(k == 1 ? out[0] : at::cat(out, dim)).to(x.scalar_type())});
}

constexpr HandlerEntry kReduce[] = {
    {"cumsum", cumsum},
    {"mean", mean},
    {"norm", norm},
    {"var", var},
};

}  // namespace

std::span<const HandlerEntry> reduce_entries() { return kReduce; }

}  // namespace hyper_parallel::torch_layer::handlers
