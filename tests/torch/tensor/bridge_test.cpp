// The borders of plain code: derivatives of any order equal one device.

#include "hyper_parallel/torch/tensor/bridge.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <torch/csrc/autograd/autograd.h>

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/face/api.h"
#include "tests/support/on_ranks.h"

namespace hyper_parallel::torch_layer {
namespace {

using test::on_ranks;
using Tensors = std::vector<at::Tensor>;

at::Tensor drawn(const Shape& shape, double seed) {
  return (at::arange(product(shape), at::kDouble) * 0.7 + seed).sin().view(shape);
}

at::Tensor grad(const at::Tensor& y, const at::Tensor& x) {
  return torch::autograd::grad({y}, {x}, {}, std::nullopt, true)[0];
}

/// The loss and gradients of three orders by `x`; `leave` is what happens to the product.
template <class Leave>
Tensors orders(const at::Tensor& x, const at::Tensor& w, Leave leave) {
  const at::Tensor y = leave(x.mm(w));
  const at::Tensor loss = (y.sin() * y).sum();
  const at::Tensor one = grad(loss, x);
  const at::Tensor two = grad(one.square().sum(), x);
  return {loss, one, two, grad((two * two * one).sum(), w)};
}

std::string first_wrong(const Tensors& given, const Tensors& wanted) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    const at::Tensor whole =
        is_dtensor(given[i]) ? hyper_parallel::full_tensor(given[i]) : given[i];
    if (!at::allclose(whole.detach(), wanted[i].detach(), 1e-11, 1e-10)) {
      return "order " + std::to_string(i);
    }
  }
  return "";
}

TEST_CASE("derivatives across the border") {
  const at::Tensor x = drawn({4, 5}, 1);
  const at::Tensor w = drawn({5, 3}, 2);
  const Tensors want = orders(x.clone().requires_grad_(), w.clone().requires_grad_(),
                              [](const at::Tensor& y) { return y; });
  struct Case {
    int ranks;
    const char* x;  // null: plain
    const char* w;
  };
  const std::vector<Case> cases = {
      {3, "a=3: S(1)", "a=3: S(0)"},
      {3, "a=3: S(0)", "a=3: R"},
      {3, "a=3: R", "a=3: S(1)"},
      {3, nullptr, "a=3: S(0)"},
      {3, nullptr, "a=3: R"},
      {4, "a=2 b=2: S(1) S(0)", "a=2 b=2: S(0) R"},
      {4, "a=2 b=2: R S(1)", "a=2 b=2: R S(0)"},
      {4, nullptr, "a=2 b=2: S(1) S(0)"},
  };
  for (const Case& each : cases) {
    on_ranks(each.ranks, [&]() -> std::string {
      const Layout* lw = parse_layout(each.w);
      const Layout* lx = each.x == nullptr ? nullptr : parse_layout(each.x);
      const Layout* whole = Layout::replicated(lw->mesh());
      const auto inputs = [&] {
        return Tensors{(lx == nullptr ? x.clone() : distribute_tensor(x, lx)).requires_grad_(),
                       distribute_tensor(w, lw).requires_grad_()};
      };
      const auto check = [&](const char* name, auto leave) {
        const Tensors in = inputs();
        const std::string wrong = first_wrong(orders(in[0], in[1], leave), want);
        return wrong.empty() ? "" : std::string(name) + ", " + each.w + ": " + wrong;
      };
      std::string wrong = check("inside", [](const at::Tensor& y) { return y; });
      if (wrong.empty()) {
        wrong = check("full_tensor", [](const at::Tensor& y) { return full_tensor(y); });
      }
      if (wrong.empty()) {
        wrong = check("gradient in R", [&](const at::Tensor& y) { return full_tensor(y, whole); });
      }
      if (wrong.empty()) {
        wrong = check("out and in", [&](const at::Tensor& y) {
          return hyper_parallel::from_local(full_tensor(y), whole);
        });
      }
      return wrong;
    });
  }
}

TEST_CASE("a crossing and its adjoint") {
  const Layout* whole = parse_layout("a=2: R");
  const Layout* sum = parse_layout("a=2: P(sum)");
  on_ranks(2, [&]() -> std::string {
    const at::Tensor ones = drawn({3}, 0);
    const ExchangePtr in = border_way_in(whole, whole, {3});
    // In(R -> R; R): as it is. Backward P -> R: the sum. Its backward: as it is.
    if (!at::allclose(run(in, ones), ones)) return "in";
    if (!at::allclose(run(in->transposed(), ones), 2 * ones)) return "gradient of in";
    if (!at::allclose(run(in->transposed()->transposed(), ones), ones)) return "and of that";
    // Out(R -> R; R): as it is. Backward R -> P: one half each.
    const ExchangePtr out = border_way_out(whole, whole, whole, {3});
    if (!at::allclose(run(out->transposed(), ones), 0.5 * ones)) return "gradient of out";
    // Out(P -> R; R): the sum. Backward: as it is.
    const ExchangePtr reduced = border_way_out(sum, whole, whole, {3});
    if (!at::allclose(run(reduced, ones), 2 * ones)) return "out of a sum";
    return at::allclose(run(reduced->transposed(), ones), ones) ? "" : "gradient of that";
  });
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
