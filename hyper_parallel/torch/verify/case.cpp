#include "hyper_parallel/torch/verify/case.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/verify/oracle.h"

namespace hyper_parallel::torch_layer {
namespace {

void collect(const c10::IValue& v, std::vector<at::Tensor>& out) {
  out.push_back(v.isTensor() ? v.toTensor() : at::Tensor());
}

bool may_have_grad(const at::Tensor& t) {
  return t.defined() && (t.is_floating_point() || t.is_complex());
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         oracle::distance(a, b) == 0;
}

Reference run_once(const c10::OperatorHandle& op, const OpInfo& info, const VerifyCase& c,
                   const std::vector<char>& differentiable, at::Generator& random) {
  Reference out;
  out.differentiable = differentiable;
  for (const at::Tensor& t : tensors_of(info, c.arguments)) {
    out.operands.push_back(t.defined() ? t.detach().clone() : t);
  }
  const Leaves made = make_leaves(info, out.operands, differentiable);
  torch::jit::Stack stack = with_tensors(info, c.arguments, made.values);
  at::Generator defaults = at::globalContext().defaultGenerator(at::kCPU);
  defaults.set_current_seed(kVerifySeed);
  op.callBoxed(&stack);
  Results results = results_of(stack);

  torch::autograd::variable_list roots;
  torch::autograd::variable_list cotangents;
  for (const at::Tensor& t : results.tensors) {
    const bool flows = t.defined() && t.requires_grad();
    out.cotangents.push_back(flows ? oracle::random_like(t.detach(), random) : at::Tensor());
    out.results.tensors.push_back(t.defined() ? t.detach().clone() : t);
    if (!flows) continue;
    roots.push_back(t);
    cotangents.push_back(out.cotangents.back());
  }
  out.results.others = std::move(results.others);
  out.bound = oracle::bound_of(out.operands, out.results.tensors);
  out.grads.resize(out.operands.size());
  torch::autograd::variable_list leaves;
  for (const at::Tensor& t : made.leaves) {
    if (t.defined() && t.requires_grad()) leaves.push_back(t);
  }
  out.backward = !roots.empty() && !leaves.empty();
  if (out.backward) {
    const auto grads = torch::autograd::grad(roots, leaves, cotangents, std::nullopt, false, true);
    std::size_t k = 0;
    for (std::size_t i = 0; i < made.leaves.size(); ++i) {
      if (made.leaves[i].defined() && made.leaves[i].requires_grad()) out.grads[i] = grads[k++];
    }
  }
  for (std::size_t i = 0; i < out.operands.size(); ++i) {
    const at::Tensor& now = made.values[i];
    const bool changed = now.defined() && !same_bits(now.detach(), out.operands[i]);
    out.after.push_back(changed ? now.detach().clone() : at::Tensor());
  }
  return out;
}

}  // namespace

std::vector<at::Tensor> tensors_of(const OpInfo& info, const torch::jit::Stack& arguments) {
  std::vector<at::Tensor> out;
  for (std::size_t i = 0; i < info.arguments.size(); ++i) {
    const OpInfo::Argument& a = info.arguments[i];
    if (a.tensor) collect(arguments[i], out);
    if (!a.list || arguments[i].isNone()) continue;
    for (const c10::IValue& item : arguments[i].toListRef()) collect(item, out);
  }
  return out;
}

torch::jit::Stack with_tensors(const OpInfo& info, const torch::jit::Stack& arguments,
                               const std::vector<at::Tensor>& tensors) {
  torch::jit::Stack out = arguments;
  std::size_t k = 0;
  for (std::size_t i = 0; i < info.arguments.size(); ++i) {
    const OpInfo::Argument& a = info.arguments[i];
    if (a.tensor) {
      if (tensors[k].defined()) out[i] = tensors[k];
      ++k;
    } else if (a.list && !out[i].isNone()) {
      const std::size_t size = out[i].toListRef().size();
      c10::List<at::Tensor> all;
      c10::List<std::optional<at::Tensor>> some;
      for (std::size_t n = 0; n < size; ++n, ++k) {
        all.push_back(tensors[k]);
        some.push_back(tensors[k].defined() ? std::optional<at::Tensor>(tensors[k]) : std::nullopt);
      }
      if (out[i].isTensorList()) {
        out[i] = std::move(all);
      } else {
        out[i] = std::move(some);
      }
    }
  }
  return out;
}

Results results_of(const torch::jit::Stack& stack) {
  Results out;
  for (const c10::IValue& v : stack) {
    if (v.isTensor()) {
      out.tensors.push_back(v.toTensor());
    } else if (v.isTensorList()) {
      for (const c10::IValue& item : v.toListRef()) out.tensors.push_back(item.toTensor());
    } else {
      out.others.push_back(v);
    }
  }
  return out;
}

bool same_value(const c10::IValue& a, const c10::IValue& b) {
  if (a.isDouble() && b.isDouble()) {
    const double x = a.toDouble();
    const double y = b.toDouble();
    return x == y || (x != x && y != y) ||
           std::abs(x - y) <= oracle::bound_of(at::kDouble) * (1 + std::abs(y));
  }
  if (a.isScalar() && b.isScalar() && a.tagKind() != b.tagKind()) return false;
  return a == b;
}

Leaves make_leaves(const OpInfo& info, const std::vector<at::Tensor>& operands,
                   const std::vector<char>& differentiable) {
  Leaves out;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].defined()) {
      out.leaves.emplace_back();
      out.values.emplace_back();
      continue;
    }
    at::Tensor leaf = operands[i].detach().clone();
    if (differentiable[i] != 0) leaf.set_requires_grad(true);
    // A view keeps the leaf out of the wrapper; a write needs a copy, a view of a leaf refuses it.
    out.values.push_back(differentiable[i] == 0 ? leaf
                         : info.writes          ? leaf.clone()
                                                : leaf.view_as(leaf));
    out.leaves.push_back(std::move(leaf));
  }
  return out;
}

Reference run_reference(const c10::OperatorHandle& op, const OpInfo& info, const VerifyCase& c,
                        at::Generator& random) {
  const std::vector<at::Tensor> operands = tensors_of(info, c.arguments);
  std::vector<char> none(operands.size(), 0);
  if (c.grad) {
    std::vector<char> all = none;
    std::vector<char> first = none;
    for (std::size_t i = 0; i < operands.size(); ++i) all[i] = may_have_grad(operands[i]) ? 1 : 0;
    const auto at = std::find(all.begin(), all.end(), 1);
    if (at != all.end()) first[static_cast<std::size_t>(at - all.begin())] = 1;
    for (const std::vector<char>& attempt : {all, first}) {
      try {
        Reference out = run_once(op, info, c, attempt, random);
        if (out.backward) return out;
      } catch (const std::exception&) {
        // No derivative, or none for some operand: the next attempt asks for less.
      }
    }
  }
  at::NoGradGuard no_grad;
  return run_once(op, info, c, none, random);
}

c10::OperatorHandle find_op(const std::string& name) {
  const std::size_t dot = name.find('.');
  const c10::OperatorName wanted(name.substr(0, dot),
                                 dot == std::string::npos ? "" : name.substr(dot + 1));
  const auto found = c10::Dispatcher::singleton().findSchema(wanted);
  if (!found) {
    throw UsageError(Message("HP-V001", "torch has no op \"" + name + "\"")
                         .hint("write namespace, name and overload: aten::sum.dim_IntList"));
  }
  return *found;
}

}  // namespace hyper_parallel::torch_layer
