#include "hyper_parallel/torch/dispatch/user_ops.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <mutex>
#include <set>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/rule.h"
#include "hyper_parallel/torch/dispatch/frame.h"

namespace hyper_parallel {
namespace {

void forget() {
  torch_layer::forget_op_info();
  torch_layer::forget_plans();
}

void check_op_exists(const std::string& op) {
  const std::size_t dot = op.find('.');
  const std::string base = op.substr(0, dot);
  const std::string overload = dot == std::string::npos ? "" : op.substr(dot + 1);
  auto& dispatcher = c10::Dispatcher::singleton();
  if (dispatcher.findSchema({base, overload})) return;
  std::string overloads;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name != base) continue;
    overloads += (overloads.empty() ? "" : ", ") + base;
    if (!name.overload_name.empty()) overloads += "." + name.overload_name;
  }
  throw UsageError(Message("HP-S044", "register_rule: torch has no op " + op)
                       .fact("ops", overloads.empty() ? "none of this name" : overloads)
                       .hint(overloads.empty() ? "define the op first, with torch.library"
                                               : "name one of these"));
}

}  // namespace

void register_rule(const std::string& op, const std::string& rule) {
  check_op_exists(op);
  if (torch_layer::is_user_op(op)) {
    throw UsageError(Message("HP-F033", op + " has a distributed op already, and gets a rule too")
                         .hint("unregister_distributed_op takes the first away"));
  }
  rules::register_row(op, rule);
  forget();
}

bool unregister_rule(const std::string& op) {
  const bool was = rules::unregister_row(op);
  if (was) forget();
  return was;
}

namespace torch_layer {
namespace {

struct UserOps {
  std::mutex mutex;
  std::set<std::string> names;
  UserOpHandler handler;
};

UserOps& user_ops() {
  static auto* const instance = new UserOps;
  return *instance;
}

}  // namespace

void set_user_op_handler(UserOpHandler handler) {
  UserOps& ops = user_ops();
  const std::lock_guard<std::mutex> lock(ops.mutex);
  ops.handler = std::move(handler);
}

void set_user_op(const std::string& op, bool handled) {
  UserOps& ops = user_ops();
  if (handled) {
    for (const std::string& own : rules::own_op_names()) {
      if (own.substr(0, own.find('.')) != op) continue;
      throw UsageError(
          Message("HP-F033", own + " has a rule already, and gets a distributed op too")
              .hint("unregister_rule takes the first away"));
    }
  }
  {
    const std::lock_guard<std::mutex> lock(ops.mutex);
    if (handled ? !ops.names.insert(op).second : ops.names.erase(op) == 0) return;
  }
  forget();
}

bool is_user_op(const std::string& name) {
  UserOps& ops = user_ops();
  const std::lock_guard<std::mutex> lock(ops.mutex);
  return !ops.names.empty() && ops.names.count(name.substr(0, name.find('.'))) > 0;
}

void run_user_op(Frame& frame) {
  UserOpHandler handler;
  {
    UserOps& ops = user_ops();
    const std::lock_guard<std::mutex> lock(ops.mutex);
    handler = ops.handler;
  }
  check_internal(handler != nullptr, frame.info.name + " has no handler");
  handler(frame);
}

}  // namespace torch_layer
}  // namespace hyper_parallel
