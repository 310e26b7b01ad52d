// Convolution and pooling where space is cut. A rank fetches the rows that its piece of the result
// reads (halo_exchange.h) and runs the op on them without padding there.

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>

#include "hyper_parallel/torch/handlers/halo_exchange.h"
#include "hyper_parallel/torch/handlers/internal.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

struct SplitDim {
  rules::Window window;
  std::shared_ptr<const Halo> halo;

  std::size_t dim() const { return static_cast<std::size_t>(halo->dim); }
};

// `padded`: see halo_of.
std::vector<SplitDim> cuts_of(const HandlerCall& c, std::string_view operand, bool padded) {
  std::vector<SplitDim> out;
  for (const auto& [dim, window] : c.windows()) {
    out.push_back({window, halo_of(window, dim, c.layout(operand), c.plan().outputs[0], padded)});
  }
  return out;
}

// Zero in the list argument `name`, which has one number a spatial dim or one for all, where a dim
// is cut. `first`: the first spatial dim.
void clear(HandlerCall& c, std::string_view name, const std::vector<SplitDim>& cuts,
           std::size_t first, std::size_t count) {
  std::vector<std::int64_t> values = c.integers(name);
  if (values.empty()) return;
  values.resize(count, values.front());
  for (const SplitDim& cut : cuts) values[cut.dim() - first] = 0;
  c.set(name, values);
}

// The results that belong to the own piece.
at::Tensor own_results(at::Tensor y, const std::vector<SplitDim>& cuts) {
  for (const SplitDim& cut : cuts) {
    const Halo& h = *cut.halo;
    if (h.rows.skip == 0 && y.size(h.dim) == h.piece.size()) continue;
    y = y.narrow(h.dim, h.rows.skip, h.piece.size());
  }
  return y;
}

// padding="same": what the extent of a window has more than one is padded, the odd one behind.
// Where a dim is cut that is done; here for the others, in the tensor itself.
at::Tensor padded_same(const HandlerCall& c, at::Tensor x, const std::vector<SplitDim>& cuts,
                       std::size_t first, std::size_t count) {
  const Shape& weight = c.sizes("weight");
  std::vector<std::int64_t> dilation = c.integers("dilation");
  dilation.resize(count, dilation.empty() ? 1 : dilation.front());
  std::vector<std::int64_t> pads;
  for (std::size_t i = count; i-- > 0;) {
    const bool cut = std::any_of(cuts.begin(), cuts.end(),
                                 [&](const SplitDim& cut) { return cut.dim() == first + i; });
    const std::int64_t more = cut ? 0 : dilation[i] * (weight[2 + i] - 1);
    pads.push_back(more / 2);
    pads.push_back(more - more / 2);
  }
  return at::constant_pad_nd(x, pads, 0);
}

void convolve(HandlerCall& c) {
  const std::size_t count = c.sizes("weight").size() - 2;
  const std::size_t first = c.sizes("input").size() - count;
  const std::vector<SplitDim> cuts = cuts_of(c, "input", true);
  at::Tensor x = c.tensor("input");
  for (const SplitDim& cut : cuts) x = fetch(cut.halo, x);
  const c10::IValue* padding = c.find("padding");
  if (padding != nullptr && padding->isString()) {
    if (padding->toStringRef() == "same") x = padded_same(c, x, cuts, first, count);
    c.set("padding", "valid");
  } else {
    clear(c, "padding", cuts, first, count);
    clear(c, "output_padding", cuts, first, count);
  }
  c.set("input", x);
  if (c.find("bias") != nullptr) {
    c.set("bias", counted_once(c.tensor("bias"), c.layout("bias"), c.plan().outputs[0], c.mesh()));
  }
  c.call();
  c.finish({own_results(c.result(), cuts)});
}

// How many elements of the window of each result an average counts along a dim, beside the kernel
// that the op counted. Undefined if that is right for all.
at::Tensor average_scale(const SplitDim& cut, bool with_padding, const at::Tensor& like) {
  const rules::Window& w = cut.window;
  const std::int64_t low = with_padding ? -w.padding : 0;
  const std::int64_t high = with_padding ? w.operand + w.padding : w.operand;
  std::vector<double> scales;
  bool all = true;
  for (std::int64_t o = cut.halo->piece.begin; o < cut.halo->piece.end; ++o) {
    const std::int64_t begin = o * w.stride - w.padding;
    const std::int64_t counted = std::min(begin + w.kernel, high) - std::max(begin, low);
    all &= counted == w.kernel;
    scales.push_back(static_cast<double>(w.kernel) / static_cast<double>(counted));
  }
  if (all) return {};
  Shape shape(static_cast<std::size_t>(like.dim()), 1);
  shape[cut.dim()] = static_cast<std::int64_t>(scales.size());
  return at::tensor(scales, like.options()).view(shape);
}

