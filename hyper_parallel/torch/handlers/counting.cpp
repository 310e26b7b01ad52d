// Histograms of elements that are cut.

#include <ATen/TensorOperators.h>
#include <ATen/ops/_histogramdd_bin_edges.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include <limits>
#include <numeric>

#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/handlers/internal.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

std::vector<std::int64_t> all_dims(std::size_t ndim) {
  std::vector<std::int64_t> out(ndim);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

// Smallest and largest value of each column of all ranks; 0 and 1 if there is none. A nan gives an
// infinite range, which torch refuses as it would refuse the nan.
std::vector<double> global_range(const at::Tensor& columns, const Mesh* mesh,
                                 const std::vector<int>& axes) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  at::Tensor ends = at::full({2, columns.size(1)}, -kInfinity, columns.options());
  if (columns.size(0) != 0) {
    ends = at::stack({columns.amin(0).neg(), columns.amax(0)});
    ends.masked_fill_(ends.isnan(), kInfinity);
  }
  ends = all_reduce(ends, mesh, axes, ReduceOp::max).to(at::kCPU, at::kDouble);
  const bool none = ends.eq(-kInfinity).all().item<bool>();
  std::vector<double> out;
  for (std::int64_t d = 0; d < columns.size(1); ++d) {
    out.push_back(none ? 0 : -ends[0][d].item<double>());
    out.push_back(none ? 1 : ends[1][d].item<double>());
  }
  return out;
}

// From counts to a density: over the total and the lengths of the bins.
at::Tensor density(at::Tensor counts, const std::vector<at::Tensor>& edges) {
  counts = counts / counts.sum();
  for (std::size_t d = 0; d < edges.size(); ++d) {
    Shape shape(static_cast<std::size_t>(counts.dim()), 1);
    shape[d] = -1;
    counts = counts / edges[d].diff().view(shape);
  }
  return counts;
}

// self [*n], with `points` [*n d] -> counts [*bins]; some n is cut.
void histogram(HandlerCall& c) {
  const at::Tensor self = c.tensor("self").detach();
  const Shape& sizes = c.sizes("self");
  const std::vector<int> axes = axes_of(c.layout("self"), all_dims(sizes.size()));
  const bool points = c.options().points;
  const c10::IValue* bins = c.find("bins");
  const bool given = bins->isTensor() || bins->isTensorList();
  const at::Tensor columns = points ? self.reshape({-1, sizes.back()}) : self.reshape({-1, 1});
  if (!given && c.find("range") == nullptr) {
    c.set("range", global_range(columns, c.mesh(), axes));
  }
  if (!c.options().counts) return c.call();

  std::vector<at::Tensor> edges;
  if (points && bins->isTensorList()) edges = bins->toTensorVector();
  if (points && !given && c.boolean("density", false)) {
    edges =
        at::_histogramdd_bin_edges(columns, bins->toIntVector(), c.find("range")->toDoubleVector());
  }
  const bool dense = c.boolean("density", false);
  c.set("density", false);
  c.call();
  at::Tensor counts = all_reduce(c.result(), c.mesh(), axes);
  if (points) {
    c.finish({dense ? density(std::move(counts), edges) : counts});
  } else {
    const at::Tensor ends = c.result(1);
    c.finish({dense ? density(std::move(counts), {ends}) : counts, ends});
  }
}

constexpr HandlerEntry kCounting[] = {
    {"histogram", histogram},
};

}  // namespace

std::span<const HandlerEntry> counting_entries() { return kCounting; }

}  // namespace hyper_parallel::torch_layer::handlers
