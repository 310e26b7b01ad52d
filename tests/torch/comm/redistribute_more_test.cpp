// Running plans: dtypes, gradients in corner cases, several at once, what observers see, errors.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_make_dual.h>
#include <ATen/ops/_unpack_dual.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/forward_grad.h>

#include <set>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/comm/record.h"
#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "hyper_parallel/torch/ranks/ranks.h"
#include "tests/support/on_ranks.h"

namespace hyper_parallel::torch_layer {
namespace {

using test::on_ranks;
using PlanPtr = std::shared_ptr<const plan::Plan>;

PlanPtr plan_of(const char* from, const char* to) {
  const Described d = parse_described(from);
  const std::string text = to;
  const Layout* target = text.find(':') == std::string::npos ? parse_layout(d.layout->mesh(), text)
                                                             : parse_layout(text);
  return plan::redistribute(d.layout, target, d.meta);
}

/// This rank's part of 0, 1, 2, ... laid out as `layout`, which has no P.
at::Tensor part(const Layout* layout, const Shape& sizes, at::ScalarType dtype = at::kDouble) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count *= size;
  at::Tensor out = at::arange(count, at::kDouble).view(sizes).to(dtype);
  for (const Split& s : layout->splits()) {
    const auto here = local_intervals(layout, s.dim, sizes[static_cast<std::size_t>(s.dim)],
                                      my_coordinate(layout->mesh()));
    check_internal(here.size() == 1, "a test layout has one piece a dim");
    out = out.narrow(s.dim, here[0].begin, here[0].size());
  }
  return out.contiguous();
}

TEST_CASE("every dtype travels") {
  for (at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kByte,
                               at::kBool, at::kComplexFloat, at::kComplexDouble}) {
    const PlanPtr gather = plan_of("f32[5, 3] on tp=3: S(0)", "R");
    const PlanPtr turn = plan_of("f32[5, 3] on tp=3: S(0)", "S(1)");
    const PlanPtr sum = plan_of("f32[5, 3] on tp=3: P(sum)", "R");
    const PlanPtr scatter = plan_of("f32[5, 3] on tp=3: P(sum)", "S(0)");
    on_ranks(3, [&]() -> std::string {
      const at::Tensor whole = part(gather->to, {5, 3}, dtype);
      const at::Tensor mine = part(gather->from, {5, 3}, dtype);
      // Only one rank has values, so that sums of bools are defined too.
      const at::Tensor pending = current_rank().rank() == 1 ? whole : at::zeros_like(whole);
      if (!at::equal(execute(*gather, mine), whole)) return "gather";
      if (!at::equal(execute(*turn, mine), part(turn->to, {5, 3}, dtype))) return "turn";
      if (!at::equal(execute(*sum, pending), whole)) return "sum";
      if (!at::equal(execute(*scatter, pending), mine)) return "scatter";
      return "";
    });
  }
}

TEST_CASE("complex numbers keep their imaginary part, also when conjugated lazily") {
  const PlanPtr sum = plan_of("c64[4] on tp=2: P(sum)", "R");
  const PlanPtr gather = plan_of("c64[4] on tp=2: S(0)", "R");
  on_ranks(2, [&]() -> std::string {
    const at::Tensor x = at::ones({4}, at::kComplexFloat) * c10::Scalar(c10::complex<double>(1, 2));
    if (!at::equal(execute(*sum, x.conj()), x.conj() + x.conj())) return "sum";
    if (!at::equal(execute(*gather, x.narrow(0, 0, 2).conj()), x.conj())) return "gather";
    return "";
  });
}

TEST_CASE("max, min and prod reduce, and refuse gradients") {
  for (const char* op : {"max", "min", "prod"}) {
    const std::string from = "f64[4] on tp=3: P(" + std::string(op) + ")";
    const PlanPtr plan = plan_of(from.c_str(), "R");
    const PlanPtr scatter = plan_of(from.c_str(), "S(0)");
    on_ranks(3, [&]() -> std::string {
      const at::Tensor x = at::arange(4, at::kDouble) + current_rank().rank();
      const at::Tensor a = at::arange(4, at::kDouble);
      const at::Tensor expected = op == std::string("max")   ? a + 2
                                  : op == std::string("min") ? a
                                                             : a * (a + 1) * (a + 2);
      if (!at::equal(redistribute(plan, x), expected)) return "value";
      const auto mine = local_intervals(scatter->to, 0, 4, my_coordinate(plan->to->mesh()))[0];
      const at::Tensor own = expected.narrow(0, mine.begin, mine.size());
      if (!at::equal(redistribute(scatter, x), own)) return "scatter";
      try {
        redistribute(plan, x.clone().requires_grad_());
      } catch (const UnsupportedError&) {
        return "";
      }
      return "a gradient was accepted";
    });
  }
}

