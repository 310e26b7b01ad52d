#include "hyper_parallel/torch/comm/collectives.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

#include <string>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/ranks/ranks.h"

namespace hyper_parallel::torch_layer {
namespace {

template <class Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

at::Tensor waited(const at::Tensor& x) {
  static const auto op = find<at::Tensor(const at::Tensor&)>("_c10d_functional::wait_tensor");
  return op.call(x);
}

std::string name_of(ReduceOp op) {
  return op == ReduceOp::prod ? "product" : std::string(to_string(op));
}

/// Run `collective` on `x` as numbers that every backend knows.
template <class Collective>
at::Tensor as_numbers(const at::Tensor& x, ReduceOp op, Collective collective) {
  if (x.is_complex()) {
    if (op != ReduceOp::sum && op != ReduceOp::avg) {
      throw UnsupportedError(
          Message("HP-R007", "complex numbers cannot be combined by " + std::string(to_string(op)))
              .hint("reduce the real and the imaginary part"));
    }
    return at::view_as_complex(collective(at::view_as_real(x.resolve_conj()).contiguous()));
  }
  if (x.scalar_type() == at::kBool) return collective(x.to(at::kByte)).to(at::kBool);
  return collective(x);
}

/// Sums and products of bools are "or" and "and".
ReduceOp op_for(ReduceOp op, const at::Tensor& x) {
  if (x.scalar_type() != at::kBool) return op;
  return op == ReduceOp::prod || op == ReduceOp::min ? ReduceOp::min : ReduceOp::max;
}

bool is_plain(const at::Tensor& x) { return !x.is_complex() && x.scalar_type() != at::kBool; }

at::Tensor contiguous(const at::Tensor& x) { return x.is_neg() ? x.resolve_neg() : x.contiguous(); }

}  // namespace

Group group_along(const Mesh* mesh, const std::vector<int>& axes) {
  RankContext& me = current_rank();
  const std::vector<int> ranks = mesh->group(axes, me.rank());
  return {.name = me.group_name(ranks), .size = static_cast<std::int64_t>(ranks.size())};
}

at::Tensor all_reduce(const at::Tensor& x, ReduceOp op, const Group& group) {
  static const auto call = find<at::Tensor(const at::Tensor&, std::string, const c10::IValue&)>(
      "_c10d_functional::all_reduce");
  const auto run = [&](const at::Tensor& t) {
    return waited(call.call(t, name_of(op_for(op, x)), group.name));
  };
  return is_plain(x) ? run(x) : as_numbers(x, op, run);
}

void all_reduce_in_place(at::Tensor& x, ReduceOp op, const Group& group) {
  static const auto call = find<at::Tensor&(at::Tensor&, std::string, const c10::IValue&)>(
      "_c10d_functional::all_reduce_");
  if (is_plain(x)) {
    waited(call.call(x, name_of(op), group.name));
  } else {
    x = all_reduce(x, op, group);
  }
}

at::Tensor all_gather(const at::Tensor& x, const Group& group) {
  static const auto call = find<at::Tensor(const at::Tensor&, std::int64_t, const c10::IValue&)>(
      "_c10d_functional::all_gather_into_tensor");
  const auto run = [&](const at::Tensor& t) {
    return waited(call.call(contiguous(t), group.size, group.name));
  };
  return is_plain(x) ? run(x) : as_numbers(x, ReduceOp::sum, run);
}

at::Tensor reduce_scatter(const at::Tensor& x, ReduceOp op, const Group& group) {
  static const auto call =
      find<at::Tensor(const at::Tensor&, std::string, std::int64_t, const c10::IValue&)>(
          "_c10d_functional::reduce_scatter_tensor");
  const auto run = [&](const at::Tensor& t) {
    return waited(call.call(contiguous(t), name_of(op_for(op, x)), group.size, group.name));
  };
  return is_plain(x) ? run(x) : as_numbers(x, op, run);
}

at::Tensor all_to_all(const at::Tensor& x, const std::vector<c10::SymInt>& received,
                      const std::vector<c10::SymInt>& sent, const Group& group) {
  static const auto call =
      find<at::Tensor(const at::Tensor&, c10::SymIntArrayRef, c10::SymIntArrayRef,
                      const c10::IValue&)>("_c10d_functional::all_to_all_single");
  const auto run = [&](const at::Tensor& t) {
    return waited(call.call(contiguous(t), received, sent, group.name));
  };
  return is_plain(x) ? run(x) : as_numbers(x, ReduceOp::sum, run);
}

}  // namespace hyper_parallel::torch_layer