void average(HandlerCall& c, std::size_t count) {
  const std::size_t first = c.sizes("self").size() - count;
  const std::vector<SplitDim> cuts = cuts_of(c, "self", true);
  at::Tensor x = c.tensor("self");
  for (const SplitDim& cut : cuts) x = fetch(cut.halo, x);
  const bool own_divisor = c.find("divisor_override") != nullptr;
  const bool with_padding = c.boolean("count_include_pad", true);
  c.set("self", x);
  clear(c, "padding", cuts, first, count);
  c.call();
  at::Tensor y = own_results(c.result(), cuts);
  for (const SplitDim& cut : cuts) {
    if (own_divisor) break;
    const at::Tensor wide = widened(y);
    const at::Tensor scale = average_scale(cut, with_padding, wide);
    if (scale.defined()) y = (wide * scale).to(y.scalar_type());
  }
  c.finish({y});
}

// For each row of the block the row of the operand that stands for it. Rows outside repeat the
// nearest row that a window with them reads too: a maximum does not change, and of equal values the
// first in the window still wins, which a number put there would not let it.
std::vector<std::int64_t> rows_of(const SplitDim& cut) {
  const rules::WindowRows& rows = cut.halo->rows;
  const std::int64_t step = cut.window.dilation;
  std::vector<std::int64_t> out;
  for (std::int64_t q = rows.block.begin; q < rows.block.end; ++q) {
    std::int64_t row = q;
    if (row < 0) row = (q % step + step) % step;
    if (row >= cut.window.operand) {
      row -= (row - cut.window.operand + step) / step * step;
    }
    out.push_back(std::clamp(row, rows.inside.begin, rows.inside.end - 1));
  }
  return out;
}

at::Tensor with_repeats(const SplitDim& cut, const at::Tensor& x) {
  const rules::WindowRows& rows = cut.halo->rows;
  if (cut.halo->piece.size() == 0 || rows.block == rows.inside) return x;
  const at::Tensor index =
      at::tensor(rows_of(cut), at::TensorOptions(at::kLong)).sub_(rows.inside.begin);
  return at::index_select(x, cut.halo->dim, index.to(x.device()))
      .contiguous(x.suggest_memory_format());
}

// From places in the local planes of `x` to places in global planes of `sizes`.
at::Tensor global_places(at::Tensor place, const at::Tensor& x, const std::vector<SplitDim>& cuts,
                         const Shape& sizes, std::size_t first) {
  at::Tensor out = at::zeros_like(place);
  std::int64_t stride = 1;
  for (std::size_t d = sizes.size(); d-- > first;) {
    const std::int64_t local = x.size(static_cast<std::int64_t>(d));
    at::Tensor at = place.remainder(local);
    place = place.floor_divide(local);
    for (const SplitDim& cut : cuts) {
      if (cut.dim() != d || cut.halo->piece.size() == 0) continue;
      const auto options = at::TensorOptions(at::kLong);
      at = at::tensor(rows_of(cut), options).to(place.device()).take(at);
    }
    out = out + at * stride;
    stride *= sizes[d];
  }
  return out;
}

// Leave the own results, with places in the global tensor. `x`: what the op was run on.
void finish_pool(HandlerCall& c, const at::Tensor& x, const std::vector<SplitDim>& cuts,
                 std::size_t first) {
  const at::Tensor y = own_results(c.result(), cuts);
  if (c.returns() == 1) return c.finish({y});
  const at::Tensor places = own_results(c.result(1), cuts);
  c.finish({y, global_places(places, x, cuts, c.sizes("self"), first)});
}

void maximum(HandlerCall& c, std::size_t count) {
  const std::size_t first = c.sizes("self").size() - count;
  const std::vector<SplitDim> cuts = cuts_of(c, "self", false);
  at::Tensor x = c.tensor("self");
  for (const SplitDim& cut : cuts) x = fetch(cut.halo, x);
  for (const SplitDim& cut : cuts) x = with_repeats(cut, x);
  c.set("self", x);
  clear(c, "padding", cuts, first, count);
  c.call();
  finish_pool(c, x, cuts, first);
}

