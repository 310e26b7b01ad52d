// What a program outside the tree writes: an op and a rule of its own, hand-written parallel code,
// a value and its gradients, on four ranks. Exit status 0 if all equals one device.

#include <torch/torch.h>

#include <cstdio>
#include <exception>

#include "hyper_parallel/hyper_parallel.h"

namespace hp = hyper_parallel;

namespace {

torch::Tensor gate(const torch::Tensor& x, const torch::Tensor& y) { return torch::silu(x) * y; }

TORCH_LIBRARY(outside, m) { m.def("gate(Tensor x, Tensor y) -> Tensor", &gate); }

torch::Tensor call_gate(const torch::Tensor& x, const torch::Tensor& y) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("outside::gate", "")
                             .typed<torch::Tensor(const torch::Tensor&, const torch::Tensor&)>();
  return op.call(x, y);
}

double difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

double compare() {
  torch::manual_seed(0);
  const auto double_ = torch::kFloat64;
  const torch::Tensor x = torch::randn({5, 6}, double_);
  const torch::Tensor weight = torch::randn({6, 7}, double_);
  const auto loss = [](const torch::Tensor& h) { return call_gate(h, h.tanh()).pow(2).sum(); };

  torch::Tensor w = weight.clone().requires_grad_();
  const hp::ValueAndGrad one = hp::value_and_grad([&] { return loss(x.mm(w)); }, {w});

  hp::register_rule("outside::gate", "... f, ... f -> ... f");
  double worst = 0;
  hp::run_local(4, [&] {
    const hp::Mesh* mesh = hp::Mesh::get({2, 2}, {"dp", "tp"});
    const auto layout = [&](std::vector<hp::Placement> p) { return hp::Layout::get(mesh, p); };
    const auto* rows = layout({hp::Placement::shard(0), hp::Placement::replicate()});
    const auto* cut = layout({hp::Placement::shard(0), hp::Placement::shard(1)});
    const auto* sums = layout({hp::Placement::replicate(), hp::Placement::shard(0)});
    const torch::Tensor dx = hp::distribute_tensor(x, rows);
    torch::Tensor dw = hp::distribute_tensor(weight, sums).requires_grad_();
    const auto product = [&](const std::vector<torch::Tensor>& t) {
      return std::vector<torch::Tensor>{hp::all_reduce(t[0].mm(t[1]), "tp")};
    };
    const hp::ValueAndGrad many = hp::value_and_grad(
        [&] { return loss(hp::custom_shard(product, {dx, dw}, {rows}, {cut, sums})[0]); }, {dw});
    const torch::Tensor value = hp::full_tensor(many.value.detach());
    const torch::Tensor grad = hp::full_tensor(many.grads[0]);
    if (hp::current_rank().rank() == 0) {
      worst = std::max(difference(value, one.value), difference(grad, one.grads[0]));
    }
  });
  return worst;
}

}  // namespace

int main() {
  try {
    const double worst = compare();
    std::printf("%s difference=%.1e\n", worst < 1e-12 ? "PASS" : "FAIL", worst);
    return worst < 1e-12 ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("%s\nFAIL\n", error.what());
    return 1;
  }
}
