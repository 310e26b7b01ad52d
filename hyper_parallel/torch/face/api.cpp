#include "hyper_parallel/torch/face/api.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/local/custom_shard.h"
#include "hyper_parallel/torch/local/region.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel {
namespace {

using torch_layer::impl_of;
using torch_layer::is_dtensor;

void check_dims(const Layout* layout, std::int64_t ndim) {
  if (layout->max_dim() < ndim) return;
  throw UsageError(Message("HP-L005", "shard dim " + std::to_string(layout->max_dim()) +
                                          " is out of range for a tensor of " +
                                          std::to_string(ndim) + " dims")
                       .fact("layout", to_string_with_mesh(layout)));
}

void check_dtensor(const at::Tensor& t, const char* what) {
  if (is_dtensor(t)) return;
  throw UsageError(Message("HP-D020", std::string(what) + " needs a DTensor")
                       .fact("given", torch_layer::describe(t))
                       .hint("distribute_tensor(tensor, mesh, placements) makes one"));
}

// The global length of each split dim: the sum over the ranks that cut it.
Shape gather_sizes(const at::Tensor& local, const Layout* layout) {
  Shape sizes(local.sizes().begin(), local.sizes().end());
  for (const Split& split : layout->splits()) {
    auto& size = sizes[static_cast<std::size_t>(split.dim)];
    size = torch_layer::sum_over_axes(size, layout->mesh(), split.axes);
  }
  return sizes;
}

// The global sizes, given or found, if this rank's part fits them.
Shape fitted_sizes(const char* what, const at::Tensor& local, const Layout* layout,
                   const std::optional<Shape>& given = std::nullopt) {
  check_dims(layout, local.dim());
  const std::vector<int>& here = torch_layer::my_coordinate(layout->mesh());  // it may not be there
  const Shape sizes = given ? *given : gather_sizes(local, layout);
  const Shape want = local_shape(layout, sizes, here);
  if (!std::equal(want.begin(), want.end(), local.sizes().begin(), local.sizes().end())) {
    throw UsageError(
        Message("HP-D022", std::string(what) + ": the local shape does not fit the layout")
            .fact("local", to_string(Shape(local.sizes().begin(), local.sizes().end())))
            .fact("expected", to_string(want))
            .fact("global", to_string(sizes) + " on " + to_string_with_mesh(layout))
            .hint("chunk i of n holds ceil(size / n) rows, the last ones fewer or none"));
  }
  return sizes;
}

const Mesh* mesh_of(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& t : tensors) {
    if (is_dtensor(t)) return impl_of(t)->layout()->mesh();
  }
  return nullptr;
}

at::Tensor part_of(const at::Tensor& t, const Layout* layout, bool as_is, const Mesh* mesh,
                   const std::string& what) {
  if (!is_dtensor(t)) {
    if (layout == nullptr) return torch_layer::part_for(t, mesh);
    throw UsageError(Message("HP-F008", what + " has a layout, but is a plain tensor")
                         .fact("tensor", torch_layer::describe(t))
                         .hint("distribute_tensor() makes a DTensor; null hands it on as it is"));
  }
  if (layout == nullptr && !as_is) {
    throw UsageError(Message("HP-F007", what + " is a DTensor, its layout is null")
                         .fact("tensor", torch_layer::describe(t))
                         .hint("without in_layouts each keeps its own"));
  }
  const at::Tensor moved = layout == nullptr ? t : redistribute(t, layout);
  if (impl_of(moved)->layout()->mesh() != mesh) {
    throw UsageError(Message("HP-F003", "custom_shard: an input is on another mesh")
                         .fact("tensor", torch_layer::describe(moved))
                         .fact("mesh", mesh->to_string()));
  }
  return torch_layer::part_for(moved, mesh);
}

void check_result(const at::Tensor& result, const Layout* layout, const Mesh* mesh,
                  const std::string& what) {
  if (is_dtensor(result)) {
    throw UsageError(Message("HP-F009", what + " is a DTensor; parts are expected")
                         .fact("tensor", torch_layer::describe(result))
                         .hint("inside, tensors are plain: was a DTensor taken from outside the "
                               "function?"));
  }
  if (layout->mesh() != mesh) {
    throw UsageError(Message("HP-F003", "custom_shard: layouts of different meshes")
                         .fact("meshes", mesh->to_string() + "; " + layout->mesh()->to_string()));
  }
  check_dims(layout, result.dim());
}

