// Draws that only the whole op can make: exact ones whose numbers depend on values, out of order.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/dispatch/draw.h"
#include "hyper_parallel/torch/draws/draws.h"
#include "hyper_parallel/torch/draws/noise.h"
#include "hyper_parallel/torch/ranks/rank_stream.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer {
namespace draws {
namespace {

// Operands whose values matter come whole; those that only lend their shape are empty.
at::Tensor whole_operand(const at::Tensor& t, bool shape_only) {
  if (!is_dtensor(t)) return t;
  const auto options = impl_of(t)->local().options();
  if (shape_only) {
    const auto strides = dense_strides(t);
    return strides.empty() ? at::empty(t.sizes(), options)
                           : at::empty_strided(t.sizes(), strides, options);
  }
  return to_local_as(t, Layout::replicated(impl_of(t)->layout()->mesh()));
}

}  // namespace

void whole(Frame& f, const OpPlan& plan, Operands& operands, bool shape_only) {
  const bool in_place = f.info.writes;
  const at::Tensor self = operands.tensors[0];
  if (in_place && is_dtensor(self)) check_writable(f, self);
  bool first = true;
  replace_tensors(f, [&](const at::Tensor& t, const OpInfo::Argument&) {
    return whole_operand(t, shape_only && std::exchange(first, false));
  });
  {
    Drawing drawing;
    f.op.callBoxed(f.stack);
  }
  const std::size_t returns = f.info.written_return.size();
  for (std::size_t r = 0; r < returns; ++r) {
    c10::IValue& v = (*f.stack)[f.stack->size() - returns + r];
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    const at::Tensor all = v.toTensor();
    const Layout* layout = in_place ? impl_of(self)->layout() : plan.outputs[r];
    const at::Tensor part = move(all, Layout::replicated(plan.mesh), layout, all.sizes());
    if (in_place) {
      at::Tensor target = local_for_use(self);
      target.copy_(part);
      refresh(self, target, layout, self.sizes());
      v = self;
    } else {
      v = wrap(part, layout, all.sizes());
    }
  }
}

at::Tensor local_operand(const OpPlan& plan, const Operands& operands, std::size_t i) {
  const at::Tensor& t = operands.tensors[i];
  if (!t.defined()) return t;
  const at::Tensor local = is_dtensor(t) ? local_for_use(t) : border_in(t, plan.mesh);
  return plan.inputs[i].plan ? redistribute(plan.inputs[i].plan, local) : local;
}

void leave(Frame& f, std::initializer_list<at::Tensor> results) {
  f.stack->resize(f.base);
  for (const at::Tensor& t : results) f.stack->emplace_back(t);
}

}  // namespace draws

Draw find_draw(rules::RowOptions::Draw kind) {
  using Kind = rules::RowOptions::Draw;
  switch (kind) {
    case Kind::dropout:
      return draws::dropout;
    case Kind::fill:
      return draws::fill;
    case Kind::slopes:
      return draws::slopes;
    case Kind::layers:
      return draws::layers;
    case Kind::attention:
      return draws::attention;
    case Kind::values:
      break;
  }
  return draws::values;
}

void run(const RunDraw& how, Frame& f, const OpPlan& plan, Operands& operands) {
  if (f.info.has_out || operands.tensors.empty()) {
    throw UnsupportedError(Message("HP-D016", f.info.name + " with out= draws no numbers here")
                               .hint("use the form that returns a new tensor"));
  }
  how.draw(f, plan, operands);
}

}  // namespace hyper_parallel::torch_layer
