#include "hyper_parallel/torch/handlers/halo_exchange.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/comm/cause.h"
#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/comm/collectives.h"
#include "hyper_parallel/torch/comm/record.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "hyper_parallel/torch/ranks/ranks.h"
#include "hyper_parallel/torch/tensor/dtensor.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

// What the rank at `coordinate` holds: one interval, though a layout may name it in parts.
Interval held(const Layout* layout, int dim, std::int64_t size,
              const std::vector<int>& coordinate) {
  Interval out{0, 0};
  for (const Interval& i : local_intervals(layout, dim, size, coordinate)) {
    if (i.size() == 0) continue;
    check_internal(out.size() == 0 || out.end == i.begin, "halo: a piece in several parts");
    if (out.size() == 0) out.begin = i.begin;
    out.end = i.end;
  }
  return out;
}

Interval common(Interval a, Interval b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// The coordinate of rank `k` of the group along `axes`.
std::vector<int> member(const Mesh* mesh, const std::vector<int>& axes, int k) {
  std::vector<int> out = my_coordinate(mesh);
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    out[static_cast<std::size_t>(*axis)] = k % mesh->size(*axis);
    k /= mesh->size(*axis);
  }
  return out;
}

std::int64_t total(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::vector<std::int64_t> lengths(const std::vector<Interval>& intervals) {
  std::vector<std::int64_t> out;
  for (const Interval& i : intervals) out.push_back(i.size());
  return out;
}

// `sent` and `received`: rows by rank. `x` has the dim of the halo in front.
at::Tensor trade(const Halo& h, const at::Tensor& x, const std::vector<std::int64_t>& received,
                 const std::vector<std::int64_t>& sent) {
  auto shape = x.sizes().vec();
  shape[0] = total(received);
  const std::int64_t rows = std::max(total(received), total(sent));
  const std::int64_t row = c10::multiply_integers(shape.begin() + 1, shape.end());
  if (row == 0) return at::zeros(shape, x.options());
  note_collective("all_to_all", h.mesh, h.axes, meta_of(x),
                  static_cast<double>(rows * row * x.element_size()));
  return all_to_all(x, {received.begin(), received.end()}, {sent.begin(), sent.end()},
                    group_along(h.mesh, h.axes));
}

at::Tensor with_rows(const at::Tensor& like, int dim, std::int64_t rows) {
  auto shape = like.sizes().vec();
  shape[static_cast<std::size_t>(dim)] = rows;
  return at::empty(shape, like.options(), like.suggest_memory_format()).zero_();
}

at::Tensor gather_rows(const Halo& h, const at::Tensor& x) {
  const at::Tensor front = x.movedim(h.dim, 0);
  std::vector<at::Tensor> given;
  for (const Interval& i : h.gives) given.push_back(front.narrow(0, i.begin, i.size()));
  const at::Tensor taken = trade(h, at::cat(given), h.takes, lengths(h.gives));
  const auto format = x.suggest_memory_format();
  std::vector<at::Tensor> parts;
  // Parts without rows have no memory format, and cat keeps that on which all agree.
  const auto add = [&](const at::Tensor& part) {
    if (part.size(h.dim) > 0) parts.push_back(part);
  };
  const std::int64_t lower = total({h.takes.begin(), h.takes.begin() + h.me});
  add(with_rows(x, h.dim, h.before));
  add(taken.narrow(0, 0, lower).movedim(0, h.dim).contiguous(format));
  add(x.narrow(h.dim, h.kept.begin, h.kept.size()));
  add(taken.narrow(0, lower, total(h.takes) - lower).movedim(0, h.dim).contiguous(format));
  add(with_rows(x, h.dim, h.after));
  return parts.empty() ? with_rows(x, h.dim, 0) : at::cat(parts, h.dim);
}

at::Tensor return_rows(const Halo& h, const at::Tensor& grad) {
  const std::int64_t lower = total({h.takes.begin(), h.takes.begin() + h.me});
  const std::int64_t upper = total(h.takes) - lower;
  const at::Tensor front = grad.movedim(h.dim, 0);
  const at::Tensor fetched = at::cat(
      {front.narrow(0, h.before, lower), front.narrow(0, h.before + lower + h.kept.size(), upper)});
  const at::Tensor back = trade(h, fetched, lengths(h.gives), h.takes);
  at::Tensor out = with_rows(grad, h.dim, h.own);
  out.narrow(h.dim, h.kept.begin, h.kept.size())
      .add_(grad.narrow(h.dim, h.before + lower, h.kept.size()));
  std::int64_t at = 0;
  for (const Interval& i : h.gives) {
    if (i.size() == 0) continue;
    out.narrow(h.dim, i.begin, i.size()).add_(back.narrow(0, at, i.size()).movedim(0, h.dim));
    at += i.size();
  }
  return out;
}

at::Tensor run(const std::shared_ptr<const Halo>& halo, const at::Tensor& x, bool transposed);

struct HaloBackward final : torch::autograd::Node {
  std::shared_ptr<const Halo> halo;
  bool transposed = false;  // what it runs
  std::string op;           // the cause of the forward step
  std::string reason;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    // A rank whose gradient is undefined must not skip the collective that others wait in.
    const at::Tensor grad = grads[0].defined() ? grads[0] : input_metadata(0).zeros_like();
    const CauseGuard guard(op, reason);
    return {run(halo, grad, transposed)};
  }

  std::string name() const override { return "HaloBackward"; }
};

