#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

#include "hyper_parallel/torch/tensor/dtensor.h"

namespace hyper_parallel::rules {
struct Row;
}

namespace hyper_parallel::torch_layer {

struct Frame;

/// An op that does not go through rules: it handles the whole call (arguments on the stack are
/// wrappers) and leaves the results there.
using SpecialOp = void (*)(Frame& frame);

/// What dispatch needs to know of an op, read once from its schema.
struct OpInfo {
  enum class Kind : std::uint8_t {
    rule,         // has a row
    special,      // handled whole by `special`
    transparent,  // reads or changes the wrapper itself: call it with the wrapper's key off
    decompose,    // composite without a row: run its own code, inner ops come back here
    unknown,      // neither: replicated in policy auto, refused in strict
  };
  struct Argument {
    bool tensor = false;  // Tensor, Tensor?
    bool list = false;    // Tensor[], Tensor?[]
    bool keyed = false;   // a non-tensor whose value the plan may depend on
    bool written = false;
    bool out = false;  // an out= argument
  };
  Kind kind = Kind::unknown;
  std::string name;  // "aten::sum.dim_IntList"
  const rules::Row* row = nullptr;
  SpecialOp special = nullptr;
  std::vector<Argument> arguments;
  std::vector<int> written_return;  // for each return the argument it is, or -1
  std::vector<bool> view_return;    // for each return: a view of some argument
  bool writes = false;
  bool views = false;  // some return is a view
  bool has_out = false;
  bool per_member = false;    // does the same with each member of its lists: _foreach_*, _fused_*
  bool grad_matters = false;  // its strategies depend on whether a gradient is wanted
};

/// Thread-safe, kept for each op while the process lives.
const OpInfo& op_info(const c10::OperatorHandle& op);

/// Drop what is kept (after a row was registered).
void forget_op_info();

/// Special and transparent ops by name, see special_ops.cpp.
SpecialOp find_special(const std::string& name);
bool is_transparent(const std::string& name);

}  // namespace hyper_parallel::torch_layer
