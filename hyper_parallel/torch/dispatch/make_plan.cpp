#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <mutex>
#include <set>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/rules/handlers.h"
#include "hyper_parallel/rules/rule.h"
#include "hyper_parallel/torch/dispatch/draw.h"
#include "hyper_parallel/torch/dispatch/frame.h"
#include "hyper_parallel/torch/dispatch/handler.h"
#include "hyper_parallel/torch/dispatch/running_statistics.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "hyper_parallel/torch/ranks/rank_state.h"

namespace hyper_parallel::torch_layer {
namespace {

rules::Attr attribute(const c10::Argument& schema, const c10::IValue& v) {
  if (v.isInt() && schema.real_type()->kind() != c10::TypeKind::IntType) {
    // An enum (ScalarType, Layout, MemoryFormat) travels as an int; only element types matter.
    const auto inner = schema.real_type()->kind() == c10::TypeKind::OptionalType
                           ? schema.real_type()->castRaw<c10::OptionalType>()->getElementType()
                           : schema.real_type();
    if (inner->kind() == c10::TypeKind::ScalarTypeType) {
      return std::string(to_string(dtype_of(static_cast<c10::ScalarType>(v.toInt()))));
    }
  }
  if (v.isInt()) return v.toInt();
  if (v.isBool()) return v.toBool();
  if (v.isString()) return v.toStringRef();
  if (v.isSymInt()) return v.toSymInt().guard_int(__FILE__, __LINE__);
  if (v.isIntList() || v.isSymIntList() || v.isBoolList()) {
    std::vector<std::int64_t> out;
    for (const c10::IValue& item : v.toListRef()) {
      out.push_back(item.isBool()     ? static_cast<std::int64_t>(item.toBool())
                    : item.isSymInt() ? item.toSymInt().guard_int(__FILE__, __LINE__)
                                      : item.toInt());
    }
    return out;
  }
  return std::monostate{};
}

/// Every operand whole, results whole, whatever the op does. What is written goes back to where it
/// was.
std::unique_ptr<OpPlan> whole_plan(const Frame& f, const Operands& operands,
                                   const std::string& why) {
  auto plan = std::make_unique<OpPlan>();
  plan->mesh = operands.mesh;
  plan->kind = RunWhole{};
  const Layout* whole = Layout::replicated(operands.mesh);
  std::string moved;
  for (const at::Tensor& t : operands.tensors) {
    OpPlan::Input input;
    if (is_dtensor(t)) {
      input.layout = whole;
      if (impl_of(t)->layout() != whole) {
        input.plan = plan::redistribute(impl_of(t)->layout(), whole, meta_of(t));
        input.reason = why + ": run on whole tensors";
        moved += (moved.empty() ? "" : "; ") + describe(t);
      }
    }
    plan->inputs.push_back(std::move(input));
  }
  if (settings().policy == Policy::strict) {
    throw UnsupportedError(
        Message("HP-D010",
                f.info.name + " has no sharding rule, and policy strict runs no op whole")
            .fact("operands", moved.empty() ? "all replicated" : moved)
            .hint("register_rule(\"" + f.info.name + "\", ...), or policy(\"auto\")"));
  }
  if (!moved.empty()) {
    static std::mutex mutex;
    static auto* const warned = new std::set<std::string>;
    std::lock_guard<std::mutex> lock(mutex);
    if (warned->size() < 10000 && warned->insert(f.info.name).second) {
      double bytes = 0;
      for (const auto& input : plan->inputs) bytes += input.plan ? input.plan->bytes : 0;
      TORCH_WARN("hyper_parallel: ", f.info.name, " has ", why, " and runs on whole tensors (",
                 moved, "; ", static_cast<std::int64_t>(bytes), " bytes moved a call). ",
                 "Register a rule, or use policy(\"strict\") to forbid it.");
    }
  }
  return plan;
}

c10::IValue rewritten(const rules::Rewrite& r, const rules::Inference& inference) {
  using Kind = rules::Rewrite::Kind;
  const auto& here = my_coordinate(inference.outputs[0]->mesh());
  const auto length = [&](std::size_t output) {
    return local_size(inference.outputs[output], r.dim,
                      inference.output_sizes[output][static_cast<std::size_t>(r.dim)], here);
  };
  const auto index = static_cast<std::size_t>(r.tensor);
  if (r.kind == Kind::local_size) return length(index);
  if (r.kind == Kind::local_shape) {
    return local_shape(inference.outputs[index], inference.output_sizes[index], here);
  }
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < inference.outputs.size(); ++i) lengths.push_back(length(i));
  return lengths;
}

// Whether an op in place may run on whole tensors. A sum that is pending stays the user's decision.
bool can_write_back(const Frame& f, const Operands& operands, const rules::Call& call) {
  if (settings().policy == Policy::strict || f.info.has_out) return false;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].pinned) continue;
    const auto argument = static_cast<std::size_t>(operands.argument[i]);
    const Layout* layout = call.inputs[i].layout;
    if (!f.info.arguments[argument].written || (layout != nullptr && layout->has_partial())) {
      return false;
    }
  }
  return true;
}

