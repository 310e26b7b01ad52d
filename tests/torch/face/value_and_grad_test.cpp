// Values and gradients of a step, with weights of the outputs.

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/face/api.h"
#include "hyper_parallel/torch/ranks/ranks.h"
#include "tests/support/doctest.h"

namespace hyper_parallel {
namespace {

using torch_layer::run_local;

const Mesh* mesh() { return Mesh::get({2}, {"dp"}); }
const Layout* whole() { return Layout::replicated(mesh()); }

at::Tensor values() { return at::arange(16, at::kDouble).view({4, 4}).sin(); }

at::Tensor rows() {
  return distribute_tensor(values(),
                           Layout::get(mesh(), std::vector<Placement>{Placement::shard(0)}));
}

std::vector<at::Tensor> outputs(const at::Tensor& x, const at::Tensor& w) {
  const at::Tensor y = x.matmul(w);
  return {y.square().sum(), y, y.sum()};
}

template <class Call>
std::string code_of(Call call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.code();
  }
  return "no error";
}

TEST_SUITE("ValueAndGrad") {
  TEST_CASE("GradientsAreThoseOfOneDevice") {
    using Sens = std::optional<std::vector<double>>;
    for (const Sens& sens : {Sens(), Sens({0.5, 0.0, 2.0}), Sens({1.0, 1.0, 1.0})}) {
      const at::Tensor one = at::ones({4, 4}, at::kDouble).set_requires_grad(true);
      const ValuesAndGrad want =
          value_and_grad([&] { return outputs(values(), one); }, {one}, sens);
      const at::Tensor total = [&] {
        const auto o = outputs(values(), one);
        const std::vector<double> s = sens.value_or(std::vector<double>{1, 0, 0});
        return o[0] * s[0] + o[1].sum() * s[1] + o[2] * s[2];
      }();
      total.backward();
      CHECK(want.grads[0].allclose(one.grad()));
      run_local(2, [&] {
        const at::Tensor w =
            distribute_tensor(at::ones({4, 4}, at::kDouble), whole()).set_requires_grad(true);
        const ValuesAndGrad got = value_and_grad([&] { return outputs(rows(), w); }, {w}, sens);
        CHECK(layout_of(got.grads[0]) == whole());
        CHECK(full_tensor(got.grads[0]).allclose(want.grads[0]));
        for (std::size_t i = 0; i < 3; ++i) {
          CHECK(full_tensor(got.values[i].detach()).allclose(want.values[i].detach()));
        }
        CHECK_FALSE(w.grad().defined());
      });
    }
  }

  TEST_CASE("AReplicatedValueCountsOnce") {
    run_local(2, [] {
      const at::Tensor w =
          distribute_tensor(at::ones({}, at::kDouble), whole()).set_requires_grad(true);
      const ValueAndGrad got = value_and_grad([&] { return w * 3; }, {w});
      CHECK(full_tensor(got.grads[0]).item<double>() == 3);
    });
  }

  TEST_CASE("GradStaysAsItWas") {
    const at::Tensor w = at::ones({2}, at::kDouble).set_requires_grad(true);
    const at::Tensor unused = at::ones({3}, at::kDouble).set_requires_grad(true);
    w.mutable_grad() = at::full({2}, 7.0, at::kDouble);
    const ValueAndGrad got = value_and_grad([&] { return (w * 2).sum(); }, {w, unused});
    CHECK(got.grads[0].allclose(at::full({2}, 2.0, at::kDouble)));
    CHECK(got.grads[1].allclose(at::full({3}, 0.0, at::kDouble)));
    CHECK(w.grad().allclose(at::full({2}, 7.0, at::kDouble)));
    w.register_hook([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("hook"); });
    CHECK_THROWS(value_and_grad([&] { return (w * 2).sum(); }, {w}));
    CHECK(w.grad().allclose(at::full({2}, 7.0, at::kDouble)));
  }

  TEST_CASE("WhatDoesNotFitIsRefused") {
    const at::Tensor w = at::ones({2}).set_requires_grad(true);
    const std::vector<double> one{1};
    const auto list = [&] { return std::vector<at::Tensor>{w.sum(), w}; };
    CHECK(code_of([&] { value_and_grad(list, {w.detach()}); }) == "HP-G010");
    CHECK(code_of([&] { value_and_grad(list, {w * 2}); }) == "HP-G010");
    CHECK(code_of([&] { value_and_grad(list, {at::Tensor()}); }) == "HP-G010");
    CHECK(code_of([&] { value_and_grad([&] { return std::vector{w.sum()}; }, {w}, one); }) ==
          "HP-G012");
    CHECK(code_of([&] { value_and_grad(list, {w}, one); }) == "HP-G013");
    CHECK(code_of([&] { value_and_grad([&] { return w.detach().sum(); }, {w}); }) == "HP-G014");
    CHECK(code_of([&] {
            value_and_grad([&] { return std::vector{w.sum(), at::Tensor()}; }, {w},
                           std::vector<double>{1, 1});
          }) == "HP-G014");
  }
}

}  // namespace
}  // namespace hyper_parallel
