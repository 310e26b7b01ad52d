#include "hyper_parallel/torch/dispatch/call_plan.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <string>
#include <variant>
#include <vector>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/dispatch/frame.h"
#include "hyper_parallel/torch/face/api.h"
#include "hyper_parallel/torch/ranks/rank_stream.h"
#include "tests/support/doctest.h"
#include "tests/support/on_ranks.h"

// Ops without a rule: one returns its result, one writes to its operand.
TORCH_LIBRARY(hp_call_plan_test, m) {
  m.def("twice(Tensor x) -> Tensor", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd,
                                                     [](const at::Tensor& x) { return x + x; }));
  m.def("add_one_(Tensor(a!) x) -> Tensor(a!)",
        torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd,
                        [](at::Tensor x) { return x.add_(1); }));
}

namespace hyper_parallel::torch_layer {
namespace {

const Layout* split() {
  return Layout::get(Mesh::get({2}, {"x"}), std::vector<Placement>{Placement::shard(0)});
}

at::Tensor rising() { return at::arange(8, at::kFloat).view({4, 2}); }

// Writes down the kinds of the calls that it is told of.
class Kinds : public CallObserver {
 public:
  Kinds() : before_(observe_calls(this)) {}
  ~Kinds() override { observe_calls(before_); }

  void before(const Frame& frame, const OpPlan* plan) override {
    read |= frame.info.name == "aten::item";
    constexpr const char* kNames[] = {"local", "handler", "whole", "plain", "draw"};
    text += (text.empty() ? "" : " ") + std::string(plan ? kNames[plan->kind.index()] : "none");
  }

  std::string text;
  bool read = false;  // a value came to the host

 private:
  CallObserver* before_;
};

std::string differs(const std::string& given, const std::string& wanted) {
  return given == wanted ? "" : "\"" + given + "\", not \"" + wanted + "\"";
}

std::string compared(const Kinds& kinds, const std::string& wanted, const at::Tensor& given,
                     const at::Tensor& right) {
  const std::string text = differs(kinds.text, wanted);
  if (!text.empty()) return text;
  return at::equal(given, right) ? "" : "wrong values";
}

at::Tensor call(const char* op, const at::Tensor& x) {
  torch::jit::Stack stack{x};
  c10::Dispatcher::singleton().findSchemaOrThrow(op, "").callBoxed(stack);
  return stack.at(0).toTensor();
}

TEST_SUITE("OpPlan") {
  TEST_CASE("AnOpThatSplitsRunsOnTheParts") {
    test::on_ranks(2, [] {
      const at::Tensor x = distribute_tensor(rising(), split());
      at::Tensor y;
      Kinds kinds;
      y = x * 2;
      return compared(kinds, "local", full_tensor(y), rising() * 2);
    });
  }

  TEST_CASE("AWrittenOperandStaysTheSameTensor") {
    test::on_ranks(2, [] {
      const at::Tensor x = distribute_tensor(rising(), split());
      Kinds kinds;
      const at::Tensor y = at::Tensor(x).add_(1);
      if (!y.is_same(x)) return std::string("another tensor came back");
      return compared(kinds, "local", full_tensor(x), rising() + 1);
    });
  }

  TEST_CASE("AHandlerRunsInPlaceOfTheOp") {
    test::on_ranks(2, [] {
      // Long enough that candidates are less than the operand.
      const at::Tensor whole = at::arange(512, at::kFloat).view({256, 2}).neg();
      const at::Tensor x = distribute_tensor(whole, split());
      Kinds kinds;
      const at::Tensor y = std::get<1>(x.min(0));
      return compared(kinds, "handler", full_tensor(y), std::get<1>(whole.min(0)));
    });
  }

  TEST_CASE("AnOpWithoutARuleRunsWhole") {
    test::on_ranks(2, [] {
      const at::Tensor x = distribute_tensor(rising(), split());
      Kinds kinds;
      const at::Tensor y = call("hp_call_plan_test::twice", x);
      return compared(kinds, "whole", full_tensor(y), rising() * 2);
    });
  }

  TEST_CASE("WhatAnOpWithoutARuleWritesGoesBackToTheParts") {
    test::on_ranks(2, [] {
      const at::Tensor x = distribute_tensor(rising(), split());
      Kinds kinds;
      call("hp_call_plan_test::add_one_", x);
      if (layout_of(x) != split()) return std::string("the layout changed");
      return compared(kinds, "whole", full_tensor(x), rising() + 1);
    });
  }

  TEST_CASE("APlainTensorThatIsWrittenStaysPlain") {
    test::on_ranks(2, [] {
      const at::Tensor x = distribute_tensor(rising(), split());
      at::Tensor plain = at::zeros({4, 2});
      Kinds kinds;
      plain.add_(x);
      if (is_dtensor(plain)) return std::string("it became a DTensor");
      return compared(kinds, "plain", plain, rising());
    });
  }

  TEST_CASE("ADrawIsThatOfOneDevice") {
    test::on_ranks(2, [] {
      const at::Tensor x = distribute_tensor(at::ones({64}), split());
      seed_rank_stream(3);
      at::Tensor y;
      std::string text;
      {
        Kinds kinds;
        y = at::dropout(x, 0.5, true);
        text = kinds.text;
      }
      if (text != "draw") return text;
      seed_rank_stream(3);
      const at::Tensor again = at::dropout(
          distribute_tensor(at::ones({64}), Layout::replicated(split()->mesh())), 0.5, true);
      const at::Tensor whole = full_tensor(y);
      if (!at::equal(whole, full_tensor(again))) return std::string("another layout draws others");
      const double dropped = whole.eq(0).sum().item<double>();
      return dropped > 8 && dropped < 56 ? "" : std::string("not a dropout");
    });
  }

  TEST_CASE("AReadOnTheHostIsSeen") {
    test::on_ranks(2, [] {
      const at::Tensor x = distribute_tensor(rising(), split());
      const at::Tensor sum = x.sum();
      Kinds kinds;
      const double value = sum.item<double>();
      if (!kinds.read) return std::string("not seen");
      return value == 28 ? "" : std::string("wrong value");
    });
  }

  TEST_CASE("APlanOutlivesItsCache") {
    test::on_ranks(1, [] {
      PlanCache cache;
      const PlanKey key{1, 2};
      const std::shared_ptr<const OpPlan> held = cache.insert(key, 7, std::make_shared<OpPlan>());
      cache.clear();
      if (cache.find(key, 7) != nullptr) return std::string("still found");
      return std::holds_alternative<RunLocal>(held->kind) ? "" : std::string("lost");
    });
  }
}

}  // namespace
}  // namespace hyper_parallel::torch_layer
