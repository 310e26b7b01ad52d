// Gradients of leaves: at the end of a pass, or by the unit as soon as they are ready.

#include "hyper_parallel/torch/tensor/grad_finish.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <string>
#include <vector>

#include "hyper_parallel/torch/face/api.h"
#include "hyper_parallel/torch/ranks/rank_state.h"
#include "tests/support/doctest.h"

namespace hyper_parallel::torch_layer {
namespace {

const Mesh* mesh() { return Mesh::get({2}, {"dp"}); }

at::Tensor leaf(double value, const Layout* layout) {
  at::Tensor t = distribute_tensor(at::full({4, 4}, value, at::kDouble), layout);
  return t.set_requires_grad(true);
}

at::Tensor rows() {
  return distribute_tensor(at::ones({4, 4}, at::kDouble),
                           Layout::get(mesh(), std::vector<Placement>{Placement::shard(0)}));
}

/// Finishes a unit when the last of its leaves is ready, and what is left at the end.
struct Unit final : GradFinisher {
  Unit(std::string name, std::vector<at::Tensor> leaves, std::vector<std::string>& log)
      : name(std::move(name)), leaves(std::move(leaves)), log(log) {}

  void expect(const at::Tensor& /*leaf*/) override { log.push_back("expect " + name); }
  void ready(const at::Tensor& /*leaf*/) override {
    log.push_back("ready " + name);
    if (++count == leaves.size()) fire("fire ");
  }
  void finish() override {
    if (count > 0) fire("rest ");
    log.push_back("end " + name);
  }
  void fire(const char* when) {
    log.push_back(when + name);
    finish_gradients(leaves);
    count = 0;
  }

  std::string name;
  std::vector<at::Tensor> leaves;
  std::vector<std::string>& log;
  std::size_t count = 0;
};

TEST_SUITE("GradFinisher") {
  TEST_CASE("TheDefaultFinishesAtTheEndOfThePass") {
    run_local(2, [] {
      const at::Tensor w = leaf(2, Layout::replicated(mesh()));
      for (const double want : {4.0, 8.0}) {
        rows().matmul(w).sum().backward();
        CHECK(layout_of(w.grad()) == layout_of(w));
        CHECK(full_tensor(w.grad()).allclose(at::full({4, 4}, want, at::kDouble)));
      }
    });
  }

  TEST_CASE("SumsStayPendingWithoutSync") {
    run_local(2, [] {
      const at::Tensor w = leaf(2, Layout::replicated(mesh()));
      change_settings().grad_sync = false;
      rows().matmul(w).sum().backward();
      CHECK(layout_of(w.grad()) == layout_of(w)->dual());
      change_settings().grad_sync = true;
      rows().matmul(w).sum().backward();
      CHECK(layout_of(w.grad()) == layout_of(w));
      CHECK(full_tensor(w.grad()).allclose(at::full({4, 4}, 8.0, at::kDouble)));
    });
  }

  TEST_CASE("AUnitFiresWhenItsLeavesAreReady") {
    run_local(2, [] {
      const Layout* whole = Layout::replicated(mesh());
      const at::Tensor a = leaf(1, whole);
      const at::Tensor b = leaf(2, whole);
      const at::Tensor c = leaf(3, whole);
      const at::Tensor plain = leaf(1, whole);
      std::vector<std::string> log;
      const auto first = std::make_shared<Unit>("1", std::vector{a}, log);
      const auto second = std::make_shared<Unit>("2", std::vector{b, c}, log);
      set_grad_finisher(a, first);
      set_grad_finisher(b, second);
      set_grad_finisher(c, second);
      for (int pass = 1; pass <= 2; ++pass) {
        log.clear();
        rows().matmul(plain).matmul(a).matmul(b).matmul(c).sum().backward();
        // The second unit is done before the first one's gradient comes.
        CHECK(log == std::vector<std::string>{"expect 2", "ready 2", "expect 2", "ready 2",
                                              "fire 2", "expect 1", "ready 1", "fire 1", "end 2",
                                              "end 1"});
        for (const at::Tensor& t : {a, b, c, plain}) CHECK(layout_of(t.grad()) == whole);
        // ones . 1 . 1 . 2 . 3, each product of 4 terms.
        CHECK(full_tensor(c.grad()).allclose(
            at::full({4, 4}, 4.0 * 4 * 4 * 4 * 2 * pass, at::kDouble)));
        CHECK(full_tensor(a.grad()).allclose(
            at::full({4, 4}, 4.0 * 4 * 4 * 4 * 6 * pass, at::kDouble)));
      }
    });
  }

  TEST_CASE("WhatIsNotUsedIsFinishedAtTheEnd") {
    run_local(2, [] {
      const at::Tensor a = leaf(1, Layout::replicated(mesh()));
      const at::Tensor b = leaf(2, Layout::replicated(mesh()));
      std::vector<std::string> log;
      const auto unit = std::make_shared<Unit>("1", std::vector{a, b}, log);
      set_grad_finisher(a, unit);
      set_grad_finisher(b, unit);
      rows().matmul(a).sum().backward();
      CHECK(log == std::vector<std::string>{"expect 1", "ready 1", "rest 1", "end 1"});
      CHECK(full_tensor(a.grad()).allclose(at::full({4, 4}, 4.0, at::kDouble)));
      CHECK(layout_of(a.grad()) == layout_of(a));
      CHECK_FALSE(b.grad().defined());
    });
  }

  TEST_CASE("AUseTwiceIsReadyOnce") {
    run_local(2, [] {
      const at::Tensor a = leaf(1, Layout::replicated(mesh()));
      std::vector<std::string> log;
      set_grad_finisher(a, std::make_shared<Unit>("1", std::vector{a}, log));
      (rows().matmul(a) + rows().matmul(a)).sum().backward();
      CHECK(log == std::vector<std::string>{"expect 1", "expect 1", "ready 1", "fire 1", "end 1"});
      CHECK(full_tensor(a.grad()).allclose(at::full({4, 4}, 8.0, at::kDouble)));
    });
  }

  // A gradient of a pending leaf that is pending itself, with terms on both ranks.
  TEST_CASE("APendingGradientIsNotTakenForAWholeOne") {
    run_local(2, [] {
      const Layout* sum = Layout::replicated(mesh())->dual();
      const at::Tensor w = from_local(at::full({4}, 0.5, at::kDouble), sum);
      w.set_requires_grad(true);
      w.mutable_grad() = from_local(at::full({4}, 5.0, at::kDouble), sum);
      (w * 2).sum().backward();
      CHECK(layout_of(w.grad()) == sum);
      CHECK(full_tensor(w.grad()).allclose(at::full({4}, 12.0, at::kDouble)));
    });
  }

  TEST_CASE("APassThatFailsLeavesNothingBehind") {
    run_local(2, [] {
      const at::Tensor w = leaf(2, Layout::replicated(mesh()));
      at::Tensor x = rows();
      x.set_requires_grad(true);
      x.register_hook([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("hook"); });
      CHECK_THROWS(x.matmul(w).sum().backward());
      w.mutable_grad() = at::Tensor();
      rows().matmul(w).sum().backward();
      CHECK(full_tensor(w.grad()).allclose(at::full({4, 4}, 4.0, at::kDouble)));
    });
  }
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
