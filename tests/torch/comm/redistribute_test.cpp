// Plans run on tensors by ranks that are threads, against the simulator, gradients included.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/ranks/ranks.h"
#include "tests/support/on_ranks.h"
#include "tests/support/simulator.h"

namespace hyper_parallel::torch_layer {
namespace {

using test::on_ranks;
using PlanPtr = std::shared_ptr<const plan::Plan>;

std::size_t here() { return static_cast<std::size_t>(current_rank().rank()); }

/// The local tensor of this rank.
at::Tensor mine(const test::Locals& locals, const Layout* layout, const Shape& sizes) {
  const auto at = test::coordinates(layout->mesh())[here()];
  return at::tensor(locals[here()], at::kDouble).view(local_shape(layout, sizes, at));
}

test::Locals numbers(const Layout* layout, const Shape& sizes, int salt) {
  test::Locals out;
  for (const auto& at : test::coordinates(layout->mesh())) {
    test::Local local;
    for (std::size_t i = 0; i < test::held(layout, sizes, at).size(); ++i) {
      local.push_back(
          static_cast<double>((i * 31 + out.size() * 17 + static_cast<std::size_t>(salt)) % 13) -
          6);
    }
    out.push_back(std::move(local));
  }
  return out;
}

/// Forward, backward and the backward of the backward; what went wrong.
std::string check(const PlanPtr& plan) {
  const Shape& sizes = plan->meta.sizes;
  const auto name = [&](const char* what) {
    return std::string(what) + ": " + to_string(plan->meta, plan->from) + " -> " +
           plan->to->to_string() + "\n" + to_string(*plan);
  };
  const test::Locals x = numbers(plan->from, sizes, 1);
  const test::Locals y = numbers(plan->to, sizes, 5);
  const test::Locals v = numbers(plan->from, sizes, 9);
  const plan::Plan back = plan::transpose(*plan);
  at::Tensor local = mine(x, plan->from, sizes).requires_grad_();
  const at::Tensor out = redistribute(plan, local);
  if (!at::equal(out, mine(test::run(*plan, x), plan->to, sizes))) return name("forward");
  at::Tensor seed = mine(y, plan->to, sizes).requires_grad_();
  const at::Tensor grad = torch::autograd::grad({out}, {local}, {seed}, true, true)[0];
  if (!at::equal(grad, mine(test::run(back, y), plan->from, sizes))) return name("backward");
  const at::Tensor twice = torch::autograd::grad({grad}, {seed}, {mine(v, plan->from, sizes)})[0];
  if (!at::equal(twice, mine(test::run(*plan, v), plan->to, sizes))) return name("double backward");
  const at::Tensor plain = execute(*plan, local.detach());
  if (!at::equal(plain, out)) return name("execute");
  if (!plan->steps.empty() && plain.numel() != 0 && plain.is_alias_of(local)) return name("alias");
  return "";
}

/// All pairs; styles as well on dim 0.
void check_all(const char* mesh_text, const Shape& sizes, bool styles) {
  const Mesh* mesh = parse_mesh(mesh_text);
  std::vector<const Layout*> layouts =
      test::all_layouts(mesh, static_cast<int>(sizes.size()), {ReduceOp::sum});
  if (styles) {
    for (const Layout* l : std::vector<const Layout*>(layouts)) {
      if (l->split(0) == nullptr) continue;
      layouts.push_back(test::with_block(l, 2));
      layouts.push_back(test::with_segments(l, 0, {sizes[0] / 2 + 1, sizes[0] - sizes[0] / 2 - 1}));
    }
  }
  std::vector<PlanPtr> plans;
  for (const Layout* from : layouts) {
    for (const Layout* to : layouts) {
      plans.push_back(plan::redistribute(from, to, {sizes, DType::f64}));
    }
  }
  on_ranks(mesh->size(), [&]() -> std::string {
    for (const PlanPtr& plan : plans) {
      if (std::string wrong = check(plan); !wrong.empty()) return wrong;
    }
    return "";
  });
}

TEST_CASE("every pair of layouts on one axis") {
  for (const char* mesh : {"tp=2", "tp=3"}) {
    for (const Shape& sizes : {Shape{6, 12}, Shape{5, 3}, Shape{2, 1}, Shape{3, 0}}) {
      check_all(mesh, sizes, true);
    }
    check_all(mesh, {7}, true);
    check_all(mesh, {3, 2, 5}, false);
  }
}

TEST_CASE("every pair of layouts on two axes") {
  for (const Shape& sizes : {Shape{4, 8}, Shape{7, 3}, Shape{3, 2}}) {
    check_all("dp=2 tp=2", sizes, true);
  }
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
