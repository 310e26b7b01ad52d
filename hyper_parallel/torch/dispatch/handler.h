#pragma once

#include <span>
#include <string_view>

#include "hyper_parallel/torch/dispatch/call_plan.h"

namespace hyper_parallel::torch_layer {

/// A handler: the function that runs instead of an op whose rule says `~name`.
///
/// It gets local inputs in the layouts `plan.inputs[i].layout` and leaves local results in the
/// layouts `plan.outputs`. It is made of local ops and differentiable collectives
/// (collective_ops.h), so autograd makes its backward. Where a backward written by hand moves less
/// (cross entropy), a comment says so. What each handler does and moves: rules/handlers.h.
struct HandlerEntry {
  std::string_view name;
  Handler run = nullptr;  // null: for lists alone
  Handler run_list =
      nullptr;  // for a list op whose members ask for the handler; null: there is none
};

/// All entries, sorted by name: the same names as rules::handlers() has, without those that stand
/// for the handlers of members. Checked when the library is loaded.
std::span<const HandlerEntry> handler_entries();

/// Throws InternalError for an unknown name.
const HandlerEntry& find_handler(std::string_view name);

}  // namespace hyper_parallel::torch_layer