// Windows of one length, side by side: as many as the own piece of the result has. Of a mean over a
// whole dim that is cut, the own part's share.
void adaptive(HandlerCall& c, std::size_t count) {
  const std::size_t first = c.sizes("self").size() - count;
  std::vector<std::int64_t> sizes = c.integers("output_size");
  sizes.resize(count, sizes.front());
  const std::vector<SplitDim> cuts = cuts_of(c, "self", false);
  at::Tensor x = c.tensor("self");
  double share = 1;
  for (std::size_t d = first; d < first + count; ++d) {
    const bool window =
        std::any_of(cuts.begin(), cuts.end(), [d](const SplitDim& cut) { return cut.dim() == d; });
    if (window) continue;
    share *= static_cast<double>(x.size(static_cast<std::int64_t>(d))) /
             static_cast<double>(c.sizes("self")[d]);
  }
  for (const SplitDim& cut : cuts) {
    x = fetch(cut.halo, x);
    sizes[cut.dim() - first] = std::max<std::int64_t>(cut.halo->piece.size(), 1);
  }
  c.set("self", x);
  c.set("output_size", sizes);
  c.call();
  if (share == 1) return finish_pool(c, x, cuts, first);
  const at::Tensor y = own_results(c.result(), cuts);
  c.finish({(widened(y) * share).to(y.scalar_type())});
}

// True if the scales that the caller gave, if any, are those that the sizes make. No plan depends
// on them: they are numbers.
bool scales_fit(const HandlerCall& c, const std::vector<SplitDim>& cuts, std::size_t first,
                std::size_t count) {
  constexpr std::array<std::string_view, 3> kNames = {"scales_d", "scales_h", "scales_w"};
  return std::all_of(cuts.begin(), cuts.end(), [&](const SplitDim& cut) {
    const auto times = static_cast<double>(cut.window.stride);
    const std::size_t at = cut.dim() - first + kNames.size() - count;
    return c.number(count == 1 ? "scales" : kNames[at], times) == times;
  });
}

// Each index some times. With scales of the caller's own an index is read elsewhere: the whole is
// gathered then, and the own part kept.
void repeat(HandlerCall& c, std::size_t count) {
  const std::size_t first = c.sizes("self").size() - count;
  const std::vector<SplitDim> cuts = cuts_of(c, "self", false);
  at::Tensor x = c.tensor("self");
  if (!scales_fit(c, cuts, first, count)) {
    const Layout* whole = c.layout("self");
    for (const SplitDim& cut : cuts) {
      for (int axis : cut.halo->axes) whole = whole->with(axis, Placement::replicate());
    }
    c.set("self", move(x, c.layout("self"), whole, c.sizes("self")));
    c.call();
    at::Tensor y = c.result();
    for (const SplitDim& cut : cuts) {
      y = y.narrow(cut.halo->dim, cut.halo->piece.begin, cut.halo->piece.size());
    }
    return c.finish({y});
  }
  std::vector<std::int64_t> sizes = c.integers("output_size");
  sizes.resize(count, sizes.front());
  for (const SplitDim& cut : cuts) {
    x = fetch(cut.halo, x);
    sizes[cut.dim() - first] = x.size(cut.halo->dim) * cut.window.stride;
  }
  c.set("self", x);
  c.set("output_size", sizes);
  c.call();
  c.finish({own_results(c.result(), cuts)});
}

void halo(HandlerCall& c) {
  using Window = rules::RowOptions::Window;
  const auto count = static_cast<std::size_t>(c.options().spatial);
  // A row in letters is one of a convolution.
  switch (c.options().window.value_or(Window::convolve)) {
    case Window::convolve:
      return convolve(c);
    case Window::average:
      return average(c, count);
    case Window::maximum:
      return maximum(c, count);
    case Window::adaptive:
      return adaptive(c, count);
    case Window::repeat:
      return repeat(c, count);
  }
}

constexpr HandlerEntry kHalo[] = {
    {"halo", halo},
};

}  // namespace

std::span<const HandlerEntry> halo_entries() { return kHalo; }

}  // namespace hyper_parallel::torch_layer::handlers
