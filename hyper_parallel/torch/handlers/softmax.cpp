#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include <limits>

#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/handlers/internal.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The element type of the result, and the operand in it.
at::Tensor converted(const HandlerCall& c, std::string_view handler) {
  const at::Tensor x = c.tensor("self");
  if (const auto type = c.dtype()) return x.to(*type);
  if (c.boolean("half_to_float", false)) return x.to(at::kFloat);
  return x.to(type_in_autocast(x, handler));
}

}  // namespace

at::Tensor split_max(const at::Tensor& x, c10::ArrayRef<std::int64_t> dims, const Mesh* mesh,
                     const std::vector<int>& axes) {
  const at::Tensor values = x.detach();
  auto sizes = values.sizes().vec();
  bool empty = false;
  for (std::int64_t d : dims) {
    empty |= values.size(d) == 0;
    sizes[static_cast<std::size_t>(d)] = 1;
  }
  const at::Tensor local =
      empty ? at::full(sizes, -kInfinity, values.options()) : values.amax(dims, true);
  return all_reduce(local, mesh, axes, ReduceOp::max);
}

at::Tensor split_softmax(const at::Tensor& x, std::int64_t dim, const Mesh* mesh,
                         const std::vector<int>& axes) {
  const at::Tensor e = (x - split_max(x, dim, mesh, axes)).exp_();
  return e / all_reduce(e.sum(dim, true), mesh, axes);
}

at::Tensor split_log_softmax(const at::Tensor& x, std::int64_t dim, const Mesh* mesh,
                             const std::vector<int>& axes) {
  const at::Tensor shifted = x - split_max(x, dim, mesh, axes);
  return shifted - all_reduce(shifted.exp().sum(dim, true), mesh, axes).log();
}

namespace {

// self [*a d *b] -> the same, of logsumexp [*a *b]; d is cut.

void softmax(HandlerCall& c) {
  const at::Tensor x = converted(c, "softmax");
  const std::int64_t dim = c.dims(static_cast<int>(x.dim()))[0];
  const at::Tensor out =
      split_softmax(widened(x), dim, c.mesh(), c.layout("self")->axes(static_cast<int>(dim)));
  c.finish({out.to(x.scalar_type())});
}

void log_softmax(HandlerCall& c) {
  const at::Tensor x = converted(c, "log_softmax");
  const std::int64_t dim = c.dims(static_cast<int>(x.dim()))[0];
  const at::Tensor out =
      split_log_softmax(widened(x), dim, c.mesh(), c.layout("self")->axes(static_cast<int>(dim)));
  c.finish({out.to(x.scalar_type())});
}

void logsumexp(HandlerCall& c) {
  at::Tensor x = c.tensor("self");
  x = x.to(type_in_autocast(x, "logsumexp"));
  if (!x.is_floating_point()) x = x.to(c10::get_default_dtype_as_scalartype());
  const auto dims = c.dims(static_cast<int>(x.dim()));
  const auto axes = axes_of(c.layout("self"), dims);
  const at::Tensor wide = widened(x);
  at::Tensor m = split_max(wide, dims, c.mesh(), axes);
  // A row of -inf gives log 0 = -inf, not inf - inf.
  m.masked_fill_(m.abs().eq(kInfinity), 0);
  const at::Tensor sum = all_reduce((wide - m).exp().sum(dims, true), c.mesh(), axes);
  const at::Tensor nothing = sum.detach().eq(0);
  at::Tensor out =
      (sum.masked_fill(nothing, 1).log() + m).masked_fill(nothing, -kInfinity).to(x.scalar_type());
  if (!c.boolean("keepdim", false)) out = out.squeeze(dims);
  c.finish({out});
}

constexpr HandlerEntry kSoftmax[] = {
    {"log_softmax", log_softmax},
    {"logsumexp", logsumexp},
    {"softmax", softmax},
};

}  // namespace

std::span<const HandlerEntry> softmax_entries() { return kSoftmax; }

}  // namespace hyper_parallel::torch_layer::handlers
