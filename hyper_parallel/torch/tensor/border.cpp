#include "hyper_parallel/torch/tensor/border.h"

#include <ATen/ops/mul.h>

#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/torch/base/dtype.h"
#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer {
namespace {

/// From one layout to another, times a factor, with the value kept.
struct Way {
  const Layout* from;
  const Layout* to;
  double factor = 1;
  bool shares = true;  // R -> P(sum) is 1 / n on each rank, else a step of the plan
};

/// `layout` with P(avg) made P(sum): what local values are to the graph, whose cotangents have the
/// factor 1 / n in them.
const Layout* summed(const Layout* layout) {
  const Mesh* mesh = layout->mesh();
  std::vector<std::optional<ReduceOp>> partials(static_cast<std::size_t>(mesh->ndim()));
  for (int axis = 0; axis < mesh->ndim(); ++axis) {
    const Placement p = layout->placement(axis);
    if (!p.is_partial()) continue;
    partials[static_cast<std::size_t>(axis)] = p.op() == ReduceOp::avg ? ReduceOp::sum : p.op();
  }
  return Layout::get(mesh, layout->splits(), partials);
}

/// 1 / n for each axis that is P(avg) in `from` and no longer in `to`.
double reduced_share(const Layout* from, const Layout* to) {
  double out = 1;
  for (int axis = 0; axis < from->mesh()->ndim(); ++axis) {
    if (!from->placement(axis).is_partial(ReduceOp::avg)) continue;
    const bool stays = to->mesh() == from->mesh() && to->placement(axis).is_partial(ReduceOp::avg);
    if (!stays) out /= from->mesh()->size(axis);
  }
  return out;
}

/// The layout to move to, and what is left to do by a factor, where R -> P(sum) takes 1 / n.
std::pair<const Layout*, double> kept(const Layout* from, const Layout* to) {
  const Mesh* mesh = to->mesh();
  std::vector<std::optional<ReduceOp>> partials(static_cast<std::size_t>(mesh->ndim()));
  std::int64_t copies = 1;
  for (int axis = 0; axis < mesh->ndim(); ++axis) {
    if (!to->placement(axis).is_partial()) continue;
    const bool already = from->mesh() == mesh && from->placement(axis).is_partial();
    if (already) {
      partials[static_cast<std::size_t>(axis)] = from->placement(axis).op();
    } else {
      copies *= mesh->size(axis);
    }
  }
  return {Layout::get(mesh, to->splits(), partials), 1.0 / static_cast<double>(copies)};
}

/// One crossing of the border: its way, the way of its backward pass, and that of the backward
/// pass's own, which is the first one but where plain code first gave pending sums.
class Border final : public Exchange {
 public:
  Border(Way way, Way back, Way again, const Shape& sizes)
      : way_(way), back_(back), again_(again), sizes_(sizes) {
    for (int axis = 0; axis < way.from->mesh()->ndim(); ++axis) axes_.push_back(axis);
  }

  std::string_view kind() const override { return "border"; }
  const Mesh* mesh() const override { return way_.from->mesh(); }
  const std::vector<int>& axes() const override { return axes_; }
  double bytes(const at::Tensor& x) const override {
    const ExchangePtr move = move_of(x);
    return move == nullptr ? 0 : move->bytes(x);
  }
  ExchangePtr transposed() const override {
    return std::make_shared<Border>(back_, again_, back_, sizes_);
  }

  bool keeps(const at::Tensor& x) const override { return factor() == 1 && move_of(x) == nullptr; }

  std::unique_ptr<Flight> issue(const at::Tensor& x) const override {
    const ExchangePtr move = move_of(x);
    return std::make_unique<Crossing>(move == nullptr ? nullptr : move->issue(x), x, factor());
  }

 private:
  class Crossing final : public Flight {
   public:
    Crossing(std::unique_ptr<Flight> move, const at::Tensor& x, double factor)
        : move_(std::move(move)), x_(x), factor_(factor) {}
    at::Tensor land() override {
      const at::Tensor out = move_ ? move_->land() : x_;
      return factor_ == 1 ? out : at::mul(out, factor_);
    }

   private:
    std::unique_ptr<Flight> move_;
    at::Tensor x_;
    double factor_;
  };

  double factor() const {
    return way_.shares ? way_.factor * kept(way_.from, way_.to).second : way_.factor;
  }

  ExchangePtr move_of(const at::Tensor& x) const {
    const Layout* target = way_.shares ? kept(way_.from, way_.to).first : way_.to;
    if (target == way_.from) return nullptr;
    return exchange_of(plan::redistribute(way_.from, target, {sizes_, dtype_of(x.scalar_type())}));
  }

  const Way way_;
  const Way back_;
  const Way again_;
  const Shape sizes_;
  std::vector<int> axes_;
};

}  // namespace

ExchangePtr border_way_in(const Layout* layout, const Layout* gradient, const Shape& sizes) {
  const Layout* dual = layout->dual();
  return std::make_shared<Border>(Way{layout, layout}, Way{dual, gradient},
                                  Way{whole_gradient(layout), dual->dual()}, sizes);
}

ExchangePtr border_way_out(const Layout* from, const Layout* target, const Layout* gradient,
                           const Shape& sizes) {
  const double share = reduced_share(from, target);
  return std::make_shared<Border>(Way{from, target, 1, false}, Way{gradient, from->dual(), share},
                                  Way{summed(from), summed(target), share}, sizes);
}

at::Tensor convert_cotangent(const at::Tensor& local, const Layout* from, const Layout* to,
                             c10::IntArrayRef sizes) {
  if (from == to) return local;
  const auto [target, factor] = kept(from, to);
  const at::Tensor out = move(local, from, target, sizes);
  return factor == 1 ? out : at::mul(out, factor);
}

const Layout* whole_gradient(const Layout* layout) { return layout->reduced(); }

at::Tensor local_cotangent(const at::Tensor& gradient, const Layout* layout,
                           c10::IntArrayRef sizes) {
  if (!is_dtensor(gradient)) {
    const Layout* whole = Layout::replicated(layout->mesh());
    const Shape shape(sizes.begin(), sizes.end());
    return run(border_way_out(layout, whole, whole, shape)->transposed(), gradient);
  }
  const at::Tensor out = convert_cotangent(local_for_use(gradient), impl_of(gradient)->layout(),
                                           layout->dual(), sizes);
  const double factor = gradient_factor(layout);
  return factor == 1 ? out : at::mul(out, 1 / factor);
}

double gradient_factor(const Layout* layout) {
  return 1 / reduced_share(layout, Layout::replicated(layout->mesh()));
}

}  // namespace hyper_parallel::torch_layer
