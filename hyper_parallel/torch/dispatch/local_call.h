#pragma once

#include <c10/util/FunctionRef.h>

#include <utility>

#include "hyper_parallel/torch/dispatch/frame.h"

namespace hyper_parallel::torch_layer {

/// One call on parts: local operands in, wrapped results out. What runs between `enter` and `leave`
/// finds local tensors on the stack and leaves local results there.
class LocalCall {
 public:
  /// A wrapper that the op writes.
  struct Written {
    std::size_t operand;
    at::Tensor wrapper;
    at::Tensor local;  // what the op is given to write to
  };
  /// What the op made of it.
  struct Value {
    at::Tensor local;
    const Layout* layout;
    Shape sizes;  // global
  };
  using Store = c10::function_ref<void(const Written& written, const Value& value)>;

  LocalCall(Frame& frame, const OpPlan& plan, Operands& operands)
      : frame_(frame), plan_(plan), operands_(operands) {}

  const Frame& frame() const { return frame_; }
  const OpPlan& plan() const { return plan_; }

  /// Give each tensor argument its local value and put the plan's values for this rank in place.
  /// Throws UsageError for a leaf or a copied view that would be written.
  void enter();

  /// Wrap the results. `store` puts the value of a tensor that was written into its wrapper;
  /// `unreturned` is the layout of values that the op does not return, null: that of the wrapper.
  void leave(const Layout* unreturned, Store store);

 private:
  void put_locals();
  Value value_of(const Written& written, const Layout* unreturned) const;
  const Written* find_written(int argument) const;
  c10::IntArrayRef sizes_of(std::size_t result, const at::Tensor& local) const;
  bool is_first_operand(const at::Tensor& local, std::size_t result) const;
  at::Tensor wrapped(at::Tensor local, std::size_t result, bool view) const;

  Frame& frame_;
  const OpPlan& plan_;
  Operands& operands_;
  c10::SmallVector<at::Tensor, 8> locals_;
  c10::SmallVector<Written, 2> written_;
  // Running statistics that moved for the call: operand, and what the op writes.
  c10::SmallVector<std::pair<std::size_t, at::Tensor>, 2> statistics_;
};

/// The functions of the kinds; each leaves wrapped (RunPlain: plain) results on the stack.
void run(const RunLocal& how, Frame& frame, const OpPlan& plan, Operands& operands);
void run(const RunHandler& how, Frame& frame, const OpPlan& plan, Operands& operands);
void run(const RunWhole& how, Frame& frame, const OpPlan& plan, Operands& operands);
void run(const RunPlain& how, Frame& frame, const OpPlan& plan, Operands& operands);
void run(const RunDraw& how, Frame& frame, const OpPlan& plan, Operands& operands);

}  // namespace hyper_parallel::torch_layer
