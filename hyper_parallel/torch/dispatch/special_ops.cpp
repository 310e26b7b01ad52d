// Ops that no rule can describe: they read or change the wrapper itself.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/dispatch/frame.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer {
namespace {

void pop_push(Frame& f, c10::IValue result) {
  f.stack->erase(f.stack->begin() + static_cast<std::ptrdiff_t>(f.base), f.stack->end());
  f.stack->push_back(std::move(result));
}

// Deciding whether `x.data = y` may keep the object: both wrapped, or both plain.
void compatible_shallow_copy(Frame& f) {
  const bool a = is_dtensor(f.argument(0).toTensor());
  const bool b = is_dtensor(f.argument(1).toTensor());
  pop_push(f, a == b);
}

void is_same_size(Frame& f) {
  pop_push(f, f.argument(0).toTensor().sizes() == f.argument(1).toTensor().sizes());
}

[[noreturn]] void no_storage(Frame& f) {
  throw UnsupportedError(Message("HP-D015", f.info.name + " needs the memory of the whole tensor")
                             .fact("tensor", describe(f.argument(0).toTensor()))
                             .hint("to_local() for this rank's part, full_tensor() for the whole"));
}

void refuse(Frame& f) { no_storage(f); }

// torch.distributed on a DTensor would add up, or overwrite, the parts of different ranks.
void raw_collective(Frame& f) {
  Message message("HP-D034", f.info.name + ": a collective of torch.distributed on a DTensor");
  for (std::size_t i = 0; i < f.count(); ++i) {
    const c10::IValue& v = f.argument(i);
    if (v.isTensor() && is_dtensor(v.toTensor())) message.fact("tensor", describe(v.toTensor()));
    if (!v.isTensorList()) continue;
    for (const at::Tensor& t : v.toTensorVector()) {
      if (is_dtensor(t)) message.fact("tensor", describe(t));
    }
  }
  throw UnsupportedError(message.hint(
      "full_tensor() is the value, the same on all ranks; to_local() this rank's part"));
}

// Nested tensors are no parts of DTensors: the encoder of torch.nn then takes its other way.
void not_left_aligned(Frame& f) { pop_push(f, false); }

// Out of the graph, in place: the wrapper keeps its memory and forgets where its value came from.
void detach_in_place(Frame& f) {
  const at::Tensor self = f.argument(0).toTensor();
  if (self.is_view()) {
    f.op.callBoxed(f.stack);  // torch's own error
    return;
  }
  DTensorImpl* d = impl_of(self);
  torch::autograd::impl::set_gradient_edge(self, {});
  self.set_requires_grad(false);
  d->set_down_node({});
  refresh(self, d->local().detach(), d->layout(), self.sizes());
  pop_push(f, self);
}

void make_dual(Frame& f) {
  throw UnsupportedError(Message("HP-D018", "forward-mode gradients do not cross DTensors")
                             .fact("tensor", describe(f.argument(0).toTensor()))
                             .hint("loss.backward() or torch.autograd.grad()"));
}

// The whole of `t`, in memory as the strides of `t` say. `t` must not be a part of another tensor,
// as one device could read beyond it.
at::Tensor laid_out(Frame& f, const at::Tensor& t) {
  DTensorImpl* d = impl_of(t);
  const at::Tensor local = local_for_use(t);
  const bool part = d->copied_view() || local.storage_offset() != 0 ||
                    local.storage().nbytes() != static_cast<std::size_t>(local.numel()) *
                                                    static_cast<std::size_t>(local.itemsize());
  if (part || !d->is_non_overlapping_and_dense()) no_storage(f);
  const Layout* whole = Layout::replicated(d->layout()->mesh());
  if (d->layout() == whole) return t;
  at::Tensor memory = at::empty_strided(t.sizes(), t.strides(), local.options());
  memory.copy_(move(local, d->layout(), whole, t.sizes()));
  at::Tensor out = wrap(memory, whole, t.sizes());
  impl_of(out)->set_copied_view(true);
  return out;
}

// The elements in the order of memory; new ones are 0, so that replicas agree. A dim that is cut
// stays cut if the tensor still has that dim afterwards.
void resize_to(Frame& f, c10::IntArrayRef sizes) {
  const at::Tensor self = f.argument(0).toTensor();
  if (is_dtensor(self) && self.sizes() != sizes) {
    TORCH_CHECK(!self.requires_grad(), "cannot resize variables that require grad");
    if (!self.is_contiguous() || !f.argument(2).isNone()) no_storage(f);
    DTensorImpl* d = impl_of(self);
    const Layout* whole = Layout::replicated(d->layout()->mesh());
    const Layout* layout = d->layout();
    bool fits = !layout->has_partial();
    for (const Split& split : layout->splits()) fits &= split.dim < static_cast<int>(sizes.size());
    if (!fits) layout = whole;
    const at::Tensor old = impl_of(laid_out(f, self))->local().flatten();
    const std::int64_t count = c10::multiply_integers(sizes);
    const at::Tensor all = at::zeros({count}, old.options());
    const std::int64_t kept = std::min(count, old.numel());
    all.narrow(0, 0, kept).copy_(old.narrow(0, 0, kept));
    refresh(self, move(all.view(sizes), whole, layout, sizes).clone(), layout, sizes);
  }
  pop_push(f, self);
}

void resize(Frame& f) { resize_to(f, f.argument(1).toDimVector()); }

void resize_as(Frame& f) { resize_to(f, f.argument(1).toTensor().sizes().vec()); }

// Where to cut stands in a tensor, which every rank reads whole.
void split_at_tensor(Frame& f) {
  const at::Tensor where = f.argument(1).toTensor();
  if (is_dtensor(where)) {
    f.argument(1) = to_local_as(where, Layout::replicated(impl_of(where)->layout()->mesh()));
  }
  f.op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *f.stack);
}

