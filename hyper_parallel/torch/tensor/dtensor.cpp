#include "hyper_parallel/torch/tensor/dtensor.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/tensor/moved.h"

namespace hyper_parallel::torch_layer {
namespace {

PythonHook python_hook = nullptr;

/// A wrapper made while this lives is an inference tensor where its local is one: a view that
/// inference mode makes of another tensor is none.
class InferenceOf {
 public:
  explicit InferenceOf(const at::Tensor& local) {
    if (local.is_inference() != c10::InferenceMode::is_enabled())
      guard_.emplace(!c10::InferenceMode::is_enabled());
  }

 private:
  std::optional<c10::InferenceMode> guard_;
};

}  // namespace

DTensorImpl::DTensorImpl(at::Tensor local, const Layout* layout, c10::IntArrayRef sizes)
    : TensorImpl(c10::DispatchKeySet(kDTensorKey), local.dtype(), local.device()),
      local_(std::move(local)),
      layout_(layout),
      down_node_(c10::intrusive_ptr<c10::intrusive_ptr_target>()) {
  set_geometry(sizes);
  set_storage_access_should_throw();
}

DTensorImpl::~DTensorImpl() = default;

void DTensorImpl::set_geometry(c10::IntArrayRef sizes) {
  if (local_.is_contiguous()) {
    set_sizes_contiguous(sizes);
    return;
  }
  // Local strides, stretched by what the split dims inside have lost. A tensor whose local part has
  // gaps must not look contiguous: `contiguous()` would be skipped, and `view` fail on the part.
  const auto local_sizes = local_.sizes();
  const auto local_strides = local_.strides();
  c10::SmallVector<int, 8> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return local_strides[a] < local_strides[b]; });
  c10::SmallVector<int64_t, 8> strides(sizes.size(), 0);
  double stretch = 1;
  for (int d : order) {
    strides[d] =
        static_cast<std::int64_t>(std::ceil(static_cast<double>(local_strides[d]) * stretch));
    if (local_strides[d] != 0 && local_sizes[d] > 0) {
      stretch *= static_cast<double>(sizes[d]) / static_cast<double>(local_sizes[d]);
    }
  }
  set_sizes_and_strides(sizes, strides);
  if (!is_contiguous() || sizes.empty()) return;
  for (int d : order) {
    if (sizes[d] > 1) strides[d] += 1;
  }
  set_sizes_and_strides(sizes, strides);
}

void DTensorImpl::set(at::Tensor local, const Layout* layout, c10::IntArrayRef sizes) {
  local_ = std::move(local);
  layout_ = layout;
  data_type_ = local_.dtype();
  device_opt_ = local_.device();
  set_geometry(c10::SmallVector<int64_t, 8>(sizes.begin(), sizes.end()));
  moved_.reset();
}

c10::intrusive_ptr<DTensorImpl::Node> DTensorImpl::down_node() const {
  return c10::static_intrusive_pointer_cast<Node>(down_node_.lock());
}

void DTensorImpl::set_down_node(const c10::intrusive_ptr<Node>& node) {
  down_node_ = c10::weak_intrusive_ptr<c10::intrusive_ptr_target>(
      c10::intrusive_ptr<c10::intrusive_ptr_target>(node));
}

// The weak reference keeps the address from being used again.
bool DTensorImpl::is_down_node(const Node* node) const {
  return node != nullptr && down_node_._unsafe_get_target() == node;
}

template <class Version>
c10::intrusive_ptr<c10::TensorImpl> DTensorImpl::copy(Version&& version, bool allow_change) const {
  const InferenceOf mode(local_);
  auto out = c10::make_intrusive<DTensorImpl>(local_.detach(), layout_, sizes());
  out->set_version_counter(std::forward<Version>(version));
  out->set_allow_tensor_metadata_change(allow_change);
  show_to_python(at::Tensor(out));
  return out;
}

c10::intrusive_ptr<c10::TensorImpl> DTensorImpl::shallow_copy_and_detach(
    const c10::VariableVersion& version, bool allow_change) const {
  return copy(version, allow_change);
}

c10::intrusive_ptr<c10::TensorImpl> DTensorImpl::shallow_copy_and_detach(
    c10::VariableVersion&& version, bool allow_change) const {
  return copy(std::move(version), allow_change);
}

void DTensorImpl::shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) {
  if (!impl->key_set().has(kDTensorKey)) {
    throw UsageError(Message("HP-D001", "a plain tensor cannot become the data of a DTensor")
                         .hint("distribute_tensor(value, mesh, placements) first"));
  }
  const auto* other = static_cast<const DTensorImpl*>(impl.get());
  set(other->local_.detach(), other->layout_, other->sizes());
}

void DTensorImpl::release_resources() {
  moved_.reset();
  local_.reset();
  grad_finisher_.reset();
  TensorImpl::release_resources();
}

at::Tensor make_wrapper(at::Tensor local, const Layout* layout, c10::IntArrayRef sizes) {
  const InferenceOf mode(local);
  return at::detail::make_tensor<DTensorImpl>(std::move(local), layout, sizes);
}

void set_python_hook(PythonHook hook) { python_hook = hook; }

void show_to_python(const at::Tensor& t) {
  if (python_hook != nullptr) python_hook(t);
}

std::string describe(const at::Tensor& t) {
  if (!t.defined()) return "none";
  if (!is_dtensor(t)) return to_string(meta_of(t)) + " plain";
  return to_string(meta_of(t), impl_of(t)->layout());
}

}  // namespace hyper_parallel::torch_layer
