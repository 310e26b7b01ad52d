#include "hyper_parallel/torch/comm/wire.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

#include <string>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "hyper_parallel/torch/ranks/ranks.h"

namespace hyper_parallel::torch_layer {

int group_index(const Mesh* mesh, const std::vector<int>& axes) {
  const auto& here = my_coordinate(mesh);
  int out = 0;
  for (int axis : axes) out = out * mesh->size(axis) + here[static_cast<std::size_t>(axis)];
  return out;
}

Group group_along(const Mesh* mesh, const std::vector<int>& axes) {
  RankContext& me = current_rank();
  const std::vector<int> ranks = mesh->group(axes, me.rank());
  return {.name = ranks.size() > 1 ? c10::IValue(me.group_name(ranks)) : c10::IValue(),
          .size = static_cast<std::int64_t>(ranks.size()),
          .mesh = mesh,
          .axes = axes,
          .index = group_index(mesh, axes)};
}

namespace wire {
namespace {

template <class Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

std::string name_of(ReduceOp op) {
  return op == ReduceOp::prod ? "product" : std::string(to_string(op));
}

/// Sums and products of bools are "or" and "and".
ReduceOp op_for(ReduceOp op, const at::Tensor& x) {
  if (x.scalar_type() != at::kBool) return op;
  return op == ReduceOp::prod || op == ReduceOp::min ? ReduceOp::min : ReduceOp::max;
}

bool is_plain(const at::Tensor& x) { return !x.is_complex() && x.scalar_type() != at::kBool; }

at::Tensor contiguous(const at::Tensor& x) { return x.is_neg() ? x.resolve_neg() : x.contiguous(); }

}  // namespace

struct Sender {
  /// Issue `collective` on `x` as numbers that every backend knows.
  template <class Collective>
  static Sent send(const at::Tensor& x, ReduceOp op, Collective collective) {
    if (x.is_complex()) {
      if (op != ReduceOp::sum && op != ReduceOp::avg) {
        throw UnsupportedError(Message("HP-R007", "complex numbers cannot be combined by " +
                                                      std::string(to_string(op)))
                                   .hint("reduce the real and the imaginary part"));
      }
      return {collective(at::view_as_real(x.resolve_conj()).contiguous()), Sent::Numbers::pairs};
    }
    if (x.scalar_type() == at::kBool) {
      return {collective(x.to(at::kByte).contiguous()), Sent::Numbers::bytes};
    }
    return {collective(contiguous(x)), Sent::Numbers::own};
  }
};

at::Tensor Sent::wait() {
  static const auto op = find<at::Tensor(const at::Tensor&)>("_c10d_functional::wait_tensor");
  at::Tensor out = op.call(raw_);
  raw_.reset();
  switch (numbers_) {
    case Numbers::pairs:
      return at::view_as_complex(out);
    case Numbers::bytes:
      return out.to(at::kBool);
    case Numbers::own:
      break;
  }
  return out;
}

Sent all_reduce(const at::Tensor& x, ReduceOp op, const Group& group) {
  static const auto call = find<at::Tensor(const at::Tensor&, std::string, const c10::IValue&)>(
      "_c10d_functional::all_reduce");
  return Sender::send(
      x, op, [&](const at::Tensor& t) { return call.call(t, name_of(op_for(op, x)), group.name); });
}

Sent all_reduce_in_place(at::Tensor x, ReduceOp op, const Group& group) {
  static const auto call = find<at::Tensor&(at::Tensor&, std::string, const c10::IValue&)>(
      "_c10d_functional::all_reduce_");
  if (!is_plain(x)) return all_reduce(x, op, group);
  return Sender::send(
      x, op, [&](at::Tensor t) { return at::Tensor(call.call(t, name_of(op), group.name)); });
}

Sent all_gather(const at::Tensor& x, const Group& group) {
  static const auto call = find<at::Tensor(const at::Tensor&, std::int64_t, const c10::IValue&)>(
      "_c10d_functional::all_gather_into_tensor");
  return Sender::send(x, ReduceOp::sum,
                      [&](const at::Tensor& t) { return call.call(t, group.size, group.name); });
}

Sent reduce_scatter(const at::Tensor& x, ReduceOp op, const Group& group) {
  static const auto call =
      find<at::Tensor(const at::Tensor&, std::string, std::int64_t, const c10::IValue&)>(
          "_c10d_functional::reduce_scatter_tensor");
  return Sender::send(x, op, [&](const at::Tensor& t) {
    return call.call(t, name_of(op_for(op, x)), group.size, group.name);
  });
}

Sent all_to_all(const at::Tensor& x, const std::vector<c10::SymInt>& received,
                const std::vector<c10::SymInt>& sent, const Group& group) {
  static const auto call =
      find<at::Tensor(const at::Tensor&, c10::SymIntArrayRef, c10::SymIntArrayRef,
                      const c10::IValue&)>("_c10d_functional::all_to_all_single");
  return Sender::send(x, ReduceOp::sum, [&](const at::Tensor& t) {
    return call.call(t, received, sent, group.name);
  });
}

Sent broadcast(const at::Tensor& x, int source, const Group& group) {
  static const auto call = find<at::Tensor(const at::Tensor&, std::int64_t, const c10::IValue&)>(
      "_c10d_functional::broadcast");
  return Sender::send(x, ReduceOp::sum, [&](const at::Tensor& t) {
    return call.call(t, std::int64_t{source}, group.name);
  });
}

}  // namespace wire
}  // namespace hyper_parallel::torch_layer
