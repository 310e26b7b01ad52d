#include "hyper_parallel/torch/face/factories.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/face/api.h"
#include "hyper_parallel/torch/tensor/dtensor.h"
#include "tests/support/doctest.h"
#include "tests/support/on_ranks.h"

namespace hyper_parallel {
namespace {

// Sizes that the axes do not divide, blocks of one dim on two axes, and pieces to be added up.
const char* const kLayouts[] = {"dp=2 tp=2: S(0) S(1)", "dp=2 tp=2: S(0) S(0)", "dp=2 tp=2: R S(1)",
                                "dp=2 tp=2: P(sum) S(0)", "dp=2 tp=2: P(avg) R"};

TEST_SUITE("Factories") {
  TEST_CASE("PartsAreFilledAndJoinToTheWhole") {
    for (const char* text : kLayouts) {
      CAPTURE(text);
      const Layout* layout = parse_layout(text);
      test::on_ranks(4, [layout]() -> std::string {
        const Shape sizes = {5, 3};
        const at::TensorOptions f64 = at::kDouble;
        const std::pair<at::Tensor, at::Tensor> made[] = {
            {zeros(sizes, layout, f64), at::zeros(sizes, f64)},
            {ones(sizes, layout, f64), at::ones(sizes, f64)},
            {full(sizes, 2.5, layout, f64), at::full(sizes, 2.5, f64)}};
        for (const auto& [ours, whole] : made) {
          if (layout_of(ours) != layout) return "layout " + layout_of(ours)->to_string();
          if (!at::equal(full_tensor(ours), whole)) return "other values";
        }
        if (empty(sizes, layout).sizes() != at::IntArrayRef(sizes)) return "other sizes of empty";
        return "";
      });
    }
  }

  TEST_CASE("DrawsAreThoseOfOneDeviceUnderEveryLayout") {
    for (const char* text : {"dp=2 tp=2: S(0) S(1)", "dp=2 tp=2: S(0) S(0)"}) {
      CAPTURE(text);
      const Layout* layout = parse_layout(text);
      test::on_ranks(4, [layout]() -> std::string {
        const Shape sizes = {5, 3};
        for (const bool normal : {false, true}) {
          const auto draw = [&](const Layout* l) {
            return normal ? randn(sizes, l, at::kDouble) : rand(sizes, l, at::kDouble);
          };
          const at::Tensor values = full_tensor(draw(layout));
          if (values.eq(0).any().item<bool>()) return "a value was not drawn";
          if (!normal && !(values.ge(0).all().item<bool>() && values.lt(1).all().item<bool>())) {
            return "out of range";
          }
          if (values.flatten().equal(full_tensor(draw(layout)).flatten())) return "drawn twice";
        }
        return "";
      });
    }
  }

  TEST_CASE("OptionsAreTorchs") {
    const Layout* layout = parse_layout("tp=2: S(0)");
    test::on_ranks(2, [layout]() -> std::string {
      if (full({3}, 7, layout).scalar_type() != at::kLong) return "the type of an integer";
      if (full({3}, true, layout).scalar_type() != at::kBool) return "the type of a bool";
      const at::Tensor w = ones({3}, layout, at::TensorOptions(at::kDouble).requires_grad(true));
      if (!w.requires_grad() || !w.is_leaf()) return "no leaf that requires grad";
      (w * 2).sum().backward();
      return at::equal(full_tensor(w.grad()), at::full({3}, 2.0, at::kDouble)) ? "" : "gradient";
    });
  }

  TEST_CASE("ARankOutsideTheMeshAndADimThatLacksAreNamed") {
    const Layout* layout = parse_layout("tp=2: S(1)");
    test::on_ranks(3, [layout]() -> std::string {
      const bool inside = torch_layer::current_rank().rank() < 2;
      try {
        (void)zeros({3}, layout);
      } catch (const UsageError& error) {
        const std::string wanted = inside ? "HP-L005" : "HP-M032";
        return error.code() == wanted ? "" : error.what();
      }
      return "no error";
    });
  }
}

}  // namespace
}  // namespace hyper_parallel
