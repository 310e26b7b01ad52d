#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/torch/comm/exchange.h"

/// Running plans on local tensors. All ranks of the mesh must run the same plans in the same order.
namespace hyper_parallel::torch_layer {

/// Bring a local tensor laid out as `plan.from` into `plan.to`. No autograd of its own.
///
/// The result is `local` itself if the plan has no steps; else it shares no memory with it.
/// Throws UsageError: this rank is not in the mesh, `local` has not the shape that it should have.
at::Tensor execute(const plan::Plan& plan, const at::Tensor& local);

/// The same, differentiable: the backward pass runs the transposed plan and is differentiable
/// itself. A null plan has no steps.
///
/// `backward_dtype`: the dtype in which the cotangent is sent and reduced, if not its own.
/// Throws UnsupportedError: `local` requires grad and a layout has P(max), P(min) or P(prod).
at::Tensor redistribute(const std::shared_ptr<const plan::Plan>& plan, const at::Tensor& local,
                        std::optional<at::ScalarType> backward_dtype = std::nullopt);

/// `plan` as an exchange; null for a plan without steps.
ExchangePtr exchange_of(const std::shared_ptr<const plan::Plan>& plan);

/// Several plans at once. Their next steps that agree in kind, group, op and dtype become one
/// collective on one buffer: gathers, reduce-scatters and all-reduces. Results may share one
/// memory block, each in its own part. No autograd. `backward` is for the record only.
class PendingPlans {
 public:
  PendingPlans(const std::vector<std::shared_ptr<const plan::Plan>>& plans,
               const std::vector<at::Tensor>& locals, bool backward = false);
  PendingPlans(PendingPlans&&) noexcept;
  PendingPlans& operator=(PendingPlans&&) noexcept;
  ~PendingPlans();

  /// The results. Once, in the same order on all ranks. The first collective is under way until
  /// then.
  std::vector<at::Tensor> wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The same, waited for.
std::vector<at::Tensor> execute_coalesced(
    const std::vector<std::shared_ptr<const plan::Plan>>& plans,
    const std::vector<at::Tensor>& locals, bool backward = false);

}  // namespace hyper_parallel::torch_layer