TEST_CASE("averages") {
  const PlanPtr plan = plan_of("f64[4] on dp=2 tp=2: P(avg) P(sum)", "R R");
  on_ranks(4, [&]() -> std::string {
    const at::Tensor x = at::ones({4}, at::kDouble).requires_grad_();
    const at::Tensor y = redistribute(plan, x);
    if (!at::equal(y, at::ones({4}, at::kDouble) * 2)) return "value";
    // The transpose of the map, not of one rank's view of it: 4 seeds of 1, averaged over dp.
    const at::Tensor g = torch::autograd::grad({y.sum()}, {x})[0];
    return at::equal(g, at::ones({4}, at::kDouble) * 2) ? "" : "gradient";
  });
}

TEST_CASE("a cycle of three axes is one permute") {
  const PlanPtr plan = plan_of("f64[4, 4] on a=2 b=2 c=2: S(0) S(1) R", "R S(0) S(1)");
  REQUIRE(plan->steps.size() == 1);
  REQUIRE(plan->steps[0].kind == plan::StepKind::permute);
  on_ranks(8, [&]() -> std::string {
    const at::Tensor mine = part(plan->from, {4, 4}).requires_grad_();
    const at::Tensor out = redistribute(plan, mine);
    if (!at::equal(out, part(plan->to, {4, 4}))) return "forward";
    const at::Tensor grad = torch::autograd::grad({out}, {mine}, {part(plan->to, {4, 4})})[0];
    return at::equal(grad, part(plan->from, {4, 4})) ? "" : "backward";
  });
}

TEST_CASE("between meshes of the same ranks") {
  for (auto [from, to] : {std::pair{"f64[8, 8] on dp=2 tp=2: S(0) S(1)", "x=4: S(0)"},
                          std::pair{"f64[7, 5] on dp=2 tp=2: S(0) S(0)", "x=4: S(0)"},
                          std::pair{"f64[7, 5] on x=4: S(0)", "x=4 ranks=[2, 0, 3, 1]: S(1)"}}) {
    const PlanPtr plan = plan_of(from, to);
    on_ranks(4, [&]() -> std::string {
      const Shape& sizes = plan->meta.sizes;
      const at::Tensor mine = part(plan->from, sizes).requires_grad_();
      const at::Tensor out = redistribute(plan, mine);
      if (!at::equal(out, part(plan->to, sizes))) return "forward";
      const at::Tensor grad = torch::autograd::grad({out}, {mine}, {part(plan->to, sizes)})[0];
      return at::equal(grad, part(plan->from, sizes)) ? "" : "backward";
    });
  }
}

struct NoGradient : torch::autograd::Function<NoGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    return {at::Tensor()};
  }
};

TEST_CASE("a rank without a gradient still takes part in the collective") {
  const PlanPtr plan = plan_of("f64[4] on tp=2: S(0)", "R");
  on_ranks(2, [&]() -> std::string {
    const at::Tensor x = at::ones({2}, at::kDouble).requires_grad_();
    const at::Tensor y = redistribute(plan, x);
    const at::Tensor z = current_rank().rank() == 0 ? NoGradient::apply(y) : y * 3;
    const at::Tensor g = torch::autograd::grad({z.sum()}, {x})[0];
    return at::equal(g, at::ones({2}, at::kDouble) * 3) ? "" : "gradient";
  });
}

TEST_CASE("the dtype of the backward reduction is that asked for") {
  const PlanPtr plan = plan_of("f32[2] on tp=2: S(0)", "R");
  on_ranks(2, [&]() -> std::string {
    const at::Tensor x = at::ones({1}).requires_grad_();
    const at::Tensor seed = at::ones({2}) * (current_rank().rank() == 0 ? 1.0 : 1.0 / 1024);
    const at::Tensor exact = torch::autograd::grad({redistribute(plan, x)}, {x}, {seed})[0];
    const at::Tensor rounded =
        torch::autograd::grad({redistribute(plan, x, at::kBFloat16)}, {x}, {seed})[0];
    if (exact.item<float>() != 1 + 1.0F / 1024) return "exact";
    if (rounded.scalar_type() != at::kFloat || rounded.item<float>() != 1) return "rounded";
    return "";
  });
}