// Of the sizes of `self`: in its layout, the part in memory in the order that the strides say. The
// engine makes gradients so, and only on those ranks where strides differ: no rank may communicate.
void new_empty_strided(Frame& f) {
  const at::Tensor self = f.argument(0).toTensor();
  const auto sizes = f.argument(1).toDimVector();
  const auto strides = f.argument(2).toDimVector();
  if (!is_dtensor(self) || self.sizes() != sizes || strides.size() != sizes.size()) {
    return dispatch(f);
  }
  const at::Tensor& local = impl_of(self)->local();
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  std::vector<std::int64_t> dense(sizes.size());
  std::int64_t next = 1;
  for (std::size_t d : order) {
    dense[d] = next;
    next *= std::max<std::int64_t>(local.size(static_cast<std::int64_t>(d)), 1);
  }
  f.argument(0) = local;
  f.argument(1) = local.sizes().vec();
  f.argument(2) = dense;
  f.op.callBoxed(f.stack);
  const at::Tensor out = f.stack->back().toTensor();
  f.stack->back() = wrap(out, impl_of(self)->layout(), self.sizes());
}

// as_strided and its kin read memory.
void strided(Frame& f) {
  const at::Tensor self = f.argument(0).toTensor();
  if (is_dtensor(self)) f.argument(0) = laid_out(f, self);
  dispatch(f);
}

