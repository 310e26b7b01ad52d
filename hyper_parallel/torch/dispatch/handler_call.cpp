#include "hyper_parallel/torch/dispatch/handler_call.h"

#include <ATen/OpMathType.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/ranks/coordinate.h"

namespace hyper_parallel::torch_layer {

LocalDim local_dim(const Layout* layout, int dim, std::int64_t size) {
  return {size, layout->axes(dim),
          local_intervals(layout, dim, size, my_coordinate(layout->mesh()))};
}

HandlerCall::HandlerCall(const c10::OperatorHandle& op, const OpPlan& plan, const RunHandler& how,
                         torch::jit::Stack* stack)
    : op_(op),
      plan_(plan),
      how_(how),
      stack_(stack),
      base_(stack->size() - op.schema().arguments().size()) {}

std::optional<std::size_t> HandlerCall::position(std::string_view name) const {
  const auto& arguments = op_.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == name) return i;
  }
  return std::nullopt;
}

// Handlers with tensor lists do not ask by name: here each tensor argument is one operand.
std::size_t HandlerCall::operand(std::string_view name) const {
  const auto& arguments = op_.schema().arguments();
  std::size_t k = 0;
  for (const c10::Argument& a : arguments) {
    if (a.name() == name) return k;
    if (a.type()->isSubtypeOf(*c10::OptionalType::ofTensor())) ++k;
  }
  throw InternalError(
      Message("HP-D090", "the handler of " + op_.schema().name() +
                             " asks for an argument that the op lacks: " + std::string(name)));
}

bool HandlerCall::smallest() const {
  if (how_.options.smallest) return *how_.options.smallest;
  throw InternalError(Message("HP-D090", op_.schema().name() +
                                             ": its row does not say whether the largest or the "
                                             "smallest wins"));
}

bool HandlerCall::may_be_none(std::string_view name) const {
  const auto at = position(name);
  return at && op_.schema().arguments()[*at].type()->kind() == c10::TypeKind::OptionalType;
}

const c10::IValue* HandlerCall::find(std::string_view name) const {
  const auto at = position(name);
  if (!at) return nullptr;
  const c10::IValue& v = (*stack_)[base_ + *at];
  // C++ callers give an undefined tensor for an absent one.
  return v.isNone() || (v.isTensor() && !v.toTensor().defined()) ? nullptr : &v;
}

at::Tensor HandlerCall::tensor(std::string_view name) const {
  const c10::IValue* v = find(name);
  return v == nullptr ? at::Tensor() : v->toTensor();
}

const Layout* HandlerCall::layout(std::string_view name) const {
  const Layout* layout = plan_.inputs[operand(name)].layout;
  return layout != nullptr ? layout : Layout::replicated(plan_.mesh);
}

const Shape& HandlerCall::sizes(std::string_view name) const {
  return plan_.input_sizes[operand(name)];
}

LocalDim HandlerCall::dim_of(std::string_view name, int dim) const {
  return local_dim(layout(name), dim, sizes(name)[static_cast<std::size_t>(dim)]);
}

std::int64_t HandlerCall::integer(std::string_view name, std::int64_t otherwise) const {
  const c10::IValue* v = find(name);
  if (v == nullptr) return otherwise;
  return v->isSymInt() ? v->toSymInt().guard_int(__FILE__, __LINE__) : v->toInt();
}

double HandlerCall::number(std::string_view name, double otherwise) const {
  const c10::IValue* v = find(name);
  return v == nullptr ? otherwise : v->toScalar().toDouble();
}

bool HandlerCall::boolean(std::string_view name, bool otherwise) const {
  const c10::IValue* v = find(name);
  return v == nullptr ? otherwise : v->toBool();
}

std::optional<at::ScalarType> HandlerCall::dtype() const {
  const c10::IValue* v = find("dtype");
  if (v == nullptr) return std::nullopt;
  return v->toScalarType();
}

std::vector<std::int64_t> HandlerCall::integers(std::string_view name) const {
  std::vector<std::int64_t> out;
  const c10::IValue* v = find(name);
  if (v == nullptr) return out;
  for (const c10::IValue& item : v->toListRef()) {
    out.push_back(item.isSymInt() ? item.toSymInt().guard_int(__FILE__, __LINE__) : item.toInt());
  }
  return out;
}

std::vector<std::int64_t> HandlerCall::dims(int ndim, std::string_view name) const {
  std::vector<std::int64_t> out;
  if (const c10::IValue* v = find(name)) {
    if (v->isInt()) {
      out.push_back(v->toInt());
    } else {
      out = v->toIntVector();
    }
  }
  if (out.empty()) {
    for (int i = 0; i < ndim; ++i) out.push_back(i);
  }
  for (std::int64_t& d : out) d = at::maybe_wrap_dim(d, ndim);
  return out;
}

