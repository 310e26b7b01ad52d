// Every pair of layouts on small meshes, run on arrays.

#include "tests/support/doctest.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/plan/redistribute.h"
#include "tests/support/simulator.h"

namespace hyper_parallel {
namespace {

using plan::Plan;
using test::Locals;

constexpr ReduceOp kSum = ReduceOp::sum;
constexpr ReduceOp kAvg = ReduceOp::avg;

std::vector<double> numbers(std::int64_t count) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<double>((i * 37 + 11) % 23 - 11));
  return out;
}

/// The layouts of `base`, and each with blocks of 2 and with dim 0 in two segments.
std::vector<const Layout*> with_styles(std::vector<const Layout*> base, const Shape& sizes) {
  std::vector<const Layout*> out = base;
  for (const Layout* l : base) {
    if (l->split(0) == nullptr) continue;
    out.push_back(test::with_block(l, 2));
    if (sizes[0] > 1)
      out.push_back(test::with_segments(l, 0, {sizes[0] / 2 + 1, sizes[0] - sizes[0] / 2 - 1}));
  }
  return out;
}

double inner(const Locals& a, const Locals& b) {
  double out = 0;
  for (std::size_t r = 0; r < a.size(); ++r) {
    REQUIRE(a[r].size() == b[r].size());
    out += std::inner_product(a[r].begin(), a[r].end(), b[r].begin(), 0.0);
  }
  return out;
}

Locals random_locals(const Layout* layout, const Shape& sizes, int salt) {
  Locals out;
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

std::string steps(const Plan& plan) {
  std::string out;
  for (const plan::Step& step : plan.steps) out += to_string(step) + "\n";
  return out;
}

void check_pair(const Layout* from, const Layout* to, const Shape& sizes) {
  const TensorMeta meta{sizes, DType::f32};
  const std::shared_ptr<const Plan> plan = plan::redistribute(from, to, meta);
  CAPTURE(to_string(meta, from));
  CAPTURE(to->to_string());
  CAPTURE(to_string(*plan));
  const std::vector<double> global = numbers(meta.numel());
  const std::vector<double> result =
      test::decode(test::run(*plan, test::encode(global, from, sizes)), to, sizes);
  // 1 / 3 is not exact.
  CHECK(std::equal(result.begin(), result.end(), global.begin(), global.end(),
                   [](double a, double b) { return std::abs(a - b) < 1e-12; }));

  CHECK(plan->bytes >= plan->lower_bound - 1e-9);
  double bytes = 0;
  bool connected = true;
  const Layout* now = from;
  for (const plan::Step& step : plan->steps) {
    bytes += step.bytes;
    for (const auto& at : test::coordinates(from->mesh())) {
      connected &= local_shape(step.before, sizes, at) == local_shape(now, sizes, at);
    }
    now = step.after;
  }
  CHECK(connected);
  CHECK(bytes == doctest::Approx(plan->bytes));

  const Plan back = plan::transpose(*plan);
  CHECK(back.from == to->dual());
  CHECK(back.to == from->dual());
  const Locals x = random_locals(from, sizes, 1);
  const Locals y = random_locals(to, sizes, 5);
  CHECK(inner(test::run(*plan, x), y) == doctest::Approx(inner(x, test::run(back, y))));
  const bool averages = std::any_of(from->placements().begin(), from->placements().end(),
                                    [](Placement p) { return p.is_partial(kAvg); }) ||
                        std::any_of(to->placements().begin(), to->placements().end(),
                                    [](Placement p) { return p.is_partial(kAvg); });
  if (!averages) CHECK(steps(plan::transpose(back)) == steps(*plan));
}

/// All pairs, or every `stride`-th.
void check_all(const char* mesh_text, const Shape& sizes, const std::vector<ReduceOp>& ops,
               bool styles, std::size_t stride = 1) {
  const Mesh* mesh = parse_mesh(mesh_text);
  std::vector<const Layout*> layouts = test::all_layouts(mesh, static_cast<int>(sizes.size()), ops);
  if (styles) layouts = with_styles(layouts, sizes);
  for (std::size_t i = 0; i < layouts.size() * layouts.size(); i += stride) {
    check_pair(layouts[i / layouts.size()], layouts[i % layouts.size()], sizes);
  }
}

TEST_CASE("plans are right, bounded and transposed on one axis") {
  for (const char* mesh : {"tp=2", "tp=3"}) {
    for (const Shape& sizes : {Shape{4, 6}, Shape{5, 3}, Shape{1, 2}, Shape{7, 1}}) {
      check_all(mesh, sizes, {kSum, kAvg}, true);
    }
  }
  check_all("tp=3", {2}, {kSum, kAvg}, true);
}

TEST_CASE("plans are right, bounded and transposed on two axes") {
  for (const char* mesh : {"dp=2 tp=2", "dp=2 tp=3"}) {
    for (const Shape& sizes : {Shape{12, 6}, Shape{7, 5}, Shape{2, 3}}) {
      check_all(mesh, sizes, {kSum}, true);
    }
    check_all(mesh, {5, 3}, {kSum, kAvg}, false);
  }
}

TEST_CASE("plans are right, bounded and transposed on three axes") {
  check_all("a=2 b=2 c=2", {4, 6}, {kSum}, false, 5);
}

TEST_CASE("max, min and prod are reduced by their own op") {
  for (ReduceOp op : {ReduceOp::max, ReduceOp::min, ReduceOp::prod}) {
    for (const char* text : {"tp=3", "dp=2 tp=2"}) {
      const Mesh* mesh = parse_mesh(text);
      const Shape sizes = {5, 3};
      const TensorMeta meta{sizes, DType::f32};
      const std::vector<double> global = numbers(meta.numel());
      for (const Layout* from : test::all_layouts(mesh, 2, {op})) {
        for (const Layout* to : test::all_layouts(mesh, 2, {op})) {
          bool possible = true;
          for (int axis = 0; axis < mesh->ndim(); ++axis) {
            possible &= !to->placement(axis).is_partial() || from->placement(axis).is_partial();
          }
          if (!possible) {
            CHECK_THROWS_AS(plan::redistribute(from, to, meta), UnsupportedError);
            continue;
          }
          const auto plan = plan::redistribute(from, to, meta);
          CAPTURE(from->to_string());
          CAPTURE(to->to_string());
          CHECK(test::decode(test::run(*plan, test::encode(global, from, sizes)), to, sizes) ==
                global);
        }
      }
    }
  }
}

}  // namespace
}  // namespace hyper_parallel
