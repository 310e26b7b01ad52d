#include "hyper_parallel/torch/tensor/grad_finish.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/torch/base/cause.h"
#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "hyper_parallel/torch/ranks/rank_state.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer {
namespace {

// The default, one a pass.
struct AtTheEnd final : GradFinisher {
  void expect(const at::Tensor& leaf) override {
    if (settings().grad_sync) leaves.push_back(leaf);
  }
  void ready(const at::Tensor& /*leaf*/) override {}
  void finish() override { finish_gradients(std::exchange(leaves, {})); }

  std::vector<at::Tensor> leaves;  // in the order in which their gradients came
};

/// A backward pass with leaves whose gradients are to be finished.
struct Pass {
  int id = -1;
  AtTheEnd at_the_end;
  std::vector<std::shared_ptr<GradFinisher>> others;  // in the order in which they expected
};

// Passes nest. The engine owns each by its final callback, so one that fails leaves nothing behind.
struct Passes {
  std::mutex mutex;  // the engine may run a pass and its final callback on different threads
  std::vector<std::weak_ptr<Pass>> all;
};

void finish(Pass& pass) {
  pass.at_the_end.finish();
  for (const auto& finisher : pass.others) finisher->finish();
}

// The pass that runs on this thread, made when it is first asked for.
std::shared_ptr<Pass> this_pass() {
  const int id = torch::autograd::get_current_graph_task_id();
  auto pass = std::make_shared<Pass>();
  pass->id = id;
  {
    Passes& passes = of_rank<Passes>();
    const std::lock_guard lock(passes.mutex);
    std::erase_if(passes.all, [](const auto& weak) { return weak.expired(); });
    for (const auto& weak : passes.all) {
      if (auto known = weak.lock(); known != nullptr && known->id == id) return known;
    }
    passes.all.push_back(pass);
  }
  torch::autograd::Engine::get_default_engine().queue_callback(
      [pass] { at_border([&] { finish(*pass); }); });
  return pass;
}

/// True where `open` is `layout` with some R as P(sum).
bool opens(const Layout* layout, const Layout* open) {
  if (layout == open || layout->mesh() != open->mesh() || layout->splits() != open->splits()) {
    return false;
  }
  for (int axis = 0; axis < open->mesh()->ndim(); ++axis) {
    const Placement have = layout->placement(axis);
    const Placement want = open->placement(axis);
    if (have != want && !(have.is_replicate() && want.is_partial(ReduceOp::sum))) return false;
  }
  return true;
}

// A finished gradient (R) that will be added to (P): rank 0 of the axes keeps it, the others hold
// zero, so that one reduction at the end serves both.
void reopen(at::Tensor& grad, const Layout* partial) {
  at::NoGradGuard no_grad;
  DTensorImpl* d = impl_of(grad);
  bool keep = true;
  const auto& here = my_coordinate(partial->mesh());
  for (int axis = 0; axis < partial->mesh()->ndim(); ++axis) {
    const bool opened = partial->placement(axis) != d->layout()->placement(axis);
    if (opened && here[static_cast<std::size_t>(axis)] != 0) keep = false;
  }
  d->set(keep ? d->local() : at::zeros_like(d->local()), partial, grad.sizes());
}

struct ReadyHook final : torch::autograd::FunctionPostHook {
  explicit ReadyHook(const at::Tensor& leaf) : leaf(leaf.getIntrusivePtr()) {}

  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& outputs,
      const torch::autograd::variable_list& /*inputs*/) override {
    // The node of this hook owns the leaf.
    if (auto strong = leaf.lock(); strong.defined()) {
      const at::Tensor t(std::move(strong));
      if (const auto finisher = impl_of(t)->grad_finisher()) {
        at_border([&] { finisher->ready(t); });
      }
    }
    return outputs;
  }

  DTensorImpl::WeakImpl leaf;
};

}  // namespace

void finish_gradients(const std::vector<at::Tensor>& leaves) {
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

void set_grad_finisher(const at::Tensor& leaf, std::shared_ptr<GradFinisher> finisher) {
  check_internal(is_dtensor(leaf) && leaf.is_leaf(), "a grad finisher for what is no leaf DTensor");
  impl_of(leaf)->set_grad_finisher(std::move(finisher));
}

void expect_gradient(const at::Tensor& leaf) {
  const Layout* partial = impl_of(leaf)->layout()->dual();
  at::Tensor& grad = leaf.mutable_grad();
  if (grad.defined() && is_dtensor(grad) && !at::GradMode::is_enabled() &&
      impl_of(grad)->layout() == impl_of(leaf)->layout() &&
      opens(impl_of(grad)->layout(), partial)) {
    reopen(grad, partial);
  }
  const std::shared_ptr<Pass> pass = this_pass();
  const auto& own = impl_of(leaf)->grad_finisher();
  if (own == nullptr) return pass->at_the_end.expect(leaf);
  if (std::find(pass->others.begin(), pass->others.end(), own) == pass->others.end()) {
    pass->others.push_back(own);
  }
  own->expect(leaf);
}

void tell_when_ready(const at::Tensor& leaf, torch::autograd::Node& accumulate) {
  if (impl_of(leaf)->grad_finisher() == nullptr) return;
  for (const auto& hook : accumulate.post_hooks()) {
    if (dynamic_cast<ReadyHook*>(hook.get()) != nullptr) return;
  }
  accumulate.add_post_hook(std::make_unique<ReadyHook>(leaf));
}

}  // namespace hyper_parallel::torch_layer
