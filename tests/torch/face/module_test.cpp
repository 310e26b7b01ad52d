#include "hyper_parallel/torch/face/module.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sin.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/sgd.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/face/api.h"
#include "hyper_parallel/torch/ranks/ranks.h"
#include "hyper_parallel/torch/tensor/dtensor.h"
#include "tests/support/doctest.h"

namespace hyper_parallel {
namespace {

namespace nn = torch::nn;
using torch_layer::is_dtensor;
using torch_layer::run_local;

const Mesh* mesh() { return Mesh::get({2}, {"tp"}); }
const Layout* split(int dim) {
  return Layout::get(mesh(), std::vector<Placement>{Placement::shard(dim)});
}

// Sizes do not divide by 2.
struct Net : nn::Module {
  Net() {
    embed = register_module("embed", nn::Embedding(11, 7));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({7})));
    up = register_module("up", nn::Linear(7, 5));
    up_too = register_module("up_too", up);
    to(torch::kFloat64);
    // Rank threads share torch's generator: values of its own would differ from rank to rank.
    const at::NoGradGuard no_grad;
    for (at::Tensor& p : parameters()) p.copy_(at::arange(p.numel()).sin().view_as(p));
  }

  nn::Embedding embed = nullptr;
  nn::LayerNorm norm = nullptr;
  nn::Linear up = nullptr;
  nn::Linear up_too = nullptr;
};