// GradScaler: gradients divided by the scale, and found_inf 1 if some element of some rank is not
// finite. One all-reduce of one number for each mesh; found_inf stays plain, equal on all ranks.
void unscale_and_check(Frame& f) {
  const std::vector<at::Tensor> grads = f.argument(0).toTensorVector();
  at::Tensor found = f.argument(1).toTensor();
  const at::Tensor inverse = f.argument(2).toTensor();
  if (is_dtensor(found) || is_dtensor(inverse)) no_storage(f);
  std::vector<const Mesh*> meshes;  // in the order of the list: the same on all ranks
  for (const at::Tensor& g : grads) {
    const Mesh* mesh = is_dtensor(g) ? impl_of(g)->layout()->mesh() : nullptr;
    if (std::find(meshes.begin(), meshes.end(), mesh) == meshes.end()) meshes.push_back(mesh);
  }
  const at::NoGradGuard no_grad;
  for (const Mesh* mesh : meshes) {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& g : grads) {
      if (!is_dtensor(g)) {
        if (mesh == nullptr) parts.push_back(g);
        continue;
      }
      if (impl_of(g)->layout()->mesh() != mesh) continue;
      if (impl_of(g)->layout()->has_partial()) {
        throw UnsupportedError(
            Message("HP-D033", f.info.name + ": a gradient whose sum over the ranks is pending")
                .fact("gradient", describe(g))
                .hint("unscale after a backward pass outside of no_grad_sync()"));
      }
      parts.push_back(impl_of(g)->local());
    }
    at::Tensor here = mesh == nullptr ? found : at::zeros_like(found);
    torch::jit::Stack stack{parts, here, inverse};
    f.op.callBoxed(&stack);
    if (mesh == nullptr) continue;
    std::vector<int> axes(static_cast<std::size_t>(mesh->ndim()));
    std::iota(axes.begin(), axes.end(), 0);
    found.copy_(at::maximum(found, all_reduce(here, mesh, axes, ReduceOp::max)));
  }
  f.stack->resize(f.base);
}

const std::unordered_map<std::string, SpecialOp>& specials() {
  static const auto* const table = new std::unordered_map<std::string, SpecialOp>{
      {"aten::_has_compatible_shallow_copy_type", compatible_shallow_copy},
      {"aten::is_same_size", is_same_size},
      {"aten::new_empty_strided", new_empty_strided},
      {"aten::set_.source_Storage", refuse},
      {"aten::set_.source_Storage_storage_offset", refuse},
      {"aten::set_.source_Tensor", refuse},
      {"aten::set_.source_Tensor_storage_offset", refuse},
      {"aten::_amp_foreach_non_finite_check_and_unscale_", unscale_and_check},
      {"aten::_nested_tensor_from_mask_left_aligned", not_left_aligned},
      {"aten::detach_", detach_in_place},
      {"aten::resize_", resize},
      {"aten::resize_as_", resize_as},
      {"aten::as_strided", strided},
      {"aten::as_strided_copy", strided},
      {"aten::as_strided_scatter", strided},
      {"aten::as_strided_", refuse},
      {"aten::tensor_split.tensor_indices_or_sections", split_at_tensor},
      {"aten::to_sparse", refuse},
      {"aten::_make_dual", make_dual},
      {"aten::pin_memory", refuse},
      {"aten::record_stream", refuse},
  };
  return *table;
}

const std::unordered_set<std::string>& transparent() {
  static const auto* const table = new std::unordered_set<std::string>{
      "aten::_backward",
      "aten::set_data",
      "aten::data",
      "aten::is_leaf",
      "aten::output_nr",
      "aten::_version",
      "aten::requires_grad_",
      "aten::retain_grad",
      "aten::retains_grad",
      "aten::size.int",
      "aten::stride.int",
      "aten::sym_size",
      "aten::sym_size.int",
      "aten::sym_stride",
      "aten::sym_stride.int",
      "aten::sym_numel",
      "aten::sym_storage_offset",
      "aten::is_complex",
      "aten::is_floating_point",
      "aten::is_signed",
      "aten::is_conj",
      "aten::is_neg",
      "aten::is_inference",
      "aten::_is_zerotensor",
  };
  return *table;
}

}  // namespace

SpecialOp find_special(const std::string& name) {
  if (name.starts_with("c10d::") || name.starts_with("_c10d_functional::") ||
      name.starts_with("_c10d_functional_autograd::")) {
    return raw_collective;
  }
  const auto it = specials().find(name);
  return it == specials().end() ? nullptr : it->second;
}

bool is_transparent(const std::string& name) { return transparent().count(name) != 0; }

}  // namespace hyper_parallel::torch_layer