void HandlerCall::set(std::string_view name, c10::IValue value) {
  const auto at = position(name);
  check_internal(at.has_value(), op_.schema().name() + " has no argument " + std::string(name));
  (*stack_)[base_ + *at] = std::move(value);
}

void HandlerCall::call() { op_.callBoxed(stack_); }

void HandlerCall::finish(std::initializer_list<at::Tensor> results) {
  check_internal(results.size() == returns(), op_.schema().name() + ": wrong number of results");
  stack_->erase(stack_->begin() + static_cast<std::ptrdiff_t>(base_), stack_->end());
  for (const at::Tensor& t : results) stack_->emplace_back(t);
}

void HandlerCall::finish_list(std::vector<at::Tensor> result) {
  stack_->erase(stack_->begin() + static_cast<std::ptrdiff_t>(base_), stack_->end());
  stack_->emplace_back(std::move(result));
}

std::vector<int> axes_of(const Layout* layout, c10::ArrayRef<std::int64_t> dims) {
  std::vector<int> out;
  for (std::int64_t dim : dims) {
    const auto& axes = layout->axes(static_cast<int>(dim));
    out.insert(out.end(), axes.begin(), axes.end());
  }
  std::sort(out.begin(), out.end());
  return out;
}

at::Tensor widened(const at::Tensor& t) { return t.to(at::toOpMathType(t.scalar_type())); }

at::ScalarType type_in_autocast(const at::Tensor& t, std::string_view handler) {
  const auto type = t.scalar_type();
  if (type != at::kHalf && type != at::kBFloat16) return type;
  if (!at::autocast::is_autocast_enabled(t.device().type())) return type;
  // Source: torch 2.13, ATen/autocast_mode.h (AT_FORALL_FP32, AT_FORALL_FP32_SET_OPT_DTYPE) for
  // accelerators; autocast_mode.cpp for the CPU, which has the losses alone.
  constexpr std::array<std::string_view, 2> kEverywhere = {"cross_entropy", "nll_loss"};
  constexpr std::array<std::string_view, 7> kAccelerators = {
      "softmax", "log_softmax", "logsumexp", "layer_norm", "rms_norm", "norm", "cumsum"};
  const auto listed = [&](const auto& names) {
    return std::find(names.begin(), names.end(), handler) != names.end();
  };
  const bool wide = listed(kEverywhere) || (!t.device().is_cpu() && listed(kAccelerators));
  return wide ? at::kFloat : type;
}

at::Tensor global_indices(const LocalDim& d, at::Device device) {
  const auto options = at::TensorOptions(at::kLong).device(device);
  std::vector<at::Tensor> parts;
  for (const Interval& i : d.intervals) parts.push_back(at::arange(i.begin, i.end, options));
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

at::Tensor to_global_index(const at::Tensor& position, const LocalDim& d) {
  if (d.is_whole()) return position;
  if (d.intervals.size() == 1) return position + d.intervals[0].begin;
  const at::Tensor table = global_indices(d, position.device());
  return table.numel() == 0 ? position : table.take(position);
}

LocalIndex to_local_index(const at::Tensor& index, const LocalDim& d) {
  LocalIndex out;
  std::int64_t start = 0;  // of the interval, in the local dim
  for (const Interval& i : d.intervals) {
    const at::Tensor inside = index.ge(i.begin).logical_and_(index.lt(i.end));
    const at::Tensor here = (index - (i.begin - start)).masked_fill_(inside.logical_not(), 0);
    out.position = out.position.defined() ? out.position.add_(here) : here;
    out.mine = out.mine.defined() ? out.mine.logical_or_(inside) : inside;
    start += i.size();
  }
  out.position.masked_fill_(index.lt(0).logical_or_(index.ge(d.size)), d.size);
  return out;
}

at::Tensor local_part(const at::Tensor& whole, std::int64_t dim, const LocalDim& d) {
  if (d.is_whole()) return whole;
  if (d.intervals.size() == 1) {
    return whole.narrow(dim, d.intervals[0].begin, d.intervals[0].size());
  }
  return whole.index_select(dim, global_indices(d, whole.device()));
}

at::Tensor nonempty(const at::Tensor& t, std::int64_t dim) {
  if (t.size(dim) != 0) return t;
  auto sizes = t.sizes().vec();
  sizes[static_cast<std::size_t>(dim)] = 1;
  return at::cat({t, at::zeros(sizes, t.options())}, dim);
}

at::Tensor gather_mine(const at::Tensor& local, std::int64_t dim, const at::Tensor& index,
                       const LocalDim& d) {
  const LocalIndex i = to_local_index(index, d);
  return at::gather(nonempty(local, dim), dim, i.position).masked_fill_(i.mine.logical_not(), 0);
}

}  // namespace hyper_parallel::torch_layer