TEST_CASE("tangents of forward mode take the same way") {
  const PlanPtr plan = plan_of("f64[4] on tp=2: P(sum)", "S(0)");
  // Levels are one number for the process: one for all ranks.
  const auto level = torch::autograd::ForwardADLevel::get_next_idx();
  on_ranks(2, [&]() -> std::string {
    const at::Tensor tangent = at::arange(4, at::kDouble) * (1 + current_rank().rank());
    const at::Tensor x = at::_make_dual(at::ones({4}, at::kDouble), tangent, 0);
    const auto [value, out] = at::_unpack_dual(redistribute(plan, x), 0);
    if (!at::equal(value, at::ones({2}, at::kDouble) * 2)) return "value";
    const at::Tensor expected = at::arange(4, at::kDouble) * 3;
    return at::equal(out, expected.narrow(0, 2 * current_rank().rank(), 2)) ? "" : "tangent";
  });
  torch::autograd::ForwardADLevel::release_idx(level);
}

TEST_CASE("no graph where none is wanted") {
  const PlanPtr plan = plan_of("f32[2] on tp=2: P(sum)", "R");
  on_ranks(2, [&]() -> std::string {
    const at::Tensor x = at::ones({2}).requires_grad_();
    if (execute(*plan, x).requires_grad()) return "execute";
    if (!redistribute(plan, x).requires_grad()) return "redistribute";
    const at::NoGradGuard guard;
    return redistribute(plan, x).requires_grad() ? "no_grad" : "";
  });
}

TEST_CASE("nothing to do gives the tensor itself; a cut shares no memory") {
  const PlanPtr same = plan_of("f32[4] on tp=2: R", "R");
  const PlanPtr cut = plan_of("f32[4] on tp=2: R", "S(0)");
  const PlanPtr own = plan_of("f32[4] on tp=2: R", "P(sum)");
  on_ranks(2, [&]() -> std::string {
    const at::Tensor x = at::ones({4});
    if (!redistribute(same, x).is_same(x) || !redistribute(nullptr, x).is_same(x)) return "same";
    if (execute(*cut, x).is_alias_of(x)) return "cut";
    return execute(*own, x).is_alias_of(x) ? "own" : "";
  });
}

/// Lines of a report.
std::vector<std::string> lines_of(const CommReport& report) {
  std::vector<std::string> out;
  for (const CommRow& row : report.rows()) {
    out.push_back(row.kind + " over " + join(row.axes) + ", " + std::to_string(row.bytes) +
                  " B of " + row.tensor + ", " + row.from + " -> " + row.to +
                  (row.backward ? " back" : ""));
  }
  return out;
}

TEST_CASE("reports have collectives and phases") {
  const PlanPtr plan = plan_of("f32[4, 2] on tp=2: S(0)", "R");
  on_ranks(2, [&]() -> std::string {
    CommReport report;
    report.start();
    const at::Tensor x = at::ones({2, 2}).requires_grad_();
    redistribute(plan, x).sum().backward();
    const std::vector<std::string> expected = {
        "all_gather over tp, 16 B of f32[4, 2], S(0) -> R",
        "reduce_scatter over tp, 16 B of f32[4, 2], P(sum) -> S(0) back"};
    const std::vector<std::string> lines = lines_of(report);
    return lines == expected ? "" : join(lines, " / ");
  });
}

TEST_CASE("a local tensor of another shape is an error with a name") {
  const PlanPtr plan = plan_of("f32[4, 2] on tp=2: S(0)", "R");
  on_ranks(2, [&]() -> std::string {
    try {
      execute(*plan, at::ones({4, 2}));
    } catch (const UsageError& e) {
      return e.code() == "HP-R008" ? "" : e.what();
    }
    return "no error";
  });
}

TEST_CASE("a mesh larger than the world is an error") {
  CHECK_THROWS_AS(execute(*plan_of("f32[4] on tp=4: S(0)", "R"), at::ones({1})), UsageError);
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
