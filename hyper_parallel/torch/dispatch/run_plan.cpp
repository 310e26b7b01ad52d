#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/variable.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/base/cause.h"
#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/dispatch/check_mode.h"
#include "hyper_parallel/torch/dispatch/frame.h"
#include "hyper_parallel/torch/dispatch/running_statistics.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "hyper_parallel/torch/ranks/rank_state.h"
#include "hyper_parallel/torch/tensor/bridge.h"
#include "hyper_parallel/torch/tensor/moved.h"

namespace hyper_parallel::torch_layer {
namespace {

[[noreturn]] void throw_sparse(const Frame& f, const at::Tensor& t) {
  throw UnsupportedError(
      Message("HP-D025", f.info.name + ": a sparse tensor cannot be a part of a DTensor")
          .fact("tensor", c10::str(t.scalar_type(), t.sizes(), " ", t.layout()))
          .hint("to_dense() first, or run the op on full_tensor() of the others"));
}

at::Tensor input_local(const Frame& f, const OpPlan& plan, const OpInfo::Argument& a,
                       const at::Tensor& t, const OpPlan::Input& input) {
  if (!t.defined()) return t;
  if (!is_dtensor(t)) {
    if (t.layout() != at::kStrided && (input.plan || t.requires_grad())) throw_sparse(f, t);
    if (settings().checking) check_equal_on_ranks(f.info.name, t, plan.mesh);
    at::Tensor local = border_in(t, plan.mesh);
    return input.plan ? redistribute(input.plan, local) : local;
  }
  if (!input.plan) return local_for_use(t);
  const CauseGuard guard(f.info.name, input.reason);
  // A copy that the op writes is nobody else's.
  return a.written ? redistribute(input.plan, local_for_use(t)) : moved(t, input.plan);
}

void check_writable(const Frame& f, const at::Tensor& t) {
  if (at::GradMode::is_enabled() && t.requires_grad() && t.is_leaf()) {
    throw UsageError(Message("HP-D003", f.info.name +
                                            ": a leaf Variable that requires grad is being "
                                            "used in an in-place operation")
                         .fact("tensor", describe(t))
                         .hint("write under torch.no_grad()"));
  }
  if (impl_of(t)->copied_view()) {
    throw UsageError(Message("HP-D011", f.info.name + ": write through a copied view")
                         .fact("tensor", describe(t))
                         .fact("cause",
                               "making this view needed communication, so it is a copy: "
                               "the write would not reach the tensor it was taken from")
                         .hint("clone() it first, or write to the base with its own layout"));
  }
}

// Give each tensor argument its local value. Only views are compared with their operands later.
void put_locals(Frame& f, c10::SmallVectorImpl<at::Tensor>& locals) {
  std::size_t k = 0;
  for (std::size_t i = 0; i < f.count(); ++i) {
    const OpInfo::Argument& a = f.info.arguments[i];
    if (a.tensor) {
      if (locals[k].defined()) {
        f.argument(i) = f.info.views ? c10::IValue(locals[k]) : c10::IValue(std::move(locals[k]));
      }
      ++k;
    } else if (a.list && !f.argument(i).isNone()) {
      const c10::IValue& old = f.argument(i);
      const bool optional = !old.isTensorList();
      const std::size_t size = old.toListRef().size();
      if (optional) {
        c10::List<std::optional<at::Tensor>> list;
        list.reserve(size);
        for (std::size_t n = 0; n < size; ++n, ++k) {
          list.push_back(locals[k].defined() ? std::optional<at::Tensor>(locals[k]) : std::nullopt);
        }
        f.argument(i) = std::move(list);
      } else {
        c10::List<at::Tensor> list;
        list.reserve(size);
        for (std::size_t n = 0; n < size; ++n, ++k) list.push_back(locals[k]);
        f.argument(i) = std::move(list);
      }
    }
  }
}

c10::IntArrayRef sizes_of(const OpPlan& plan, std::size_t i, const at::Tensor& local) {
  if (plan.dynamic || i >= plan.output_sizes.size()) return local.sizes();
  return plan.output_sizes[i];
}

const Layout* layout_of(const OpPlan& plan, std::size_t i) {
  return plan.replicate ? Layout::replicated(plan.mesh) : plan.outputs[i];
}

// out= arguments: the op fills a fresh local tensor, which then becomes the value of the wrapper.
void store_out(const at::Tensor& out, const at::Tensor& local, const Layout* layout,
               c10::IntArrayRef sizes) {
  DTensorImpl* d = impl_of(out);
  if (out.sizes() != sizes) {
    refresh(out, local, layout, sizes);
    return;
  }
  const at::Tensor value = move(local, layout, d->layout(), sizes);
  at::Tensor target = d->local();
  target.copy_(value);
  refresh(out, target, d->layout(), sizes);
}

struct Written {
  std::size_t operand;
  at::Tensor wrapper;
  at::Tensor local;  // what the op writes
};

/// A running statistic that the op wrote elsewhere: its value in the layout and sizes of `t`. Where
/// it is pending, the first rank keeps it in a sum or product; of the other kinds all may.
void bring_back(const at::Tensor& t, const at::Tensor& value, const OpPlan& plan,
                const OpPlan::Input& input) {
  const at::NoGradGuard no_grad;
  const Layout* whole = Layout::replicated(plan.mesh);
  const Layout* layout = is_dtensor(t) ? impl_of(t)->layout() : whole;
  at::Tensor target = is_dtensor(t) ? local_for_use(t) : t;
  target.copy_(move(value, input.layout, layout->reduced(), t.sizes()));
  for (int axis = 0; layout->has_partial() && axis < plan.mesh->ndim(); ++axis) {
    if (my_coordinate(plan.mesh)[static_cast<std::size_t>(axis)] == 0) continue;
    if (layout->placement(axis).is_partial(ReduceOp::sum)) target.zero_();
    if (layout->placement(axis).is_partial(ReduceOp::prod)) target.fill_(1);
  }
  if (is_dtensor(t)) refresh(t, target, layout, t.sizes());
}

const Written* find_written(const Operands& operands, c10::ArrayRef<Written> written,
                            int argument) {
  for (const Written& w : written) {
    if (operands.argument[w.operand] == argument) return &w;
  }
  return nullptr;
}

}  // namespace

void run_plan(Frame& f, const OpPlan& plan, Operands& operands) {
  const std::size_t count = operands.tensors.size();
  c10::SmallVector<at::Tensor, 8> locals;
  c10::SmallVector<Written, 2> written;
  c10::SmallVector<std::pair<std::size_t, at::Tensor>, 2> moved_statistics;
  for (std::size_t i = 0; i < count; ++i) {
    const at::Tensor& t = operands.tensors[i];
    const OpInfo::Argument& a = f.info.arguments[static_cast<std::size_t>(operands.argument[i])];
    if (a.out && is_dtensor(t)) {
      check_writable(f, t);
      locals.push_back(at::empty({0}, impl_of(t)->local().options()));
      written.push_back({i, t, locals.back()});
      continue;
    }
    const OpPlan::Input& input = plan.inputs[i];
    const auto argument = static_cast<std::size_t>(operands.argument[i]);
    if (input.plan && is_updated_statistic(f, argument)) {
      // Nobody else may hold what the op writes.
      locals.push_back(redistribute(input.plan, is_dtensor(t) ? local_for_use(t) : t).clone());
      moved_statistics.emplace_back(i, locals.back());
      continue;
    }
    const bool writes = a.written && is_dtensor(t) && !input.scratch;
    if (writes) check_writable(f, t);
    locals.push_back(input_local(f, plan, a, t, input));
    if (writes) written.push_back({i, t, locals.back()});
  }
  put_locals(f, locals);
  for (const OpPlan::Replaced& r : plan.replaced) {
    f.argument(static_cast<std::size_t>(r.argument)) = r.value;
  }
  if (plan.handler != nullptr) {
    const CauseGuard guard(f.info.name, plan.handler_reason);
    plan.handler(f.op, plan, f.stack);
  } else {
    f.op.callBoxed(f.stack);
  }

  for (const auto& [i, value] : moved_statistics) {
    bring_back(operands.tensors[i], value, plan, plan.inputs[i]);
  }
  // Writes: the wrapper keeps its layout; where the op ran on a copy, the value goes back.
  const std::size_t returns = f.info.written_return.size();
  const std::size_t first = f.stack->size() - returns;
  for (const Written& w : written) {
    const OpInfo::Argument& a =
        f.info.arguments[static_cast<std::size_t>(operands.argument[w.operand])];
    std::size_t k = 0;
    at::Tensor value = w.local;
    const Layout* layout = impl_of(w.wrapper)->layout();
    Shape sizes(w.wrapper.sizes().begin(), w.wrapper.sizes().end());
    for (; k < returns; ++k) {
      if (f.info.written_return[k] == operands.argument[w.operand]) break;
    }
    if (k < returns && (*f.stack)[first + k].isTensor()) {
      value = (*f.stack)[first + k].toTensor();
      if (!plan.replicate) layout = plan.outputs[k];
      const auto s = sizes_of(plan, k, value);
      sizes.assign(s.begin(), s.end());
    }
    if (a.out) {
      store_out(w.wrapper, value, plan.replicate ? Layout::replicated(plan.mesh) : layout, sizes);
    } else if (plan.inputs[w.operand].plan ||
               (plan.handler != nullptr && !value.is_same(w.local))) {
      at::Tensor target = local_for_use(w.wrapper);
      target.copy_(plan.replicate ? move(value, Layout::replicated(plan.mesh),
                                         impl_of(w.wrapper)->layout(), w.wrapper.sizes())
                                  : value);
      refresh(w.wrapper, target, impl_of(w.wrapper)->layout(), w.wrapper.sizes());
    } else {
      refresh(w.wrapper, value, layout, sizes);
    }
  }

  std::size_t k = 0;  // results, lists flattened
  for (std::size_t r = 0; r < returns; ++r) {
    c10::IValue& v = (*f.stack)[first + r];
    if (const Written* w = f.info.written_return[r] < 0
                               ? nullptr
                               : find_written(operands, written, f.info.written_return[r])) {
      v = w->wrapper;
      ++k;
    } else if (v.isTensor()) {
      if (!v.toTensor().defined()) {
        ++k;
        continue;
      }
      at::Tensor local = std::move(v).toTensor();
      // An op that returns its operand itself (contiguous, to) gives back the same wrapper.
      if (f.info.view_return[r] && count > 0 && is_dtensor(operands.tensors[0]) &&
          !plan.inputs[0].plan && local.is_same(locals[0]) &&
          layout_of(plan, k) == impl_of(operands.tensors[0])->layout()) {
        v = operands.tensors[0];
        ++k;
        continue;
      }
      if (local.layout() != at::kStrided) throw_sparse(f, local);
      const auto sizes = sizes_of(plan, k, local);
      at::Tensor out = wrap(std::move(local), layout_of(plan, k), sizes);
      if (f.info.view_return[r] && is_dtensor(operands.tensors[0])) {
        impl_of(out)->set_copied_view(plan.inputs[0].plan != nullptr ||
                                      impl_of(operands.tensors[0])->copied_view());
      }
      v = std::move(out);
      ++k;
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const c10::IValue& item : v.toListRef()) {
        const at::Tensor& local = item.toTensor();
        at::Tensor out = wrap(local, layout_of(plan, k), sizes_of(plan, k, local));
        if (f.info.view_return[r] && is_dtensor(operands.tensors[0])) {
          impl_of(out)->set_copied_view(plan.inputs[0].plan != nullptr ||
                                        impl_of(operands.tensors[0])->copied_view());
        }
        list.push_back(std::move(out));
        ++k;
      }
      v = std::move(list);
    }
  }
}

}  // namespace hyper_parallel::torch_layer
