#include "hyper_parallel/torch/tensor/moved.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <array>
#include <mutex>
#include <utility>

#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/ranks/rank_state.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer {
namespace {

constexpr std::uint64_t kKept = 8;

std::uint32_t version_of(const at::Tensor& t) {
  return t.is_inference() ? 0 : static_cast<std::uint32_t>(t._version());
}

bool may_be_kept(const at::Tensor& t, bool grad_mode) {
  const at::Tensor& local = impl_of(t)->local();
  // Wrappers of torch.func have no storage, and end with their transform.
  if (local.is_inference() || !local.has_storage()) return false;
  return !(grad_mode && t.requires_grad() && t.is_leaf());
}

}  // namespace

class MovedMemo {
 public:
  explicit MovedMemo(const at::Tensor& t) : owner_(t), d_(impl_of(t)), recent_(of_rank<Recent>()) {
    now_->version = version_of(d_->local());
    now_->grad_mode = at::GradMode::is_enabled();
    now_->inference = c10::InferenceMode::is_enabled();
    if (!now_->grad_mode) return;
    const at::Tensor& source = has_own_graph(t) ? t : d_->local();
    if (source.requires_grad()) now_->node = torch::autograd::impl::gradient_edge(source).function;
  }

  at::Tensor find(const Layout* layout) const {
    const std::lock_guard lock(recent_.mutex);
    const DTensorImpl::Moved* m = d_->moved_.get();
    const bool found = m != nullptr && recent_.count - m->number < kKept && m->layout == layout &&
                       m->version == now_->version && m->node == now_->node &&
                       m->grad_mode == now_->grad_mode && m->inference == now_->inference &&
                       m->own_version == version_of(m->tensor);
    return found ? m->tensor : at::Tensor();
  }

  void keep(const Layout* layout, const at::Tensor& moved) {
    now_->tensor = moved;
    now_->layout = layout;
    now_->own_version = version_of(moved);
    // Freed after the lock: a graph may hold anything.
    std::unique_ptr<DTensorImpl::Moved> before;
    std::unique_ptr<DTensorImpl::Moved> old;
    c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> old_owner;
    const std::lock_guard lock(recent_.mutex);
    now_->number = ++recent_.count;
    auto& [weak, number] = recent_.owners[now_->number % kKept];
    old_owner = weak.lock();
    if (old_owner.defined()) {
      auto& theirs = static_cast<DTensorImpl*>(old_owner.get())->moved_;
      if (theirs != nullptr && theirs->number == number) old = std::move(theirs);
    }
    weak = DTensorImpl::WeakImpl(owner_.getIntrusivePtr());
    number = now_->number;
    before = std::exchange(d_->moved_, std::move(now_));
  }

 private:
  /// The last moves of a rank. The owners are held weakly, only to drop what is too old: nothing is
  /// decided by whether one is still there.
  struct Recent {
    std::mutex mutex;  // the engine's threads work for this rank too
    std::uint64_t count = 0;
    std::array<std::pair<DTensorImpl::WeakImpl, std::uint64_t>, kKept> owners =
        empty(std::make_index_sequence<kKept>());

    template <std::size_t... I>
    static decltype(owners) empty(std::index_sequence<I...> /*places*/) {
      using Impl = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
      return {((void)I, std::pair(DTensorImpl::WeakImpl(Impl()), std::uint64_t{0}))...};
    }
  };

  const at::Tensor& owner_;
  DTensorImpl* d_;
  Recent& recent_;
  std::unique_ptr<DTensorImpl::Moved> now_ = std::make_unique<DTensorImpl::Moved>();
};

at::Tensor moved(const at::Tensor& t, const std::shared_ptr<const plan::Plan>& plan) {
  if (plan->bytes == 0 || !may_be_kept(t, at::GradMode::is_enabled())) {
    return redistribute(plan, local_for_use(t));
  }
  MovedMemo memo(t);
  at::Tensor known = memo.find(plan->to);
  if (known.defined()) return known;
  known = redistribute(plan, local_for_use(t));
  memo.keep(plan->to, known);
  return known;
}

}  // namespace hyper_parallel::torch_layer