// What a rank would move to make operands whole along the axes that a handler splits.
double bytes_without_handler(const rules::ConcreteRule& rule, const rules::Call& call,
                             const rules::Inference& inference) {
  double out = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Layout* split = inference.handler.empty() ? nullptr : inference.inputs[i];
    const Layout* whole = split;
    for (std::size_t axis = 0; split != nullptr && axis < inference.choices.size(); ++axis) {
      const rules::AxisChoice& choice = inference.choices[axis];
      const int a = static_cast<int>(axis);
      if (choice.kind != rules::AxisChoice::Kind::factor || !split->placement(a).is_shard() ||
          rule.factors[static_cast<std::size_t>(choice.factor)].handler.empty()) {
        continue;
      }
      whole = whole->with(a, Placement::replicate());
    }
    if (whole != split) out += plan::redistribute(split, whole, call.inputs[i].meta)->bytes;
  }
  return out;
}

RunHandler by_handler(const Frame& f, const rules::Inference& inference) {
  RunHandler out;
  out.reason = inference.handler;
  out.windows = inference.windows;
  out.options = rules::row_options(*f.info.row);
  if (!rules::find_handler(inference.handler).of_members) {
    out.run = find_handler(inference.handler).run;
    return out;
  }
  // A list op: the handler that its members ask for, each on its own.
  for (const rules::Inference& part : inference.parts) {
    out.members.push_back(
        {!part.handler.empty(), part.outputs.empty() ? nullptr : part.outputs[0]});
    if (part.handler.empty()) continue;
    const Handler run = find_handler(part.handler).run_list;
    if (run == nullptr || (out.run != nullptr && out.run != run)) {
      throw InternalError(
          Message("HP-D090", f.info.name + ": a list op with the handler " + part.handler));
    }
    out.run = run;
  }
  return out;
}

}  // namespace

rules::Call make_call(const Frame& f, const Operands& operands) {
  rules::Call call;
  call.op = f.info.name;
  call.mesh = operands.mesh;
  std::size_t next = 0;
  const auto& schema = f.op.schema().arguments();
  for (std::size_t i = 0; i < f.count(); ++i) {
    const OpInfo::Argument& a = f.info.arguments[i];
    if (!a.tensor && !a.list) {
      if (a.keyed) {
        call.attrs.emplace(schema[i].name(), attribute(schema[i], f.argument(i)));
      } else if (f.argument(i).isScalar()) {
        call.attrs.emplace(schema[i].name(), is_zero(f.argument(i)) ? 0.0 : 1.0);
      }
      continue;
    }
    std::size_t members = 0;
    while (next + members < operands.tensors.size() &&
           operands.argument[next + members] == static_cast<int>(i)) {
      ++members;
    }
    for (std::size_t k = 0; k < members; ++k) {
      const at::Tensor& t = operands.tensors[next + k];
      rules::Operand o;
      o.name = schema[i].name() + (a.list ? "[" + std::to_string(k) + "]" : "");
      o.present = t.defined();
      if (t.defined()) o.meta = meta_of(t);
      if (is_dtensor(t)) o.layout = impl_of(t)->layout();
      o.pinned = a.written && !is_updated_statistic(f, i);
      if (!a.out) call.inputs.push_back(std::move(o));
    }
    if (!a.out) call.list_lengths.push_back(a.list ? static_cast<int>(members) : -1);
    next += members;
  }
  if (f.info.grad_matters) call.attrs.emplace("requires_grad", wants_grad(operands));
  return call;
}