at::Tensor run(const std::shared_ptr<const Halo>& halo, const at::Tensor& x, bool transposed) {
  at::Tensor out;
  {
    at::AutoDispatchBelowADInplaceOrView guard;
    out = transposed ? return_rows(*halo, x) : gather_rows(*halo, x);
  }
  if (torch::autograd::compute_requires_grad(x)) {
    auto node = c10::make_intrusive<HaloBackward>();
    node->halo = halo;
    node->transposed = !transposed;
    if (const Cause& cause = current_cause(); cause.op != nullptr) {
      node->op = *cause.op;
      node->reason = *cause.reason;
    }
    node->add_next_edge(torch::autograd::impl::gradient_edge(x));
    torch::autograd::set_history(out, node);
  }
  // Forward mode: the map is linear.
  const at::Tensor& tangent = x._fw_grad(0);
  if (tangent.defined()) out._set_fw_grad(run(halo, tangent, transposed), 0, false);
  return out;
}

Halo make_halo(const rules::Window& window, int dim, const Layout* operand, const Layout* result,
               bool padded) {
  Halo out;
  out.dim = dim;
  out.mesh = operand->mesh();
  out.axes = operand->axes(dim);
  out.me = group_index(out.mesh, out.axes);
  const auto& here = my_coordinate(out.mesh);
  const Interval own = held(operand, dim, window.operand, here);
  out.piece = held(result, dim, window.result, here);
  out.rows = rules::rows_for(window, out.piece);
  const Interval kept = common(out.rows.inside, own);
  out.own = own.size();
  if (kept.size() > 0) out.kept = {kept.begin - own.begin, kept.end - own.begin};
  if (padded || out.piece.size() == 0) {
    out.before = out.rows.inside.begin - out.rows.block.begin;
    out.after = out.rows.block.end - out.rows.inside.end;
  }
  const int ranks = out.mesh->size(out.axes);
  for (int k = 0; k < ranks; ++k) {
    const auto there = member(out.mesh, out.axes, k);
    const Interval theirs = held(operand, dim, window.operand, there);
    const Interval needed = rules::rows_for(window, held(result, dim, window.result, there)).inside;
    out.moves |= common(needed, theirs).size() < needed.size();
    Interval given{0, 0};
    if (const Interval i = common(needed, own); k != out.me && i.size() > 0) {
      given = {i.begin - own.begin, i.end - own.begin};
    }
    out.gives.push_back(given);
    out.takes.push_back(k == out.me ? 0 : common(out.rows.inside, theirs).size());
  }
  return out;
}

}  // namespace

std::shared_ptr<const Halo> halo_of(const rules::Window& window, int dim, const Layout* operand,
                                    const Layout* result, bool padded) {
  constexpr std::size_t kMostHalos = 1 << 12;
  using Key = std::tuple<const Layout*, const Layout*, int, bool, std::array<std::int64_t, 7>>;
  thread_local std::map<Key, std::shared_ptr<const Halo>> known;
  thread_local std::uint64_t generation = 0;
  if (const std::uint64_t now = context_generation(); generation != now) {
    known.clear();
    generation = now;
  }
  const Key key(operand, result, dim, padded,
                {window.operand, window.result, window.kernel, window.stride, window.padding,
                 window.dilation, window.transposed ? 1 : 0});
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  if (known.size() == kMostHalos) known.clear();
  auto made = std::make_shared<const Halo>(make_halo(window, dim, operand, result, padded));
  return known.emplace(key, std::move(made)).first->second;
}

at::Tensor fetch(const std::shared_ptr<const Halo>& halo, const at::Tensor& local) {
  if (halo->moves) return run(halo, local, false);
  at::Tensor out = local;
  if (halo->kept.size() != halo->own) {
    out = out.narrow(halo->dim, halo->kept.begin, halo->kept.size());
  }
  if (halo->before == 0 && halo->after == 0) return out;
  std::vector<std::int64_t> pads(static_cast<std::size_t>(2 * (local.dim() - halo->dim)), 0);
  pads[pads.size() - 2] = halo->before;
  pads[pads.size() - 1] = halo->after;
  return at::constant_pad_nd(out, pads, 0);
}

}  // namespace hyper_parallel::torch_layer::handlers
