#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "hyper_parallel/torch/dispatch/call_plan.h"

namespace hyper_parallel::torch_layer {

/// How one dim of a local tensor lies in the global tensor.
struct LocalDim {
  std::int64_t size = 0;            // global
  std::vector<int> axes;            // that cut it, major to minor; none: the dim is whole
  std::vector<Interval> intervals;  // held by this rank, in the order of the local tensor

  bool is_whole() const { return axes.empty(); }
};
LocalDim local_dim(const Layout* layout, int dim, std::int64_t size);

/// The call that a handler answers: its arguments by their names in the schema, and the layouts
/// that the plan gave to its tensors. Shapes of tensors are local, `sizes` are global.
class HandlerCall {
 public:
  HandlerCall(const c10::OperatorHandle& op, const OpPlan& plan, const RunHandler& how,
              torch::jit::Stack* stack);

  const OpPlan& plan() const { return plan_; }

  /// The dims of the first operand that are cut and read through a window.
  const auto& windows() const { return how_.windows; }

  /// What the op's row says to the handler. `smallest`: see RowOptions; throws InternalError if the
  /// row does not say which wins.
  const rules::RowOptions& options() const { return how_.options; }
  bool smallest() const;

  /// The members of a list op.
  const std::vector<RunHandler::Member>& members() const { return how_.members; }

  const Mesh* mesh() const { return plan_.mesh; }
  std::size_t returns() const { return op_.schema().returns().size(); }
  bool writes() const { return op_.schema().is_mutable(); }

  /// Whether the argument may be None by the schema.
  bool may_be_none(std::string_view name) const;

  /// Null if the op has no such argument, or if it is None or an undefined tensor.
  const c10::IValue* find(std::string_view name) const;

  /// Undefined if absent.
  at::Tensor tensor(std::string_view name) const;

  /// Replicated for a tensor that is taken as it is.
  const Layout* layout(std::string_view name) const;
  const Shape& sizes(std::string_view name) const;
  LocalDim dim_of(std::string_view name, int dim) const;

  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  double number(std::string_view name, double otherwise) const;
  bool boolean(std::string_view name, bool otherwise) const;
  std::optional<at::ScalarType> dtype() const;

  /// A list of numbers; empty if absent.
  std::vector<std::int64_t> integers(std::string_view name) const;

  /// The argument `dim` for a tensor of `ndim` dims: non-negative; all dims if it is None, absent
  /// or an empty list. Throws IndexError as torch does.
  std::vector<std::int64_t> dims(int ndim, std::string_view name = "dim") const;

  void set(std::string_view name, c10::IValue value);

  /// Run the op itself on what is on the stack.
  void call();

  /// Leave these results on the stack, in place of the arguments.
  void finish(std::initializer_list<at::Tensor> results);
  void finish_list(std::vector<at::Tensor> result);

  /// Results of `call`.
  const at::Tensor& result(std::size_t i = 0) const { return (*stack_)[base_ + i].toTensor(); }

 private:
  std::optional<std::size_t> position(std::string_view name) const;
  std::size_t operand(std::string_view name) const;

  const c10::OperatorHandle& op_;
  const OpPlan& plan_;
  const RunHandler& how_;
  torch::jit::Stack* stack_;
  std::size_t base_;
};

/// The axes that cut any of `dims`, in the mesh's order.
std::vector<int> axes_of(const Layout* layout, c10::ArrayRef<std::int64_t> dims);

/// `t` in the type in which torch computes statistics: f32 for f16 and bf16, else its own.
at::Tensor widened(const at::Tensor& t);

/// The element type of `t`, or f32 if autocast is on for its device and runs an op of that name in
/// f32. Handlers stand above autocast, and the ops that they are made of need not be on its lists.
at::ScalarType type_in_autocast(const at::Tensor& t, std::string_view handler);

/// The global indices that this rank holds, int64[local size].
at::Tensor global_indices(const LocalDim& d, at::Device device);

/// From positions along the local dim to global indices.
at::Tensor to_global_index(const at::Tensor& position, const LocalDim& d);

/// From global indices to positions along the local dim. Where `mine` is false the position is 0,
/// or `d.size` for an index outside the global dim: an op that looks it up will refuse it as torch
/// does, without a value on the host.
struct LocalIndex {
  at::Tensor position;
  at::Tensor mine;
};
LocalIndex to_local_index(const at::Tensor& index, const LocalDim& d);

/// The rows of `whole` that this rank holds of a dim cut as `d`.
at::Tensor local_part(const at::Tensor& whole, std::int64_t dim, const LocalDim& d);

/// `t` with at least one index along `dim`: an empty one gets zeros.
at::Tensor nonempty(const at::Tensor& t, std::int64_t dim);

/// at::gather by global indices: zero where the index is another rank's. P(sum) over `d.axes`.
at::Tensor gather_mine(const at::Tensor& local, std::int64_t dim, const at::Tensor& index,
                       const LocalDim& d);

}  // namespace hyper_parallel::torch_layer
