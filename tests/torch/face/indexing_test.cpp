#include "hyper_parallel/torch/face/indexing.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <vector>

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/face/api.h"
#include "tests/support/doctest.h"
#include "tests/support/on_ranks.h"

namespace hyper_parallel {
namespace {

using at::indexing::Ellipsis;
using at::indexing::None;
using at::indexing::Slice;
using at::indexing::TensorIndex;
using Index = std::vector<TensorIndex>;

at::Tensor whole() { return at::arange(60, at::kDouble).view({5, 4, 3}); }

std::vector<Index> indices() {
  const at::Tensor rows = at::tensor({0, 4, 1});
  const at::Tensor mask = at::tensor({1, 0, 1, 0, 1}).to(at::kBool);
  return {{2},           {-1},
          {Slice(1, 4)}, {Slice(None, None, 2)},
          {Slice(3, 3)}, {1, 2},
          {Slice(), 1},  {Ellipsis, 2},
          {None, 2},     {rows},
          {rows, 2},     {Slice(0, 3), at::tensor({0, 3})},
          {mask},        {Slice(1, 3), at::tensor({1, 0, 1, 0}).to(at::kBool)},
          {Slice()}};
}

// The same write with a DTensor and on one device, and the gradients of both.
std::string compare(const Index& index, const Layout* layout, bool number) {
  const auto run = [&](at::Tensor x, at::Tensor value, bool split) {
    x = x.clone().requires_grad_();
    const at::Tensor out_of = split ? distribute_tensor(x, layout) : x;
    at::Tensor out = out_of * 1;
    if (split) {
      assign(out, index, value);
    } else {
      out.index_put_(index, value);
    }
    const at::Tensor weights = at::arange(60, at::kDouble).view({5, 4, 3}).sin();
    (out * weights).sum().backward();
    return std::vector<at::Tensor>{split ? full_tensor(out).detach() : out.detach(),
                                   split ? full_tensor(out_of.grad()) : x.grad()};
  };
  const at::Tensor value =
      number ? at::full({}, 2.5, at::kDouble) : -whole().index(index).detach().clone();
  const auto wanted = run(whole(), value, false);
  const auto given = run(whole(), value, true);
  if (!at::equal(given[0], wanted[0])) return "other values on " + layout->to_string();
  if (!at::equal(given[1], wanted[1])) return "other gradients on " + layout->to_string();
  return "";
}

TEST_SUITE("Assign") {
  TEST_CASE("EveryFormOnEveryDimWritesWhatOneDeviceWrites") {
    const std::vector<Index> all = indices();
    for (const char* text : {"tp=2: S(0)", "tp=2: S(1)", "tp=2: S(2)", "tp=2: R"}) {
      const Layout* layout = parse_layout(text);
      for (std::size_t i = 0; i < all.size(); ++i) {
        CAPTURE(i);
        for (const bool number : {true, false}) {
          test::on_ranks(2, [&] { return compare(all[i], layout, number); });
        }
      }
    }
  }

  TEST_CASE("TwoAxesMayCutTheDimThatIsWritten") {
    for (const char* text : {"dp=2 tp=2: S(0) S(0)", "dp=2 tp=2: S(0) S(1)"}) {
      const Layout* layout = parse_layout(text);
      test::on_ranks(4, [&] { return compare({Slice(1, 4), 2}, layout, false); });
    }
  }

  TEST_CASE("CoordinatesAreAskedForOnlyWhereASplitDimIsPicked") {
    const Layout* layout = parse_layout("tp=2: S(1)");
    test::on_ranks(2, [layout]() -> std::string {
      const at::Tensor x = distribute_tensor(whole(), layout);
      const auto needs = [&](const Index& index, int ndim) {
        return torch_layer::needs_coordinates(x, index, ndim);
      };
      if (needs({2}, 0) || needs({Slice(1, 4)}, 3) || needs({Slice(), Slice()}, 3)) {
        return "the split dim is whole";
      }
      if (!needs({Slice(), 1}, 0) || !needs({Ellipsis, Slice(0, 2), 0}, 1)) return "it is not";
      const at::Tensor mask = at::tensor({1, 0, 1, 0, 1}).to(at::kBool);
      if (needs({mask}, 0) || !needs({mask}, 3)) return "a mask";
      return "";
    });
  }
}

}  // namespace
}  // namespace hyper_parallel
