// Train an MLP of torch::nn layers on one device and, from the same weights, on a mesh dp=2 x tp=2
// of ranks in this process. No Python is involved.
//
// The data are two interleaved spirals in the plane; sizes do not divide by the mesh. Prints the
// losses of both runs; the last line is `PASS ...` or `FAIL ...` (then the exit status is 1).

#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

#include "hyper_parallel/hyper_parallel.h"

namespace hp = hyper_parallel;

namespace {

constexpr int kSteps = 200;
constexpr int kShow = 20;    // every so many steps
constexpr int kPoints = 97;  // of each spiral
constexpr int kHidden = 53;
constexpr double kBound = 1e-10;  // float64

struct Mlp : torch::nn::Module {
  Mlp() {
    up = register_module("up", torch::nn::Linear(2, kHidden));
    mid = register_module("mid", torch::nn::Linear(kHidden, kHidden));
    down = register_module("down", torch::nn::Linear(kHidden, 2));
    to(torch::kFloat64);
  }

  torch::Tensor forward(torch::Tensor x) { return down(torch::gelu(mid(torch::gelu(up(x))))); }

  torch::nn::Linear up = nullptr, mid = nullptr, down = nullptr;
};

void copy_weights(const Mlp& from, Mlp& to) {
  torch::NoGradGuard no_grad;
  auto targets = to.named_parameters();
  for (const auto& item : from.named_parameters()) targets[item.key()].copy_(item.value());
}

struct Data {
  torch::Tensor points;  // [2 n, 2]
  torch::Tensor labels;  // [2 n]
};

Data spirals() {
  const auto t = torch::linspace(0.5, 3.0, kPoints, torch::kFloat64);
  const auto angle = t * M_PI;
  const auto one = torch::stack({t * angle.cos(), t * angle.sin()}, 1);
  const auto zeros = torch::zeros(kPoints, torch::kInt64);
  return {torch::cat({one, -one}), torch::cat({zeros, zeros + 1})};
}

struct Run {
  std::vector<double> losses;
  double accuracy = 0;
};

Run train(Mlp& model, const torch::Tensor& points, const torch::Tensor& labels) {
  torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(1e-2));
  Run run;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const auto loss = torch::nn::functional::cross_entropy(model.forward(points), labels);
    loss.backward();
    optimizer.step();
    run.losses.push_back(loss.item<double>());
  }
  torch::NoGradGuard no_grad;
  const auto right = model.forward(points).argmax(1).eq(labels).sum();
  run.accuracy = right.item<double>() / static_cast<double>(labels.size(0));
  return run;
}

// What each rank does: the same model and data, laid out over the mesh.
Run train_on_mesh(const Mlp& start, const Data& data) {
  const hp::Mesh* mesh = hp::Mesh::get({2, 2}, {"dp", "tp"});
  const auto by = [&](std::vector<std::vector<std::string>> dims) {
    return hp::Layout::from_names(mesh, dims);
  };
  Mlp model;
  copy_weights(start, model);
  hp::shard_parameters(model, mesh,
                       {{"up.weight", by({{"tp"}, {}})},  // rows: each rank some hidden units
                        {"up.bias", by({{"tp"}})},
                        {"mid.weight", by({{}, {"tp"}})}});  // columns: a sum over ranks follows
  return train(model, hp::distribute_tensor(data.points, by({{"dp"}, {}})),
               hp::distribute_tensor(data.labels, by({{"dp"}})));
}

int compare() {
  torch::manual_seed(0);
  torch::set_num_threads(1);
  const Data data = spirals();
  const Mlp start;
  Mlp model;
  copy_weights(start, model);
  const Run one = train(model, data.points, data.labels);
  Run many;
  hp::run_local(4, [&] {
    const Run run = train_on_mesh(start, data);
    if (hp::current_rank().rank() == 0) many = run;
  });

  double difference = 0;
  std::printf("%5s%20s%20s%14s\n", "step", "one device", "dp=2 tp=2", "difference");
  for (int step = 0; step < kSteps; ++step) {
    const auto i = static_cast<std::size_t>(step);
    const double d = std::abs(one.losses[i] - many.losses[i]);
    difference = std::max(difference, d);
    if (step % kShow == 0 || step + 1 == kSteps) {
      std::printf("%5d%20.12f%20.12f%14.1e\n", step, one.losses[i], many.losses[i], d);
    }
  }
  std::printf("accuracy: one device %.3f, dp=2 tp=2 %.3f\n", one.accuracy, many.accuracy);
  const bool learned = one.losses.back() < 0.5 * one.losses.front();
  const bool good = difference < kBound && learned && one.accuracy == many.accuracy;
  std::printf("%s loss_diff=%.1e ranks=4 mesh=dp2xtp2 steps=%d\n", good ? "PASS" : "FAIL",
              difference, kSteps);
  return good ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return compare();
  } catch (const std::exception& error) {
    std::printf("%s\nFAIL\n", error.what());
    return 1;
  }
}
