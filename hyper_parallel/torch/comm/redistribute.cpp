#include "hyper_parallel/torch/comm/redistribute.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "hyper_parallel/torch/base/dtype.h"
#include "hyper_parallel/torch/comm/program.h"
#include "hyper_parallel/torch/comm/record.h"

namespace hyper_parallel::torch_layer {
namespace {

bool is_identity(const plan::Plan& plan) { return plan.steps.empty() && plan.meta.numel() != 0; }

/// A plan under way: what is done is done up to a collective that was issued.
class PlanRun final : public Flight {
 public:
  PlanRun(const plan::Plan& plan, std::shared_ptr<const Program> program, const at::Tensor& local)
      : plan_(plan), program_(std::move(program)), value_(local) {
    check_local(plan_, *program_, local);
    if (plan_.meta.numel() == 0) {
      value_ = local.new_empty(program_->after);
      next_ = program_->actions.size();
      return;
    }
    advance();
  }

  at::Tensor land() override {
    while (sent_) {
      value_ = torch_layer::land(action(), value_, *std::exchange(sent_, std::nullopt));
      ++next_;
      advance();
    }
    if (program_->may_alias && plan_.meta.numel() != 0) {
      value_ = value_.clone(at::MemoryFormat::Contiguous);
    }
    return std::move(value_);
  }

 private:
  const Action& action() const { return program_->actions[next_]; }

  void advance() {
    for (; next_ < program_->actions.size(); ++next_) {
      note_step(plan_.steps[next_], plan_.meta);
      if (sends(action())) {
        sent_.emplace(issue(action(), value_));
        return;
      }
      value_ = run_here(action(), value_);
    }
  }

  const plan::Plan& plan_;
  std::shared_ptr<const Program> program_;
  at::Tensor value_;
  std::size_t next_ = 0;
  std::optional<wire::Sent> sent_;
};

/// A run that keeps its plan.
class OwnedRun final : public Flight {
 public:
  OwnedRun(std::shared_ptr<const plan::Plan> plan, const at::Tensor& local)
      : plan_(std::move(plan)), run_(*plan_, program_of(*plan_), local) {}
  at::Tensor land() override { return run_.land(); }

 private:
  std::shared_ptr<const plan::Plan> plan_;
  PlanRun run_;
};

class PlanExchange final : public Exchange {
 public:
  explicit PlanExchange(std::shared_ptr<const plan::Plan> plan) : plan_(std::move(plan)) {
    for (int axis = 0; axis < plan_->from->mesh()->ndim(); ++axis) axes_.push_back(axis);
  }

  std::string_view kind() const override { return "redistribute"; }
  const Mesh* mesh() const override { return plan_->from->mesh(); }
  const std::vector<int>& axes() const override { return axes_; }
  double bytes(const at::Tensor&) const override { return plan_->bytes; }

  ExchangePtr transposed() const override {
    // Programs are looked up where they run: a backward pass may be on another thread.
    const std::shared_ptr<Program> program = program_of(*plan_);
    if (program->transposed == nullptr) program->transposed = exchange_of(plan::transposed(plan_));
    return program->transposed;
  }

  std::unique_ptr<Flight> issue(const at::Tensor& x) const override {
    return std::make_unique<OwnedRun>(plan_, x);
  }

  at::Tensor execute(const at::Tensor& x) const override {
    if (is_identity(*plan_)) return x.alias();
    return PlanRun(*plan_, program_of(*plan_), x).land();
  }

 private:
  std::shared_ptr<const plan::Plan> plan_;
  std::vector<int> axes_;
};

}  // namespace

at::Tensor execute(const plan::Plan& plan, const at::Tensor& local) {
  if (is_identity(plan)) return local;
  at::AutoDispatchBelowADInplaceOrView guard;
  return PlanRun(plan, program_of(plan), local).land();
}

ExchangePtr exchange_of(const std::shared_ptr<const plan::Plan>& plan) {
  if (plan == nullptr || is_identity(*plan)) return nullptr;
  const std::shared_ptr<Program> program = program_of(*plan);
  if (program->exchange == nullptr) program->exchange = std::make_shared<PlanExchange>(plan);
  return program->exchange;
}

at::Tensor redistribute(const std::shared_ptr<const plan::Plan>& plan, const at::Tensor& local,
                        std::optional<at::ScalarType> backward_dtype) {
  if (plan == nullptr || is_identity(*plan)) return local;
  if (!torch::autograd::compute_requires_grad(local) && !local._fw_grad(0).defined()) {
    at::AutoDispatchBelowADInplaceOrView guard;
    return PlanRun(*plan, program_of(*plan), local).land();
  }
  return run(exchange_of(plan), local, {.backward_dtype = backward_dtype});
}

}  // namespace hyper_parallel::torch_layer
