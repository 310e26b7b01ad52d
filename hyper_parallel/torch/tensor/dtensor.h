#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <memory>
#include <utility>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/torch/base/dtype.h"
#include "hyper_parallel/torch/base/key.h"

namespace hyper_parallel::torch_layer {

class GradFinisher;

/// A distributed tensor: global sizes outside, this rank's part and a layout inside.
///
/// The local tensor carries the autograd graph (see bridge.h). The wrapper has no storage; reading
/// it as plain memory throws. Its strides are those of the global tensor if it were laid out in
/// memory in the order of the local one: good for `is_contiguous`, never for addressing.
class DTensorImpl final : public c10::TensorImpl {
 public:
  DTensorImpl(at::Tensor local, const Layout* layout, c10::IntArrayRef sizes);
  ~DTensorImpl() override;

  const at::Tensor& local() const { return local_; }
  const Layout* layout() const { return layout_; }

  /// Replace value and layout; sizes, strides and dtype follow. What was derived from the value
  /// before is forgotten.
  void set(at::Tensor local, const Layout* layout, c10::IntArrayRef sizes);

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) override;

  /// The last reference is gone: weak ones keep the shell alone, neither memory nor graph.
  void release_resources() override;

  using Node = torch::autograd::Node;
  using WeakImpl = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  /// The node that hands gradients of this wrapper down to its local (bridge.h); null: none was
  /// made, or it is gone.
  c10::intrusive_ptr<Node> down_node() const;
  void set_down_node(const c10::intrusive_ptr<Node>& node);
  bool is_down_node(const Node* node) const;

  /// True where this looks like a view of another DTensor but is a copy (communication was
  /// needed): writing to it raises.
  bool copied_view() const { return copied_view_; }
  void set_copied_view(bool copied) { copied_view_ = copied; }

  /// What finishes the gradient of this leaf; null: the default. See grad_finish.h.
  const std::shared_ptr<GradFinisher>& grad_finisher() const { return grad_finisher_; }
  void set_grad_finisher(std::shared_ptr<GradFinisher> f) { grad_finisher_ = std::move(f); }

 private:
  const char* tensorimpl_type_name() const override { return "DTensorImpl"; }
  template <class Version>
  c10::intrusive_ptr<TensorImpl> copy(Version&& version, bool allow_change) const;
  void set_geometry(c10::IntArrayRef sizes);

  friend class MovedMemo;

  struct Moved;

  at::Tensor local_;
  const Layout* layout_;
  std::unique_ptr<Moved> moved_;  // the last redistribution by dispatch, see moved.h
  c10::weak_intrusive_ptr<c10::intrusive_ptr_target> down_node_;
  std::shared_ptr<GradFinisher> grad_finisher_;
  bool copied_view_ = false;
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
