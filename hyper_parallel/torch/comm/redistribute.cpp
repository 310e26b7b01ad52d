#include "hyper_parallel/torch/comm/redistribute.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "hyper_parallel/torch/comm/cause.h"
#include "hyper_parallel/torch/comm/observer.h"
#include "hyper_parallel/torch/comm/program.h"

namespace hyper_parallel::torch_layer {
namespace {

at::Tensor run_steps(const plan::Plan& plan, const Program& program, const at::Tensor& local,
                     bool backward) {
  check_local(plan, program, local);
  at::AutoDispatchBelowADInplaceOrView guard;
  if (plan.meta.numel() == 0) return local.new_empty(program.after);
  at::Tensor out = local;
  for (std::size_t i = 0; i < program.actions.size(); ++i) {
    observe(plan.steps[i], plan.meta, backward);
    out = run(program.actions[i], out);
  }
  if (program.may_alias) out = out.clone(at::MemoryFormat::Contiguous);
  return out;
}

bool is_identity(const plan::Plan& plan) { return plan.steps.empty() && plan.meta.numel() != 0; }

at::Tensor redistribute_in(const std::shared_ptr<const plan::Plan>& plan, const at::Tensor& local,
                           std::optional<at::ScalarType> backward_dtype, bool backward);

/// Forward mode: the map is linear, so the tangent of `local` takes the same way to `out`.
at::Tensor with_tangent(const std::shared_ptr<const plan::Plan>& plan, const at::Tensor& local,
                        const at::Tensor& out) {
  const at::Tensor& tangent = local._fw_grad(0);
  if (!tangent.defined()) return out;
  plan->from->dual();  // throws if the map is not linear
  out._set_fw_grad(redistribute_in(plan, tangent, std::nullopt, false), 0, false);
  return out;
}

struct RedistributeBackward final : torch::autograd::Node {
  std::shared_ptr<const plan::Plan> plan;  // the transposed one
  std::optional<at::ScalarType> dtype;
  std::string op;  // the cause of the forward step
  std::string reason;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    // A rank whose gradient is undefined must not skip the collective that others wait in.
    at::Tensor grad = grads[0].defined() ? std::move(grads[0]) : input_metadata(0).zeros_like();
    const at::ScalarType own = grad.scalar_type();
    std::optional<CauseGuard> guard;
    if (!op.empty()) guard.emplace(op, reason);
    if (dtype && *dtype != own) {
      return {redistribute_in(plan, grad.to(*dtype), own, true).to(own)};
    }
    return {redistribute_in(plan, grad, dtype, true)};
  }

  std::string name() const override { return "RedistributeBackward"; }
};

at::Tensor redistribute_in(const std::shared_ptr<const plan::Plan>& plan, const at::Tensor& local,
                           std::optional<at::ScalarType> backward_dtype, bool backward) {
  if (is_identity(*plan)) return local;
  const std::shared_ptr<Program> program = program_of(*plan);
  if (!torch::autograd::compute_requires_grad(local)) {
    return with_tangent(plan, local, run_steps(*plan, *program, local, backward));
  }
  if (program->transposed == nullptr) program->transposed = plan::transposed(plan);
  auto node = c10::make_intrusive<RedistributeBackward>();
  node->plan = program->transposed;
  node->dtype = backward_dtype;
  if (const Cause& cause = current_cause(); cause.op != nullptr) {
    node->op = *cause.op;
    node->reason = *cause.reason;
  }
  node->add_next_edge(torch::autograd::impl::gradient_edge(local));
  at::Tensor out = run_steps(*plan, *program, local, backward);
  torch::autograd::set_history(out, node);
  return with_tangent(plan, local, out);
}

}  // namespace

at::Tensor execute(const plan::Plan& plan, const at::Tensor& local) {
  if (is_identity(plan)) return local;
  return run_steps(plan, *program_of(plan), local, false);
}

at::Tensor redistribute(const std::shared_ptr<const plan::Plan>& plan, const at::Tensor& local,
                        std::optional<at::ScalarType> backward_dtype) {
  if (plan == nullptr) return local;
  return redistribute_in(plan, local, backward_dtype, false);
}

}  // namespace hyper_parallel::torch_layer