std::unique_ptr<OpPlan> make_plan(const Frame& f, const Operands& operands) {
  if (operands.plain_write) {
    auto plan = std::make_unique<OpPlan>();
    plan->mesh = operands.mesh;
    plan->kind = RunPlain{};
    return plan;
  }
  if (f.info.row == nullptr) return whole_plan(f, operands, "no sharding rule");

  const rules::Call call = make_call(f, operands);
  const rules::ConcreteRule rule = rules::concretize(*f.info.row, call);
  rules::Inference inferred;
  try {
    inferred = rules::infer_forward(rule, call);
  } catch (const UnsupportedError& error) {
    if (error.code() != "HP-S030" || !can_write_back(f, operands, call)) throw;
    return whole_plan(f, operands, "no rule that keeps the layout of what it writes");
  }
  auto plan = make_plan(f, operands, call, inferred);
  if (auto* handler = std::get_if<RunHandler>(&plan->kind)) {
    const double gathered = bytes_without_handler(rule, call, inferred);
    if (gathered > 0) {
      handler->reason +=
          ", where a gather moves " + std::to_string(std::llround(gathered)) + " bytes";
    }
  }
  return plan;
}

std::unique_ptr<OpPlan> make_plan(const Frame& f, const Operands& operands, const rules::Call& call,
                                  const rules::Inference& inference) {
  auto plan = std::make_unique<OpPlan>();
  plan->mesh = operands.mesh;
  plan->outputs = inference.outputs;
  if (!inference.dynamic) plan->output_sizes = inference.output_sizes;
  if (inference.random) {
    plan->kind = RunDraw{find_draw(rules::row_options(*f.info.row).draw)};
  } else if (!inference.handler.empty()) {
    plan->kind = by_handler(f, inference);
  }

  std::size_t k = 0;
  for (std::size_t i = 0; i < operands.tensors.size(); ++i) {
    const at::Tensor& t = operands.tensors[i];
    OpPlan::Input input;
    plan->input_sizes.push_back(t.defined() ? Shape(t.sizes().begin(), t.sizes().end()) : Shape{});
    if (f.info.arguments[static_cast<std::size_t>(operands.argument[i])].out) {
      plan->inputs.push_back(std::move(input));
      continue;
    }
    const Layout* want = inference.inputs[k];
    if (t.defined() && want != nullptr) {
      input.layout = want;
      const Layout* have = is_dtensor(t) ? impl_of(t)->layout() : Layout::replicated(operands.mesh);
      if (have != want) {
        input.plan = plan::redistribute(have, want, meta_of(t));
        // Pieces of a tensor without elements differ in shape all the same.
        if (input.plan->steps.empty() && t.numel() != 0) input.plan = nullptr;
        // What is written does not move, unless the rule knows better.
        input.scratch = call.inputs[k].pinned;
        for (const rules::Change& change : inference.changes) {
          if (change.input == static_cast<int>(k)) {
            input.reason = call.inputs[k].name + ": " + change.reason;
          }
        }
      }
    }
    plan->inputs.push_back(std::move(input));
    ++k;
  }
  for (const rules::Rewrite& r : inference.rewrites) {
    const auto position = f.op.schema().argumentIndexWithName(r.argument);
    check_internal(position.has_value(), f.info.name + " has no argument " + r.argument);
    plan->replaced.push_back({*position, rewritten(r, inference)});
  }
  return plan;
}

}  // namespace hyper_parallel::torch_layer
