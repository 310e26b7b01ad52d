#include "hyper_parallel/torch/comm/exchange.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "hyper_parallel/torch/base/cause.h"
#include "hyper_parallel/torch/base/graph_node.h"

namespace hyper_parallel::torch_layer {

struct ExchangeBackward final : GraphNode {
  ExchangePtr transposed;
  std::optional<at::ScalarType> dtype;
  std::string op;  // the cause of the forward run
  std::string reason;

  variable_list backward(variable_list&& grads) override {
    // A rank whose gradient is undefined must not skip the collective that others wait in.
    at::Tensor grad = grads[0].defined() ? std::move(grads[0]) : input_metadata(0).zeros_like();
    const at::ScalarType own = grad.scalar_type();
    std::optional<CauseGuard> guard;
    if (!op.empty() || !reason.empty()) guard.emplace(op, reason);
    variable_list out(num_outputs());
    if (dtype && *dtype != own) {
      out[0] = run(transposed, grad.to(*dtype), {.backward_dtype = own}).to(own);
    } else {
      out[0] = run(transposed, grad, {.backward_dtype = dtype});
    }
    return out;
  }

  std::string name() const override { return "ExchangeBackward"; }
};

namespace {

using NodePtr = c10::intrusive_ptr<ExchangeBackward>;

/// The node of a run on `x`, null where nothing requires grad. Made before anything is sent: a map
/// that is not linear is refused with no rank waiting.
NodePtr node_of(const ExchangePtr& exchange, const at::Tensor& x, const ExchangeOptions& options) {
  if (!torch::autograd::compute_requires_grad(x, options.anchor)) {
    if (x._fw_grad(0).defined()) (void)exchange->transposed();
    return {};
  }
  auto node = c10::make_intrusive<ExchangeBackward>();
  node->transposed = exchange->transposed();
  node->dtype = options.backward_dtype;
  if (const Cause& cause = current_cause(); cause.op != nullptr) {
    node->op = *cause.op;
    node->reason = *cause.reason;
  }
  node->add_next_edge(torch::autograd::impl::gradient_edge(x));
  if (options.anchor.defined()) {
    node->add_next_edge(torch::autograd::impl::gradient_edge(options.anchor));
  }
  return node;
}

/// Put `out`, which `exchange` made of `x`, into the graph.
at::Tensor joined(const ExchangePtr& exchange, const at::Tensor& x, NodePtr node, at::Tensor out) {
  if (node) torch::autograd::set_history(out, std::move(node));
  const at::Tensor& tangent = x._fw_grad(0);
  if (tangent.defined()) out._set_fw_grad(run(exchange, tangent), 0, false);
  return out;
}

}  // namespace

at::Tensor run(const ExchangePtr& exchange, const at::Tensor& x, const ExchangeOptions& options) {
  NodePtr node = node_of(exchange, x, options);
  at::Tensor out;
  if (exchange->keeps(x)) {
    // A view that says so: a write to it would change `x` behind the back of the graph.
    at::NoGradGuard no_grad;
    out = x.view_as(x);
  } else {
    at::AutoDispatchBelowADInplaceOrView guard;
    out = exchange->execute(x);
  }
  return joined(exchange, x, std::move(node), std::move(out));
}

struct PendingExchange::State {
  ExchangePtr exchange;
  at::Tensor x;
  c10::intrusive_ptr<ExchangeBackward> node;
  std::string op;  // the cause at the start
  std::string reason;
  std::unique_ptr<Flight> flight;
  at::Tensor result;
};

PendingExchange::PendingExchange(const ExchangePtr& exchange, const at::Tensor& x,
                                 const ExchangeOptions& options)
    : state_(std::make_unique<State>()) {
  state_->exchange = exchange;
  state_->x = x;
  state_->node = node_of(exchange, x, options);
  if (const Cause& cause = current_cause(); cause.op != nullptr) {
    state_->op = *cause.op;
    state_->reason = *cause.reason;
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  state_->flight = exchange->issue(x);
}

PendingExchange::PendingExchange(PendingExchange&&) noexcept = default;
PendingExchange& PendingExchange::operator=(PendingExchange&&) noexcept = default;
PendingExchange::~PendingExchange() = default;

const at::Tensor& PendingExchange::wait() {
  State& s = *state_;
  if (s.result.defined()) return s.result;
  std::optional<CauseGuard> cause;
  if (!s.op.empty() || !s.reason.empty()) cause.emplace(s.op, s.reason);
  at::Tensor out;
  {
    at::AutoDispatchBelowADInplaceOrView guard;
    out = s.flight->land();
  }
  s.flight.reset();
  s.result = joined(s.exchange, s.x, std::move(s.node), std::move(out));
  s.x.reset();
  return s.result;
}

}  // namespace hyper_parallel::torch_layer
