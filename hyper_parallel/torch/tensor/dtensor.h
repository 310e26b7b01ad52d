#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/torch/base/dtype.h"
#include "hyper_parallel/torch/base/key.h"

namespace torch::autograd {
struct Node;
}

namespace hyper_parallel::torch_layer {

/// A distributed tensor: global sizes outside, this rank's part and a layout inside.
///
/// The local tensor carries the autograd graph (see bridge.h). The wrapper has no storage; reading
/// it as plain memory throws. Its strides are those of the global tensor if it were laid out in
/// memory in the order of the local one: good for `is_contiguous`, never for addressing.
class DTensorImpl final : public c10::TensorImpl {
 public:
  DTensorImpl(at::Tensor local, const Layout* layout, c10::IntArrayRef sizes);

  const at::Tensor& local() const { return local_; }
  const Layout* layout() const { return layout_; }

  /// Replace value and layout; sizes, strides and dtype follow.
  void set(at::Tensor local, const Layout* layout, c10::IntArrayRef sizes);

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) override;

  using WeakImpl = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  /// A derived local tensor kept by weak reference, so that several uses share one graph node.
  struct Memo {
    WeakImpl tensor{c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()};
    const Layout* layout = nullptr;
    const void* edge = nullptr;
    std::uint32_t version = 0;
    bool grad_mode = false;
  };
  Memo up_view;   // the local behind an up node (wrappers with a graph of their own)
  Memo gathered;  // the last redistribution of this tensor by dispatch
  torch::autograd::Node* down_node = nullptr;  // identity of our own grad_fn, not owned

  /// Set when this looks like a view of another DTensor but is a copy (communication was
  /// needed): writing to it raises.
  bool copied_view = false;

 private:
  const char* tensorimpl_type_name() const override { return "DTensorImpl"; }
  template <class Version>
  c10::intrusive_ptr<TensorImpl> copy(Version&& version, bool allow_change) const;
  void set_geometry(c10::IntArrayRef sizes);

  at::Tensor local_;
  const Layout* layout_;
};

/// Precondition: `is_dtensor(t)`.
inline DTensorImpl* impl_of(const at::Tensor& t) {
  return static_cast<DTensorImpl*>(t.unsafeGetTensorImpl());
}

/// A wrapper without any graph. `local` must have the local shape of `layout` on this rank.
at::Tensor make_wrapper(at::Tensor local, const Layout* layout, c10::IntArrayRef sizes);

/// Called for every new wrapper, to give it its Python class; null in programs without Python.
using PythonHook = void (*)(const at::Tensor&);
void set_python_hook(PythonHook hook);
void show_to_python(const at::Tensor& t);

/// `f32[4, 8] on dp=2: S(0)` for a wrapper, `f32[4, 8] plain` for another tensor.
std::string describe(const at::Tensor& t);

}  // namespace hyper_parallel::torch_layer
