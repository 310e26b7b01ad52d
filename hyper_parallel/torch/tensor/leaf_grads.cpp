#include "hyper_parallel/torch/tensor/leaf_grads.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/torch/comm/cause.h"
#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "hyper_parallel/torch/ranks/of_rank.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer {
namespace {

struct Sync {
  bool enabled = true;
};
bool& sync_enabled() { return of_rank<Sync, Sync>().enabled; }

struct Pending {
  std::vector<at::Tensor> leaves;  // in the order in which their gradients came
};

// Keyed by backward pass: the engine may run the pass and its final callback on different threads.
std::mutex mutex;
std::unordered_map<int, Pending>& pending() {
  static auto* const map = new std::unordered_map<int, Pending>;
  return *map;
}

void finish(const std::vector<at::Tensor>& leaves) {
  at::NoGradGuard no_grad;
  std::vector<std::shared_ptr<const plan::Plan>> plans;
  std::vector<at::Tensor> locals;
  std::vector<at::Tensor> grads;
  std::unordered_set<const void*> seen;  // a leaf may be met twice in one pass
  for (const at::Tensor& leaf : leaves) {
    at::Tensor& grad = leaf.mutable_grad();
    if (!is_dtensor(grad) || !seen.insert(grad.unsafeGetTensorImpl()).second) continue;
    const Layout* want = impl_of(leaf)->layout();
    const Layout* have = impl_of(grad)->layout();
    if (have == want) continue;
    plans.push_back(plan::redistribute(have, want, meta_of(grad)));
    locals.push_back(impl_of(grad)->local());
    grads.push_back(grad);
  }
  if (plans.empty()) return;
  static const auto* const op = new std::string;
  static const auto* const reason = new std::string("gradient of a replicated leaf");
  const CauseGuard guard(*op, *reason);
  std::vector<at::Tensor> done = execute_coalesced(plans, locals, true);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    impl_of(grads[i])->set(done[i], plans[i]->to, grads[i].sizes());
  }
}

// A finished gradient (R) that will be added to (P): rank 0 of the axes keeps it, the others hold
// zero, so that one reduction at the end serves both.
void reopen(at::Tensor& grad, const Layout* partial) {
  at::NoGradGuard no_grad;
  DTensorImpl* d = impl_of(grad);
  bool keep = true;
  const auto& here = my_coordinate(partial->mesh());
  for (int axis = 0; axis < partial->mesh()->ndim(); ++axis) {
    const bool opened =
        partial->placement(axis).is_partial() && d->layout()->placement(axis).is_replicate();
    if (opened && here[static_cast<std::size_t>(axis)] != 0) keep = false;
  }
  d->set(keep ? d->local() : at::zeros_like(d->local()), partial, grad.sizes());
}

}  // namespace

bool grad_sync_enabled() { return sync_enabled(); }
void set_grad_sync_enabled(bool enabled) { sync_enabled() = enabled; }

void expect_leaf_grad(const at::Tensor& leaf) {
  const Layout* partial = impl_of(leaf)->layout()->dual();
  at::Tensor& grad = leaf.mutable_grad();
  if (grad.defined() && is_dtensor(grad) && impl_of(grad)->layout() != partial &&
      impl_of(grad)->layout() == impl_of(leaf)->layout() && !at::GradMode::is_enabled()) {
    reopen(grad, partial);
  }
  if (!sync_enabled()) return;
  const int pass = torch::autograd::get_current_graph_task_id();
  bool first = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto [it, inserted] = pending().try_emplace(pass);
    it->second.leaves.push_back(leaf);
    first = inserted;
  }
  if (!first) return;
  torch::autograd::Engine::get_default_engine().queue_callback([pass] {
    Pending mine;
    {
      std::lock_guard<std::mutex> lock(mutex);
      mine = std::move(pending()[pass]);
      pending().erase(pass);
    }
    finish(mine.leaves);
  });
}

}  // namespace hyper_parallel::torch_layer