// `weight` everywhere, in the layout of `output` with pending sums done: each rank that holds a
// copy of it gives its share.
at::Tensor start_of(const at::Tensor& output, double weight) {
  const at::NoGradGuard no_grad;
  if (!is_dtensor(output)) return at::full_like(output, weight);
  return torch_layer::wrap(at::full_like(impl_of(output)->local(), weight),
                           impl_of(output)->layout()->reduced(), output.sizes());
}

/// Takes `.grad` of `leaves` away for its life.
class KeptGrads {
 public:
  explicit KeptGrads(const std::vector<at::Tensor>& leaves) : leaves_(leaves) {
    for (const at::Tensor& leaf : leaves_) {
      before_.push_back(leaf.grad());
    }
    for (const at::Tensor& leaf : leaves_) leaf.mutable_grad() = at::Tensor();
  }
  ~KeptGrads() {
    for (std::size_t i = 0; i < leaves_.size(); ++i) leaves_[i].mutable_grad() = before_[i];
  }
  KeptGrads(const KeptGrads&) = delete;
  KeptGrads& operator=(const KeptGrads&) = delete;

 private:
  const std::vector<at::Tensor>& leaves_;
  std::vector<at::Tensor> before_;
};

}  // namespace

at::Tensor distribute_tensor(const at::Tensor& tensor, const Layout* layout,
                             std::optional<int> source_rank) {
  if (is_dtensor(tensor)) return redistribute(tensor, layout);
  check_dims(layout, tensor.dim());
  const Layout* whole = Layout::replicated(layout->mesh());
  (void)torch_layer::my_coordinate(layout->mesh());
  if (tensor.requires_grad() && !tensor.is_leaf()) {
    return redistribute(torch_layer::from_local(tensor, whole, tensor.sizes()), layout);
  }
  at::Tensor value;
  {
    at::NoGradGuard no_grad;
    value = tensor.detach();
    if (source_rank && layout->mesh()->size() > 1) {
      value = torch_layer::broadcast(value, layout->mesh(), *source_rank);
    }
    const at::Tensor part = torch_layer::move(value, whole, layout, tensor.sizes());
    // A part that aliases the caller's tensor would change with it. Wrappers of torch.func have no
    // storage to compare.
    const bool apart = part.has_storage() && !part.is_same(value) && !part.is_alias_of(tensor);
    value = apart ? part : part.clone();
  }
  at::Tensor out = torch_layer::wrap(value, layout, tensor.sizes());
  if (tensor.requires_grad()) out.set_requires_grad(true);
  return out;
}

at::Tensor from_local(const at::Tensor& local, const Layout* layout, std::optional<Shape> sizes,
                      const Layout* grad_layout) {
  if (is_dtensor(local)) {
    throw UsageError(Message("HP-D021", "from_local takes a plain tensor")
                         .fact("given", torch_layer::describe(local))
                         .hint("redistribute() changes the layout of a DTensor"));
  }
  return torch_layer::from_local(local, layout, fitted_sizes("from_local", local, layout, sizes),
                                 grad_layout);
}

at::Tensor to_local(const at::Tensor& t, const Layout* grad_layout) {
  check_dtensor(t, "to_local");
  return torch_layer::to_local_as(t, nullptr, grad_layout);
}

at::Tensor full_tensor(const at::Tensor& t, const Layout* grad_layout) {
  check_dtensor(t, "full_tensor");
  return torch_layer::to_local_as(t, Layout::replicated(impl_of(t)->layout()->mesh()), grad_layout);
}

at::Tensor redistribute(const at::Tensor& t, const Layout* layout) {
  check_dtensor(t, "redistribute");
  check_dims(layout, t.dim());
  const Layout* from = impl_of(t)->layout();
  if (from == layout) return t;
  at::Tensor local = torch_layer::local_for_use(t);
  at::Tensor out = torch_layer::move(local, from, layout, t.sizes());
  if (out.is_same(local)) out = out.alias();
  return torch_layer::wrap(std::move(out), layout, t.sizes());
}

at::Tensor reduce_partial(const at::Tensor& t) {
  check_dtensor(t, "reduce_partial");
  return redistribute(t, impl_of(t)->layout()->reduced());
}

const Layout* layout_of(const at::Tensor& t) {
  check_dtensor(t, "layout");
  return impl_of(t)->layout();
}

