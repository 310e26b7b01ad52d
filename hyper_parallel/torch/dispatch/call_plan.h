#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/rules/row_options.h"
#include "hyper_parallel/rules/window.h"

namespace hyper_parallel::plan {
struct Plan;
}

namespace hyper_parallel::torch_layer {

class HandlerCall;
struct Frame;
struct Operands;
struct OpPlan;

/// Runs in place of an op: takes local inputs in the layouts that the plan asks for and leaves
/// local results in the plan's output layouts. See handler.h.
using Handler = void (*)(HandlerCall& call);

/// Runs an op that draws random numbers and leaves wrapped results on the stack.
using Draw = void (*)(Frame& frame, const OpPlan& plan, Operands& operands);

/// The op itself, on the parts of this rank. (run_local.cpp)
struct RunLocal {};

/// A handler in place of the op, on the parts of this rank. (run_handler.cpp)
struct RunHandler {
  /// What the handler does to one member of a list op.
  struct Member {
    bool handled = false;            // the member's own rule asks for the handler
    const Layout* result = nullptr;  // of the member; null: it has none
  };
  Handler run = nullptr;
  std::string reason;  // the handler's name, and what a gather would move in its place
  std::vector<std::pair<int, rules::Window>> windows;  // dims of the first operand, cut and read so
  rules::RowOptions options;                           // of the op's row
  std::vector<Member> members;                         // of a list op, else empty
};

/// No rule fits: the op on whole tensors. What it writes goes back to where it was. (run_whole.cpp)
struct RunWhole {};

/// A plain tensor is written: whole operands cross the border, the op runs on plain tensors, which
/// stay plain and equal on all ranks. (run_plain.cpp)
struct RunPlain {};

/// The op draws random numbers: those that one device would draw. (run_draw.cpp)
struct RunDraw {
  Draw draw = nullptr;
};

/// All that a call needs once its op, layouts, shapes and arguments were seen before. It depends on
/// the key of the call alone, and never changes.
struct OpPlan {
  /// How one tensor operand becomes what the local op takes.
  struct Input {
    std::shared_ptr<const plan::Plan> plan;  // null: as it is
    const Layout* layout = nullptr;          // after the plan; null: absent or taken as it is
    std::string reason;
    bool scratch = false;  // written by the schema, not in this call: a copy of it may be given
  };
  /// A non-tensor argument replaced for this rank.
  struct Replaced {
    int argument;
    c10::IValue value;
  };
  const Mesh* mesh = nullptr;
  std::vector<Input> inputs;           // tensor operands, lists flattened
  std::vector<Shape> input_sizes;      // global, beside inputs; RunWhole and RunPlain: empty
  std::vector<const Layout*> outputs;  // results, lists flattened; RunWhole: empty, all are whole
  std::vector<Shape> output_sizes;     // global; empty: those of the local results
  std::vector<Replaced> replaced;
  std::variant<RunLocal, RunHandler, RunWhole, RunPlain, RunDraw> kind;

  /// The layout of result `i`.
  const Layout* output(std::size_t i) const {
    return i < outputs.size() ? outputs[i] : Layout::replicated(mesh);
  }
};

}  // namespace hyper_parallel::torch_layer
