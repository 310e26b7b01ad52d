#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/dispatch/frame.h"
#include "hyper_parallel/torch/dispatch/local_call.h"
#include "hyper_parallel/torch/dispatch/mixed.h"
#include "hyper_parallel/torch/ranks/rank_state.h"
#include "hyper_parallel/torch/tensor/bridge.h"

// From ATen/functorch/DynamicLayer.h, which cannot be included: it needs headers that torch lacks.
namespace at::functorch {
TORCH_API Tensor unwrapIfDead(const Tensor& tensor);
}

namespace hyper_parallel::torch_layer {
namespace {

std::uint64_t hash_of(const PlanKey& key) {
  std::uint64_t h = 0x9e3779b97f4a7c15ULL;
  for (std::uint64_t word : key) {
    h = (h ^ word) * 0xff51afd7ed558ccdULL;
    h ^= h >> 32;
  }
  return h;
}

thread_local CallObserver* observer = nullptr;

/// The op runs on this rank's parts. What it writes stays in the wrapper, other results are plain.
void run_on_locals(Frame& f) {
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 4> written;  // part, wrapper
  replace_tensors(f, [&](const at::Tensor& t, const OpInfo::Argument& a) {
    if (!is_dtensor(t)) return t;
    const at::Tensor local = local_for_use(t);
    if (a.written) written.emplace_back(local, t);
    return local;
  });
  f.op.callBoxed(f.stack);
  for (const auto& [local, wrapper] : written) {
    refresh(wrapper, local, impl_of(wrapper)->layout(), wrapper.sizes());
    const std::size_t first = f.stack->size() - f.info.written_return.size();
    for (std::size_t r = first; r < f.stack->size(); ++r) {
      c10::IValue& v = (*f.stack)[r];
      if (v.isTensor() && v.toTensor().is_same(local)) v = wrapper;
    }
  }
}

// Run the code that an op is made of. Some read memory (lengths in a tensor): these run whole.
void decompose(Frame& f) {
  const auto first = f.stack->begin() + static_cast<std::ptrdiff_t>(f.base);
  const torch::jit::Stack arguments(first, f.stack->end());
  try {
    f.op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *f.stack);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (f.info.writes || text.find("that doesn't have storage") == std::string::npos) throw;
    f.stack->resize(f.base);
    f.stack->insert(f.stack->end(), arguments.begin(), arguments.end());
    dispatch(f);
  }
}

// Inside torch.func's transforms an op would run on parts whose wrapper the transform cannot see:
// tangents would be lost without a word. Below the last transform nothing is included any more.
void check_no_transform(const Frame& f) {
  constexpr auto kFront = c10::DispatchKey::FuncTorchDynamicLayerFrontMode;
  if (!c10::impl::tls_is_dispatch_key_included(kFront)) return;
  throw UnsupportedError(
      Message("HP-D017", f.info.name + ": a transform of torch.func does not see into this DTensor")
          .hint("loss.backward() or torch.autograd.functional; torch.func.grad takes DTensors that "
                "are arguments of its function"));
}

bool is_transformed(const c10::IValue& v) {
  return v.isTensor() && v.toTensor().key_set().has(c10::DispatchKey::FuncTorchGradWrapper);
}

// What a transform of torch.func saved may be used after its end (`vjp` gives a function): then it
// stands for the DTensor that it holds, and is no plain tensor.
void take_out_of_ended_transforms(Frame& f) {
  bool any = false;
  for (std::size_t i = 0; i < f.count() && !any; ++i) {
    const c10::IValue& v = f.argument(i);
    if (f.info.arguments[i].tensor) {
      any = is_transformed(v);
    } else if (f.info.arguments[i].list && !v.isNone()) {
      const auto items = v.toListRef();
      any = std::any_of(items.begin(), items.end(), &is_transformed);
    }
  }
  if (!any) return;
  replace_tensors(f, [](at::Tensor t, const OpInfo::Argument&) {
    while (true) {
      at::Tensor inside = at::functorch::unwrapIfDead(t);
      if (inside.is_same(t)) return t;
      t = std::move(inside);
    }
  });
}

void route(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const OpInfo& info = op_info(op);
  Frame frame(op, info, stack);
  check_no_transform(frame);
  take_out_of_ended_transforms(frame);
  if (settings().skip) return run_on_locals(frame);
  switch (info.kind) {
    case OpInfo::Kind::special:
      if (observer != nullptr) observer->before(frame, nullptr);
      info.special(frame);
      return;
    case OpInfo::Kind::transparent: {
      c10::impl::ExcludeDispatchKeyGuard guard(kDTensorKey);
      op.callBoxed(stack);
      return;
    }
    case OpInfo::Kind::decompose:
      decompose(frame);
      return;
    case OpInfo::Kind::rule:
    case OpInfo::Kind::unknown:
      dispatch(frame);
      return;
  }
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  at_border([&] { route(op, stack); });
}

}  // namespace

void dispatch(Frame& frame) {
  if (frame.info.per_member && run_in_groups(frame)) return;
  Operands operands;
  PlanKey key;
  read_call(frame, operands, key);
  if (operands.several_meshes) {
    take_numbers_by_value(frame, operands);
    return dispatch(frame);
  }
  if (operands.mesh == nullptr) {
    throw UnsupportedError(
        Message("HP-D014", frame.info.name + ": a DTensor stands where tensors cannot be found")
            .hint("to_local() or full_tensor() first"));
  }
  PlanCache& cache = PlanCache::of_thread();
  const std::uint64_t hash = hash_of(key);
  // Held here: a call inside this one may empty the cache.
  std::shared_ptr<const OpPlan> plan = cache.find(key, hash);
  if (plan == nullptr) {
    ++cache.misses;
    plan = cache.insert(key, hash, make_plan(frame, operands));
  } else {
    ++cache.hits;
  }
  run_plan(frame, *plan, operands);
}

CallObserver* observe_calls(CallObserver* next) { return std::exchange(observer, next); }

void run_plan(Frame& frame, const OpPlan& plan, Operands& operands) {
  if (observer != nullptr) observer->before(frame, &plan);
  std::visit([&](const auto& kind) { run(kind, frame, plan, operands); }, plan.kind);
}

TORCH_LIBRARY_IMPL(_, HP_DISPATCH_KEY, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace hyper_parallel::torch_layer