std::vector<at::Tensor> custom_shard(const LocalFunction& fn, const std::vector<at::Tensor>& inputs,
                                     const std::vector<const Layout*>& out_layouts,
                                     const std::vector<const Layout*>& in_layouts) {
  if (mesh_of(inputs) == nullptr) return fn(inputs);
  const bool as_is = in_layouts.empty();
  if (!as_is && in_layouts.size() != inputs.size()) {
    throw UsageError(Message("HP-F005", "custom_shard: " + std::to_string(inputs.size()) +
                                            " inputs, in_layouts has " +
                                            std::to_string(in_layouts.size())));
  }
  const Mesh* mesh = out_layouts.empty() ? mesh_of(inputs) : out_layouts.front()->mesh();
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    parts.push_back(part_of(inputs[i], as_is ? nullptr : in_layouts[i], as_is, mesh,
                            "custom_shard: input " + std::to_string(i)));
  }
  torch_layer::LocalRegion region(mesh);
  const std::vector<at::Tensor> entered = region.enter(parts);
  std::vector<at::Tensor> results;
  {
    const torch_layer::RegionGuard guard(&region);
    results = fn(entered);
  }
  if (results.size() != out_layouts.size()) {
    throw UsageError(
        Message("HP-F009", "custom_shard: the function returned " + std::to_string(results.size()) +
                               " values, out_layouts has " + std::to_string(out_layouts.size()))
            .hint("one layout a result"));
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < results.size(); ++i) {
    names.push_back("result " + std::to_string(i));
    check_result(results[i], out_layouts[i], mesh, "custom_shard: " + names.back());
  }
  if (region.reaches_outside(results)) {
    throw UsageError(
        Message("HP-F014",
                "custom_shard: the function uses a tensor that requires grad and is none "
                "of its inputs")
            .hint("hand it in: its gradient would be this rank's part alone"));
  }
  results = region.leave(results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    torch_layer::check_gradient_passes(results[i], out_layouts[i], "custom_shard: " + names[i]);
  }
  return torch_layer::wrap_parts(results, out_layouts, "custom_shard", names, false);
}

void check_weights(const std::vector<at::Tensor>& weights) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const at::Tensor& w = weights[i];
    const char* problem = !w.defined()         ? "is no tensor"
                          : !w.requires_grad() ? "does not require grad"
                          : !w.is_leaf()       ? "is no leaf: an op made it"
                                               : nullptr;
    if (problem == nullptr) continue;
    throw UsageError(
        Message("HP-G010", "value_and_grad: weights[" + std::to_string(i) + "] " + problem)
            .fact("weight", torch_layer::describe(w)));
  }
}

std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& outputs,
                                  const std::vector<at::Tensor>& weights,
                                  const std::optional<std::vector<double>>& sens, bool single) {
  check_weights(weights);
  if (sens && (single || outputs.size() == 1)) {
    throw UsageError(Message("HP-G012", "value_and_grad: sens must be None for a single output")
                         .hint("multiply the output instead"));
  }
  if (sens && sens->size() != outputs.size()) {
    throw UsageError(Message("HP-G013", "value_and_grad: " + std::to_string(sens->size()) +
                                            " numbers in sens for " +
                                            std::to_string(outputs.size()) + " outputs"));
  }
  std::vector<at::Tensor> roots;
  std::vector<at::Tensor> starts;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const double weight = sens ? (*sens)[i] : i == 0 ? 1.0 : 0.0;
    if (weight == 0) continue;
    const at::Tensor& output = outputs[i];
    if (!output.defined() || !output.requires_grad()) {
      throw UsageError(
          Message("HP-G014", "value_and_grad: output " + std::to_string(i) + " has no gradient (" +
                                 (output.defined() ? "requires no grad" : "is no tensor") + ")")
              .hint("give it the weight 0 in sens, or return a tensor made from the weights"));
    }
    roots.push_back(output);
    starts.push_back(start_of(output, weight));
  }
  const KeptGrads kept(weights);
  if (!roots.empty() && !weights.empty()) {
    torch::autograd::backward(roots, starts, std::nullopt, false, weights);
  }
  std::vector<at::Tensor> out;
  for (const at::Tensor& w : weights) {
    out.push_back(w.grad().defined() ? w.grad() : at::zeros_like(w));
  }
  return out;
}

ValueAndGrad value_and_grad(const std::function<at::Tensor()>& fn,
                            const std::vector<at::Tensor>& weights) {
  check_weights(weights);
  const at::AutoGradMode with_grad(true);
  ValueAndGrad out{fn(), {}};
  out.grads = gradients({out.value}, weights, std::nullopt, true);
  return out;
}

ValuesAndGrad value_and_grad(const std::function<std::vector<at::Tensor>()>& fn,
                             const std::vector<at::Tensor>& weights,
                             const std::optional<std::vector<double>>& sens) {
  check_weights(weights);
  const at::AutoGradMode with_grad(true);
  ValuesAndGrad out{fn(), {}};
  out.grads = gradients(out.values, weights, sens);
  return out;
}

}  // namespace hyper_parallel
