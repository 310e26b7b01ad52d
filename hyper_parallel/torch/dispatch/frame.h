#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include "hyper_parallel/torch/dispatch/op_info.h"
#include "hyper_parallel/torch/dispatch/plan_cache.h"

namespace hyper_parallel::rules {
struct Call;
struct Inference;
}  // namespace hyper_parallel::rules

namespace hyper_parallel::torch_layer {

/// One intercepted call: the op and its arguments on the stack.
struct Frame {
  const c10::OperatorHandle& op;
  const OpInfo& info;
  torch::jit::Stack* stack;
  std::size_t base;  // where the arguments begin

  Frame(const c10::OperatorHandle& op, const OpInfo& info, torch::jit::Stack* stack)
      : op(op), info(info), stack(stack), base(stack->size() - info.arguments.size()) {}

  c10::IValue& argument(std::size_t i) const { return (*stack)[base + i]; }
  std::size_t count() const { return info.arguments.size(); }
};

/// Replace each tensor argument, members of lists too, by `change(tensor, argument)`.
template <class F>
void replace_tensors(Frame& f, F change) {
  for (std::size_t i = 0; i < f.count(); ++i) {
    const OpInfo::Argument& a = f.info.arguments[i];
    c10::IValue& v = f.argument(i);
    if (a.tensor) {
      if (v.isTensor() && v.toTensor().defined()) v = change(v.toTensor(), a);
    } else if (a.list && v.isTensorList()) {
      c10::List<at::Tensor> all;
      for (const at::Tensor& t : v.toTensorVector()) all.push_back(change(t, a));
      v = std::move(all);
    } else if (a.list && !v.isNone()) {
      c10::List<std::optional<at::Tensor>> some;
      for (const std::optional<at::Tensor>& t : v.toOptionalTensorVector()) {
        some.push_back(t && t->defined() ? std::optional<at::Tensor>(change(*t, a)) : t);
      }
      v = std::move(some);
    }
  }
}

/// The tensor operands of a call, lists flattened; undefined tensors stand for absent ones.
struct Operands {
  c10::SmallVector<at::Tensor, 8> tensors;
  c10::SmallVector<int, 8> argument;  // which argument each one comes from
  const Mesh* mesh = nullptr;
  bool plain_write = false;     // a plain tensor would be written
  bool several_meshes = false;  // not all DTensors lie on `mesh`
};

/// Collect the operands and the key of the plan. The key is of no use if `several_meshes`.
void read_call(const Frame& frame, Operands& operands, PlanKey& key);

/// Infer and price: the slow path of a call that was not seen before.
std::unique_ptr<OpPlan> make_plan(const Frame& frame, const Operands& operands);

/// Throws UsageError: a leaf that requires grad (HP-D003) or a copied view (HP-D011) would be
/// written.
void check_writable(const Frame& frame, const at::Tensor& t);

/// Whether the result of the call will need a graph.
bool wants_grad(const Operands& operands);

/// True for the number 0. Of a float argument the key of a plan holds one thing: whether it is 0.
bool is_zero(const c10::IValue& v);

/// The call as rules see it. Plain tensors have no layout.
rules::Call make_call(const Frame& frame, const Operands& operands);

/// The plan of a call whose strategy is chosen; `make_plan` above takes the cheapest, the verifier
/// each one.
std::unique_ptr<OpPlan> make_plan(const Frame& frame, const Operands& operands,
                                  const rules::Call& call, const rules::Inference& inference);

/// Run `plan` by the function of its kind and leave wrapped results on the stack. The observer of
/// the thread is told first.
void run_plan(Frame& frame, const OpPlan& plan, Operands& operands);

/// Told of each call before it runs: the op, its arguments as the caller gave them (wrappers), and
/// the plan, null for an op that is handled whole (OpInfo::special). Reads of a value on the host
/// are ops like others (aten::item); ops that draw have a plan of kind RunDraw.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  virtual void before(const Frame& frame, const OpPlan* plan) = 0;
};

/// Let `observer` (null: nobody) be told of the calls of this thread; returns who was told before.
CallObserver* observe_calls(CallObserver* observer);

/// The whole path: read, find or make the plan, run it.
void dispatch(Frame& frame);

}  // namespace hyper_parallel::torch_layer
