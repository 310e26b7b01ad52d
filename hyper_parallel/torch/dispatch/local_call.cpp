#include "hyper_parallel/torch/dispatch/local_call.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/variable.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/torch/base/cause.h"
#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/dispatch/check_mode.h"
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

}  // namespace

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

void LocalCall::enter() {
  Frame& f = frame_;
  for (std::size_t i = 0; i < operands_.tensors.size(); ++i) {
    const at::Tensor& t = operands_.tensors[i];
    const auto argument = static_cast<std::size_t>(operands_.argument[i]);
    const OpInfo::Argument& a = f.info.arguments[argument];
    if (a.out && is_dtensor(t)) {
      check_writable(f, t);
      locals_.push_back(at::empty({0}, impl_of(t)->local().options()));
      written_.push_back({i, t, locals_.back()});
      continue;
    }
    const OpPlan::Input& input = plan_.inputs[i];
    if (input.plan && is_updated_statistic(f, argument)) {
      // Nobody else may hold what the op writes.
      locals_.push_back(redistribute(input.plan, is_dtensor(t) ? local_for_use(t) : t).clone());
      statistics_.emplace_back(i, locals_.back());
      continue;
    }
    const bool writes = a.written && is_dtensor(t) && !input.scratch;
    if (writes) check_writable(f, t);
    locals_.push_back(input_local(f, plan_, a, t, input));
    if (writes) written_.push_back({i, t, locals_.back()});
  }
  put_locals();
  for (const OpPlan::Replaced& r : plan_.replaced) {
    f.argument(static_cast<std::size_t>(r.argument)) = r.value;
  }
}

// Only views are compared with their operands later.
void LocalCall::put_locals() {
  Frame& f = frame_;
  auto& locals = locals_;
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

c10::IntArrayRef LocalCall::sizes_of(std::size_t result, const at::Tensor& local) const {
  return result < plan_.output_sizes.size() ? plan_.output_sizes[result] : local.sizes();
}

const LocalCall::Written* LocalCall::find_written(int argument) const {
  for (const Written& w : written_) {
    if (operands_.argument[w.operand] == argument) return &w;
  }
  return nullptr;
}

LocalCall::Value LocalCall::value_of(const Written& w, const Layout* unreturned) const {
  const std::vector<int>& returned = frame_.info.written_return;
  const std::size_t first = frame_.stack->size() - returned.size();
  for (std::size_t k = 0; k < returned.size(); ++k) {
    if (returned[k] != operands_.argument[w.operand]) continue;
    if (!(*frame_.stack)[first + k].isTensor()) break;
    const at::Tensor value = (*frame_.stack)[first + k].toTensor();
    return {value, plan_.output(k), sizes_of(k, value).vec()};
  }
  return {w.local, unreturned != nullptr ? unreturned : impl_of(w.wrapper)->layout(),
          w.wrapper.sizes().vec()};
}

// An op that returns its operand itself (contiguous, to) gives back the same wrapper.
bool LocalCall::is_first_operand(const at::Tensor& local, std::size_t result) const {
  if (operands_.tensors.empty()) return false;
  const at::Tensor& first = operands_.tensors[0];
  return is_dtensor(first) && !plan_.inputs[0].plan && local.is_same(locals_[0]) &&
         plan_.output(result) == impl_of(first)->layout();
}

at::Tensor LocalCall::wrapped(at::Tensor local, std::size_t result, bool view) const {
  const auto sizes = sizes_of(result, local);
  at::Tensor out = wrap(std::move(local), plan_.output(result), sizes);
  if (view && is_dtensor(operands_.tensors[0])) {
    impl_of(out)->set_copied_view(plan_.inputs[0].plan != nullptr ||
                                  impl_of(operands_.tensors[0])->copied_view());
  }
  return out;
}

void LocalCall::leave(const Layout* unreturned, Store store) {
  Frame& f = frame_;
  for (const auto& [i, value] : statistics_) {
    bring_back(operands_.tensors[i], value, plan_, plan_.inputs[i]);
  }
  for (const Written& w : written_) {
    const Value value = value_of(w, unreturned);
    const auto argument = static_cast<std::size_t>(operands_.argument[w.operand]);
    if (f.info.arguments[argument].out) {
      store_out(w.wrapper, value.local, value.layout, value.sizes);
    } else {
      store(w, value);
    }
  }

  const std::size_t returns = f.info.written_return.size();
  const std::size_t first = f.stack->size() - returns;
  std::size_t k = 0;  // results, lists flattened
  for (std::size_t r = 0; r < returns; ++r) {
    c10::IValue& v = (*f.stack)[first + r];
    const bool view = f.info.view_return[r];
    const int argument = f.info.written_return[r];
    if (const Written* w = argument < 0 ? nullptr : find_written(argument)) {
      v = w->wrapper;
      ++k;
    } else if (v.isTensor()) {
      if (v.toTensor().defined()) {
        at::Tensor local = std::move(v).toTensor();
        if (view && is_first_operand(local, k)) {
          v = operands_.tensors[0];
        } else {
          if (local.layout() != at::kStrided) throw_sparse(f, local);
          v = wrapped(std::move(local), k, view);
        }
      }
      ++k;
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const c10::IValue& item : v.toListRef())
        list.push_back(wrapped(item.toTensor(), k++, view));
      v = std::move(list);
    }
  }
}

}  // namespace hyper_parallel::torch_layer
