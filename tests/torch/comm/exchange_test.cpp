// Exchanges: two halves, and what backward passes run.

#include "hyper_parallel/torch/comm/exchange.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/base/cause.h"
#include "hyper_parallel/torch/comm/group_exchanges.h"
#include "hyper_parallel/torch/comm/record.h"
#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "tests/support/on_ranks.h"

namespace hyper_parallel::torch_layer {
namespace {

using test::on_ranks;
using PlanPtr = std::shared_ptr<const plan::Plan>;

PlanPtr plan_of(const char* from, const char* to) {
  const Described d = parse_described(from);
  return plan::redistribute(d.layout, parse_layout(d.layout->mesh(), to), d.meta);
}

at::Tensor local_of(const PlanPtr& plan) {
  const Shape shape = local_shape(plan->from, plan->meta.sizes, my_coordinate(plan->from->mesh()));
  return at::arange(product(shape), at::kDouble).view(shape) * (1 + current_rank().rank());
}

/// Gives no gradient on rank 0.
struct Silent : torch::autograd::Function<Silent> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    ctx->set_materialize_grads(false);
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    return {current_rank().rank() == 0 ? at::Tensor() : grads[0]};
  }
};

TEST_CASE("an exchange in two halves is the exchange") {
  const std::vector<PlanPtr> plans = {
      plan_of("f64[5, 3] on dp=2 tp=2: S(0) S(1)", "R R"),
      plan_of("f64[5, 3] on dp=2 tp=2: P(sum) S(0)", "S(1) R"),
      plan_of("f64[5, 3] on dp=2 tp=2: S(0) R", "S(1) P(sum)"),
      plan_of("f64[0, 3] on dp=2 tp=2: S(0) R", "R R"),
  };
  on_ranks(4, [&]() -> std::string {
    std::vector<PendingExchange> pending;
    std::vector<at::Tensor> inputs;
    for (const PlanPtr& plan : plans) {
      inputs.push_back(local_of(plan).requires_grad_());
      pending.emplace_back(exchange_of(plan), inputs.back());
    }
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const at::Tensor out = pending[i].wait();
      if (!out.is_same(pending[i].wait())) return "waited twice";
      if (!at::equal(out, execute(*plans[i], inputs[i].detach()))) return "value";
      const at::Tensor seed = at::ones_like(out);
      const at::Tensor back = torch::autograd::grad({out}, {inputs[i]}, {seed})[0];
      if (!at::equal(back, execute(*plan::transposed(plans[i]), seed))) return "gradient";
    }
    return "";
  });
}

TEST_CASE("an undefined gradient counts as zeros") {
  const PlanPtr plan = plan_of("f64[4] on tp=2: S(0)", "R");
  on_ranks(2, [&]() -> std::string {
    const at::Tensor x = at::ones({2}, at::kDouble).requires_grad_();
    const at::Tensor y = Silent::apply(redistribute(plan, x));
    // Rank 0 gives nothing, rank 1 ones.
    const at::Tensor back =
        torch::autograd::grad({y}, {x}, {at::ones({4}, at::kDouble)}, std::nullopt, false, true)[0];
    return at::equal(back, at::ones({2}, at::kDouble)) ? "" : "gradient";
  });
}

TEST_CASE("backward collectives have the cause of the forward one") {
  const Mesh* mesh = Mesh::get({2}, {"tp"});
  on_ranks(2, [&]() -> std::string {
    CommReport report;
    report.start();
    const at::Tensor x = at::ones({4}, at::kDouble).requires_grad_();
    at::Tensor y;
    {
      const std::string op = "aten::mm";
      const std::string reason = "a test";
      const CauseGuard guard(op, reason);
      y = run(all_gather_exchange(group_along(mesh, {0}), {4}, 0, {4, 4}), x);
    }
    torch::autograd::backward({y.sum()}, {});
    report.stop();
    std::string text;
    for (const CommRow& row : report.rows()) {
      text += row.kind + " " + row.op + " " + row.reason + " " + std::to_string(row.bytes) +
              (row.backward ? " back; " : "; ");
    }
    const std::string want =
        "all_gather aten::mm a test 32; reduce_scatter aten::mm a test 32 back; ";
    return text == want ? "" : text;
  });
}

TEST_CASE("bytes are those of the rank that moves most, the same on all") {
  const Mesh* mesh = Mesh::get({3}, {"tp"});
  on_ranks(3, [&]() -> std::string {
    const Group group = group_along(mesh, {0});
    const std::vector<std::int64_t> lengths = {3, 0, 1};
    const Shape mine = {lengths[static_cast<std::size_t>(group.index)], 2};
    const ExchangePtr gather = all_gather_exchange(group, mine, 0, lengths);
    const at::Tensor x = at::zeros(mine, at::kDouble);
    if (gather->bytes(x) != 2 * 3 * 2 * 8) return "gather";
    if (gather->transposed()->bytes(x) != 2 * 3 * 2 * 8) return "scatter";
    const at::Tensor y = at::zeros({3}, at::kDouble);
    if (all_reduce_exchange(group, ReduceOp::sum)->bytes(y) != 2.0 * 2 / 3 * 24) return "reduce";
    return broadcast_exchange(group, 1)->bytes(y) == 24 ? "" : "broadcast";
  });
}

TEST_CASE("a map that is not linear has no gradient") {
  const Mesh* mesh = Mesh::get({2}, {"tp"});
  on_ranks(2, [&]() -> std::string {
    const ExchangePtr largest = all_reduce_exchange(group_along(mesh, {0}), ReduceOp::max);
    try {
      run(largest, at::ones({2}).requires_grad_());
    } catch (const UnsupportedError& e) {
      return e.code() == "HP-C021" ? "" : e.what();
    }
    return "no error";
  });
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
