// Random numbers: what one device would draw. Every rank draws the whole result from its own stream
// (rank_stream.h) and keeps its part, so replicas agree and the layout does not matter.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/dispatch/draw.h"
#include "hyper_parallel/torch/dispatch/local_call.h"
#include "hyper_parallel/torch/ranks/rank_stream.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer {
namespace {

// The factor of each element, 0 or 1 / (1 - p): the same numbers as in dropout of the whole. Where
// the operand is P all ranks multiply by the same.
at::Tensor dropout_factor(const Frame& f, const OpPlan& plan, const at::Tensor& t) {
  at::NoGradGuard no_grad;
  const double p = f.argument(1).toDouble();
  at::Tensor whole;
  {
    Drawing drawing;
    whole = at::dropout(at::ones(t.sizes(), impl_of(t)->local().options()), p, true);
  }
  return move(whole, Layout::replicated(plan.mesh), plan.outputs[0]->reduced(), t.sizes());
}

void draw_dropout(Frame& f, const OpPlan& plan, Operands& operands) {
  const at::Tensor t = operands.tensors[0];
  at::Tensor local = local_for_use(t);
  if (plan.inputs[0].plan) local = redistribute(plan.inputs[0].plan, local);
  const at::Tensor factor = dropout_factor(f, plan, t);
  at::Tensor result;
  if (f.info.writes) {
    local.mul_(factor);
    refresh(t, local, impl_of(t)->layout(), t.sizes());
    result = t;
  } else {
    result = wrap(at::mul(local, factor), plan.outputs[0], t.sizes());
  }
  f.stack->erase(f.stack->begin() + static_cast<std::ptrdiff_t>(f.base), f.stack->end());
  f.stack->push_back(result);
}

// The slopes of negative elements are drawn one after the other, so which one an element gets
// depends on the signs of all before it. The op writes the slopes to its second operand, and 1
// where the element is not negative.
void draw_rrelu(Frame& f, const OpPlan& plan, Operands& operands) {
  const bool in_place = f.info.written_return[0] == 0;
  const at::Tensor t = operands.tensors[0];
  const Layout* whole = Layout::replicated(plan.mesh);
  const Layout* own = is_dtensor(t) ? impl_of(t)->layout() : whole;
  const Layout* layout = in_place ? own : plan.outputs[0];
  at::Tensor local = is_dtensor(t) ? local_for_use(t) : border_in(t, plan.mesh);
  if (plan.inputs[0].plan) local = redistribute(plan.inputs[0].plan, local);
  at::Tensor slope;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor x = move(is_dtensor(t) ? impl_of(t)->local() : t, own, whole, t.sizes());
    const at::Tensor noise = at::empty_like(x);
    f.argument(0) = in_place ? x.clone() : x.contiguous();
    f.argument(1) = noise;
    Drawing drawing;
    f.op.callBoxed(f.stack);
    slope = move(noise, whole, layout, t.sizes());
  }
  const at::Tensor noise = operands.tensors[1];
  at::Tensor result;
  if (in_place) {
    local.mul_(slope);
    refresh(t, local, layout, t.sizes());
    result = t;
  } else {
    result = wrap(at::mul(local, slope), layout, t.sizes());
  }
  if (is_dtensor(noise)) {
    refresh(noise, move(slope, layout, impl_of(noise)->layout(), t.sizes()),
            impl_of(noise)->layout(), t.sizes());
  }
  f.stack->back() = result;
}

// Operands whose values matter come whole; those that only lend their shape are empty.
at::Tensor whole_operand(const at::Tensor& t, bool shape_only) {
  if (!is_dtensor(t)) return t;
  if (shape_only) return at::empty(t.sizes(), impl_of(t)->local().options());
  const Layout* layout = impl_of(t)->layout();
  return move(local_for_use(t), layout, Layout::replicated(layout->mesh()), t.sizes());
}

// The op itself on whole operands; each rank keeps its part of the results. `shape_only`: the
// values of the first operand do not matter.
void draw_whole(Frame& f, const OpPlan& plan, Operands& operands, bool shape_only) {
  const bool in_place = f.info.writes;
  if (f.info.has_out || operands.tensors.empty()) {
    throw UnsupportedError(Message("HP-D016", f.info.name + " with out= draws no numbers here")
                               .hint("use the form that returns a new tensor"));
  }
  const at::Tensor self = operands.tensors[0];
  std::size_t k = 0;
  for (std::size_t i = 0; i < f.count(); ++i) {
    if (!f.info.arguments[i].tensor) continue;
    if (operands.tensors[k].defined()) {
      f.argument(i) = whole_operand(operands.tensors[k], shape_only && k == 0);
    }
    ++k;
  }
  {
    Drawing drawing;
    f.op.callBoxed(f.stack);
  }
  const std::size_t first = f.stack->size() - f.info.written_return.size();
  for (std::size_t r = 0; r < f.info.written_return.size(); ++r) {
    c10::IValue& v = (*f.stack)[first + r];
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    const at::Tensor whole = v.toTensor();
    const Layout* layout = in_place ? impl_of(self)->layout() : plan.outputs[r];
    const at::Tensor part = move(whole, Layout::replicated(plan.mesh), layout, whole.sizes());
    if (in_place) {
      at::Tensor target = local_for_use(self);
      target.copy_(part);
      refresh(self, target, layout, self.sizes());
      v = self;
    } else {
      v = wrap(part, layout, whole.sizes());
    }
  }
}

void draw_values(Frame& f, const OpPlan& plan, Operands& operands) {
  draw_whole(f, plan, operands, false);
}

void draw_fill(Frame& f, const OpPlan& plan, Operands& operands) {
  draw_whole(f, plan, operands, true);
}

struct NamedDraw {
  std::string_view op;  // all its overloads
  Draw draw;
};

// Any other op that draws: draw_values.
constexpr NamedDraw kDraws[] = {
    {"aten::bernoulli_", draw_fill},        {"aten::cauchy_", draw_fill},
    {"aten::dropout", draw_dropout},        {"aten::dropout_", draw_dropout},
    {"aten::exponential_", draw_fill},      {"aten::geometric_", draw_fill},
    {"aten::log_normal_", draw_fill},       {"aten::normal_", draw_fill},
    {"aten::rand_like", draw_fill},         {"aten::randint_like", draw_fill},
    {"aten::randn_like", draw_fill},        {"aten::random_", draw_fill},
    {"aten::rrelu_with_noise", draw_rrelu}, {"aten::rrelu_with_noise_", draw_rrelu},
    {"aten::uniform_", draw_fill},
};

}  // namespace

Draw find_draw(std::string_view op) {
  for (const NamedDraw& d : kDraws) {
    if (d.op == op) return d.draw;
  }
  return draw_values;
}

void run(const RunDraw& how, Frame& f, const OpPlan& plan, Operands& operands) {
  how.draw(f, plan, operands);
}

}  // namespace hyper_parallel::torch_layer
