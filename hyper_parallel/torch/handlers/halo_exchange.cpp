#include "hyper_parallel/torch/handlers/halo_exchange.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/comm/exchange.h"
#include "hyper_parallel/torch/comm/record.h"
#include "hyper_parallel/torch/comm/wire.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "hyper_parallel/torch/ranks/rank_state.h"
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

at::Tensor with_rows(const at::Tensor& like, int dim, std::int64_t rows) {
  auto shape = like.sizes().vec();
  shape[static_cast<std::size_t>(dim)] = rows;
  return at::empty(shape, like.options(), like.suggest_memory_format()).zero_();
}

// The own rows for others, the dim of the halo in front.
at::Tensor given_rows(const Halo& h, const at::Tensor& x) {
  const at::Tensor front = x.movedim(h.dim, 0);
  std::vector<at::Tensor> given;
  for (const Interval& i : h.gives) given.push_back(front.narrow(0, i.begin, i.size()));
  return at::cat(given);
}

at::Tensor block_of(const Halo& h, const at::Tensor& x, const at::Tensor& taken) {
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

// The cotangents of fetched rows, the dim of the halo in front.
at::Tensor fetched_rows(const Halo& h, const at::Tensor& grad) {
  const std::int64_t lower = total({h.takes.begin(), h.takes.begin() + h.me});
  const std::int64_t upper = total(h.takes) - lower;
  const at::Tensor front = grad.movedim(h.dim, 0);
  return at::cat(
      {front.narrow(0, h.before, lower), front.narrow(0, h.before + lower + h.kept.size(), upper)});
}

at::Tensor own_sum(const Halo& h, const at::Tensor& grad, const at::Tensor& back) {
  const std::int64_t lower = total({h.takes.begin(), h.takes.begin() + h.me});
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

// Fetches rows; transposed it sends the cotangents of fetched rows back.
class HaloExchange final : public Exchange {
 public:
  HaloExchange(std::shared_ptr<const Halo> halo, bool transposed)
      : halo_(std::move(halo)), transposed_(transposed) {}

  std::string_view kind() const override { return "all_to_all"; }
  const Mesh* mesh() const override { return halo_->mesh; }
  const std::vector<int>& axes() const override { return halo_->axes; }
  double bytes(const at::Tensor& x) const override {
    return static_cast<double>(halo_->most_rows) * static_cast<double>(row_numel(x)) *
           static_cast<double>(x.element_size());
  }
  ExchangePtr transposed() const override {
    return std::make_shared<HaloExchange>(halo_, !transposed_);
  }

  std::unique_ptr<Flight> issue(const at::Tensor& x) const override {
    const Halo& h = *halo_;
    const at::Tensor rows = transposed_ ? fetched_rows(h, x) : given_rows(h, x);
    const auto given = lengths(h.gives);
    const auto& sent = transposed_ ? h.takes : given;
    const auto& received = transposed_ ? given : h.takes;
    std::optional<wire::Sent> trade;
    at::Tensor none;
    if (row_numel(x) == 0) {
      auto shape = rows.sizes().vec();
      shape[0] = total(received);
      none = at::zeros(shape, x.options());
    } else {
      note_collective(kind(), h.mesh, h.axes, meta_of(rows), bytes(x));
      trade.emplace(wire::all_to_all(rows, {received.begin(), received.end()},
                                     {sent.begin(), sent.end()}, group_along(h.mesh, h.axes)));
    }
    return std::make_unique<Trade>(halo_, transposed_, x, std::move(trade), std::move(none));
  }

 private:
  class Trade final : public Flight {
   public:
    Trade(std::shared_ptr<const Halo> halo, bool transposed, const at::Tensor& x,
          std::optional<wire::Sent> sent, at::Tensor none)
        : halo_(std::move(halo)),
          transposed_(transposed),
          x_(x),
          sent_(std::move(sent)),
          none_(std::move(none)) {}
    at::Tensor land() override {
      const at::Tensor came = sent_ ? sent_->wait() : none_;
      return transposed_ ? own_sum(*halo_, x_, came) : block_of(*halo_, x_, came);
    }

   private:
    std::shared_ptr<const Halo> halo_;
    bool transposed_;
    at::Tensor x_;
    std::optional<wire::Sent> sent_;
    at::Tensor none_;
  };

  std::int64_t row_numel(const at::Tensor& x) const {
    std::int64_t out = 1;
    for (std::int64_t d = 0; d < x.dim(); ++d) out *= d == halo_->dim ? 1 : x.size(d);
    return out;
  }

  std::shared_ptr<const Halo> halo_;
  bool transposed_;
};

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
  std::vector<std::int64_t> sent(static_cast<std::size_t>(ranks));
  for (int k = 0; k < ranks; ++k) {
    const auto there = member(out.mesh, out.axes, k);
    const Interval theirs = held(operand, dim, window.operand, there);
    const Interval needed = rules::rows_for(window, held(result, dim, window.result, there)).inside;
    out.moves |= common(needed, theirs).size() < needed.size();
    out.most_rows = std::max(out.most_rows, needed.size() - common(needed, theirs).size());
    for (int j = 0; j < ranks; ++j) {
      const Interval from = held(operand, dim, window.operand, member(out.mesh, out.axes, j));
      if (j != k) sent[static_cast<std::size_t>(j)] += common(needed, from).size();
    }
    Interval given{0, 0};
    if (const Interval i = common(needed, own); k != out.me && i.size() > 0) {
      given = {i.begin - own.begin, i.end - own.begin};
    }
    out.gives.push_back(given);
    out.takes.push_back(k == out.me ? 0 : common(out.rows.inside, theirs).size());
  }
  for (std::int64_t rows : sent) out.most_rows = std::max(out.most_rows, rows);
  return out;
}

}  // namespace

std::shared_ptr<const Halo> halo_of(const rules::Window& window, int dim, const Layout* operand,
                                    const Layout* result, bool padded) {
  constexpr std::size_t kMostHalos = 1 << 12;
  using Key = std::tuple<const Layout*, const Layout*, int, bool, std::array<std::int64_t, 7>>;
  struct Halos : std::map<Key, std::shared_ptr<const Halo>> {};
  Halos& known = PerRank<Halos>::get();
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
  if (halo->moves) return run(std::make_shared<HaloExchange>(halo, false), local);
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