// A layer that holds a tensor itself.
struct Scale : nn::Module {
  Scale() : factor(register_parameter("factor", at::ones({4}))) {}
  at::Tensor factor;
};

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_SUITE("ShardParameters") {
  TEST_CASE("NamedOnesAreSplitOthersReplicatedAndValuesKept") {
    run_local(2, [] {
      Net net;
      std::map<std::string, at::Tensor> before;
      for (const auto& p : net.named_parameters()) before[p.key()] = p.value().detach().clone();
      shard_parameters(net, mesh(), {{"embed.weight", split(0)}, {"up.*", split(0)}}, std::nullopt);
      CHECK(layout_of(net.embed->weight) == split(0));
      CHECK(layout_of(net.up->bias) == split(0));
      CHECK(layout_of(net.norm->weight)->is_replicated());
      for (const auto& p : net.named_parameters()) {
        CHECK(is_dtensor(p.value()));
        CHECK(p.value().is_leaf());
        CHECK(p.value().requires_grad());
        CHECK(at::equal(full_tensor(p.value()), before[p.key()]));
      }
      CHECK(net.up->weight.is_same(net.named_parameters()["up.weight"]));
    });
  }

  TEST_CASE("ValuesOfTheSourceRankCount") {
    run_local(2, [] {
      Net net;
      {
        const at::NoGradGuard no_grad;
        net.norm->weight.fill_(torch_layer::current_rank().rank() + 1);
      }
      shard_parameters(net, mesh(), {}, 1);
      CHECK(at::equal(full_tensor(net.norm->weight), at::ones({7}, torch::kFloat64) * 2));
    });
  }

  TEST_CASE("TiedParametersStayTied") {
    run_local(2, [] {
      Net net;
      shard_parameters(net, mesh(), {{"up_too.weight", split(1)}});
      CHECK(net.up->weight.is_same(net.up_too->weight));
      CHECK(layout_of(net.up->weight) == split(1));

      Net two;
      const auto call = [&] {
        shard_parameters(two, mesh(), {{"up.weight", split(0)}, {"up_too.weight", split(1)}});
      };
      CHECK(has(error_of(call), "[HP-P021]"));
      CHECK_FALSE(is_dtensor(two.up->weight));
    });
  }

  TEST_CASE("AViewHasEachTensorOnce") {
    Net net;
    const auto view = view_of(net);
    std::string text;
    for (const HeldTensor& held : view->held()) text += join(held.names, "=") + " ";
    CHECK(text ==
          "embed.weight norm.weight norm.bias up.weight=up_too.weight up.bias=up_too.bias ");
    const HeldTensor weight = view->held()[3];
    CHECK(weight.tensor.is_same(net.up->weight));
    const at::Tensor gradient = at::ones({5, 7}, torch::kFloat64);
    view->replace(weight, weight.tensor.detach() * 2, gradient);
    CHECK(net.up->weight.is_same(net.up_too->weight));
    CHECK(net.up->weight.requires_grad());
    CHECK(at::equal(net.up->weight, weight.tensor * 2));
    CHECK(net.named_parameters()["up_too.weight"].grad().is_same(gradient));
  }

  TEST_CASE("GradientsMoveWithTheirParameters") {
    run_local(2, [] {
      Net net;
      net.up->forward(at::ones({3, 7}, torch::kFloat64)).sum().backward();
      const at::Tensor before = net.up->weight.grad().clone();
      shard_parameters(net, mesh(), {{"up.weight", split(0)}}, std::nullopt);
      CHECK(layout_of(net.up->weight.grad()) == split(0));
      CHECK(at::equal(full_tensor(net.up->weight.grad()), before));
    });
  }

  TEST_CASE("AMemberThatWasTiedByHandFollows") {
    run_local(2, [] {
      Net net;
      nn::Linear head(nn::LinearOptions(7, 11).bias(false));
      head->weight = net.embed->weight;
      net.register_module("head", head);
      shard_parameters(net, mesh(), {{"embed.weight", split(0)}});
      CHECK(head->weight.is_same(net.embed->weight));
    });
  }

  TEST_CASE("OptimizersStep") {
    run_local(2, [] {
      Net plain;
      Net net;
      {
        const at::NoGradGuard no_grad;
        auto targets = net.named_parameters();
        for (const auto& p : plain.named_parameters()) targets[p.key()].copy_(p.value());
      }
      shard_parameters(net, mesh(), {{"up.weight", split(0)}}, 0);
      // Rank 0's values count, also for the plain twin.
      const at::Tensor weight = full_tensor(net.up->weight).detach().clone();
      const at::Tensor bias = full_tensor(net.up->bias).detach().clone();
      const at::Tensor x = at::ones({3, 7}, torch::kFloat64);
      torch::optim::SGD optimizer(net.up->parameters(), 0.5);
      net.up->forward(x).square().sum().backward();
      optimizer.step();
      const at::Tensor y = at::matmul(x, weight.t()) + bias;
      CHECK(at::allclose(full_tensor(net.up->bias), bias - 0.5 * (2 * y).sum(0)));
      CHECK(at::allclose(full_tensor(net.up->weight), weight - 0.5 * at::matmul((2 * y).t(), x)));
    });
  }

  TEST_CASE("ADTensorMadeByItsOwnerChangesItsLayout") {
    run_local(2, [] {
      Scale net;
      CHECK(has(error_of([&] { shard_parameters(net, mesh()); }), "[HP-P031]"));
      struct Own : nn::Module {
        Own() {
          factor = register_parameter("factor",
                                      distribute_tensor(at::ones({4}), Layout::replicated(mesh())));
        }
        at::Tensor factor;
      } own;
      shard_parameters(own, mesh(), {{"factor", split(0)}});
      CHECK(layout_of(own.factor) == split(0));
      CHECK(own.factor.is_same(own.named_parameters()["factor"]));
    });
  }

  TEST_CASE("AKeyThatMatchesNothingChangesNothing") {
    run_local(2, [] {
      Net net;
      const auto call = [&] { shard_parameters(net, mesh(), {{"up.wieght", split(0)}}); };
      CHECK(has(error_of(call), "[HP-P001]"));
      CHECK(has(error_of(call), "up.weight"));
      CHECK_FALSE(is_dtensor(net.up->weight));
    });
  }

  TEST_CASE("ALayoutThatDoesNotFitChangesNothing") {
    run_local(2, [] {
      Net net;
      const auto dim = [&] { shard_parameters(net, mesh(), {{"up.bias", split(1)}}); };
      CHECK(has(error_of(dim), "[HP-L005]"));
      const Layout* other = Layout::replicated(Mesh::get({2}, {"dp"}));
      const auto mesh_of = [&] { shard_parameters(net, mesh(), {{"up.bias", other}}); };
      CHECK(has(error_of(mesh_of), "[HP-P030]"));
      CHECK_FALSE(is_dtensor(net.norm->weight));
    });
  }
}

}  // namespace
}  // namespace hyper_parallel
