#include "hyper_parallel/torch/dispatch/mixed.h"

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer {
namespace {

const Mesh* mesh_of_tensor(const at::Tensor& t) {
  return is_dtensor(t) ? impl_of(t)->layout()->mesh() : nullptr;
}

// A tensor of 0 dims is whole or pending on each axis.
at::Tensor value_of(const at::Tensor& number) {
  return to_local_as(number, Layout::replicated(mesh_of_tensor(number)));
}

[[noreturn]] void throw_meshes(const Frame& f, const at::Tensor& a, const at::Tensor& b) {
  throw UsageError(Message("HP-D002", f.info.name + ": DTensors of different meshes in one op")
                       .fact("operand", describe(a))
                       .fact("operand", describe(b))
                       .hint("redistribute one of them to the other's mesh"));
}

/// A list argument with one entry for each member, of any element type.
bool is_beside(const c10::IValue& v, std::size_t count) {
  return v.isList() && v.toListRef().size() == count && count > 0;
}

std::size_t count_members(const Frame& f) {
  for (std::size_t i = 0; i < f.count(); ++i) {
    if (f.info.arguments[i].list && f.argument(i).isTensorList()) {
      return f.argument(i).toListRef().size();
    }
  }
  return 0;
}

/// The mesh that each member belongs to: that of the first DTensor in its place of any list.
std::vector<const Mesh*> owners_of(const Frame& f, std::size_t count) {
  std::vector<const Mesh*> out(count, nullptr);
  for (std::size_t i = 0; i < f.count(); ++i) {
    if (!f.info.arguments[i].list || !is_beside(f.argument(i), count)) continue;
    const auto members = f.argument(i).toListRef();
    for (std::size_t k = 0; k < count; ++k) {
      if (out[k] == nullptr && members[k].isTensor())
        out[k] = mesh_of_tensor(members[k].toTensor());
    }
  }
  return out;
}

c10::IValue chosen(const c10::IValue& v, const std::vector<std::size_t>& members) {
  const c10::impl::GenericList all = v.toList();
  c10::impl::GenericList out(all.elementType());
  for (const std::size_t k : members) out.push_back(all.get(k));
  return out;
}

/// What stands beside the lists, as the group on `mesh` (null: of plain tensors) takes it.
c10::IValue shared(const Frame& f, const c10::IValue& v, const Mesh* mesh) {
  if (!v.isTensor() || !is_dtensor(v.toTensor())) return v;
  const at::Tensor t = v.toTensor();
  if (mesh_of_tensor(t) == mesh) return v;
  if (t.dim() != 0) throw_meshes(f, t, t);
  return value_of(t);
}

}  // namespace

bool run_in_groups(Frame& f) {
  const std::size_t count = count_members(f);
  const std::vector<const Mesh*> owners = owners_of(f, count);
  if (std::adjacent_find(owners.begin(), owners.end(), std::not_equal_to<>()) == owners.end()) {
    return false;
  }
  std::vector<const Mesh*> kinds;  // in the order of the lists: the same on all ranks
  for (const Mesh* owner : owners) {
    if (std::find(kinds.begin(), kinds.end(), owner) == kinds.end()) kinds.push_back(owner);
  }
  const std::size_t returns = f.info.written_return.size();
  std::vector<std::vector<at::Tensor>> results(returns, std::vector<at::Tensor>(count));
  for (const Mesh* kind : kinds) {
    std::vector<std::size_t> members;
    for (std::size_t k = 0; k < count; ++k) {
      if (owners[k] == kind) members.push_back(k);
    }
    torch::jit::Stack stack;
    for (std::size_t i = 0; i < f.count(); ++i) {
      const c10::IValue& v = f.argument(i);
      stack.push_back(is_beside(v, count) ? chosen(v, members) : shared(f, v, kind));
    }
    f.op.callBoxed(&stack);
    for (std::size_t r = 0; r < returns; ++r) {
      const std::vector<at::Tensor> part = stack[r].toTensorVector();
      for (std::size_t k = 0; k < members.size(); ++k) results[r][members[k]] = part[k];
    }
  }
  f.stack->resize(f.base);
  for (std::vector<at::Tensor>& result : results) f.stack->emplace_back(std::move(result));
  return true;
}

void take_numbers_by_value(Frame& f, const Operands& operands) {
  const at::Tensor* main = nullptr;
  for (const at::Tensor& t : operands.tensors) {
    if (!is_dtensor(t)) continue;
    if (main == nullptr || (main->dim() == 0 && t.dim() != 0)) main = &t;
  }
  const Mesh* mesh = mesh_of_tensor(*main);
  const auto changed = [&](const at::Tensor& t, bool written) {
    if (!is_dtensor(t) || mesh_of_tensor(t) == mesh) return t;
    if (written || t.dim() != 0) throw_meshes(f, *main, t);
    return value_of(t);
  };
  replace_tensors(
      f, [&](const at::Tensor& t, const OpInfo::Argument& a) { return changed(t, a.written); });
}

}  // namespace hyper_parallel::torch_layer
