#pragma once

#include <functional>
#include <string>

/// What a program registers for ops: rules, and ops that it handles itself. Safe for threads;
/// caches of plans start anew.
namespace hyper_parallel {

/// Give an op a rule in the notation of docs/notation.md, such as
/// `register_rule("mylib::swiglu", "... f, ... f -> ... f")`. It takes the place of a built-in one.
///
/// `op`: a name as in torch's schemas, with the overload if it has one ("aten::sum.dim_IntList").
/// Throws UsageError: no such op, a rule that cannot be read, another rule or a distributed op of
/// the program's for it; nothing has changed then.
void register_rule(const std::string& op, const std::string& rule);

/// Take the rule of `register_rule` away; the built-in one, if any, counts again. False: none was.
bool unregister_rule(const std::string& op);

namespace torch_layer {

struct Frame;

/// Answers whole calls of the ops that `set_user_op` named: arguments on the stack, DTensors among
/// them; leaves results in their place.
using UserOpHandler = std::function<void(Frame&)>;
void set_user_op_handler(UserOpHandler handler);

/// From now on (`handled`), or no longer, calls of `op` go to the handler. `op` is a name without
/// overload ("aten::linear"): all overloads are meant. Throws UsageError: the program registered a
/// rule for it.
void set_user_op(const std::string& op, bool handled);
bool is_user_op(const std::string& name_with_overload);

/// The special op of dispatch that calls the handler.
void run_user_op(Frame& frame);

}  // namespace torch_layer
}  // namespace hyper_parallel
