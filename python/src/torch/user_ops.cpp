// Rules and ops that Python code registers.

#include "hyper_parallel/torch/user_ops.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/rule.h"
#include "hyper_parallel/torch/frame.h"
#include "python/src/torch/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {
namespace {

using torch_layer::Frame;

// The arguments as a Python caller would write them: trailing ones that have their default value
// are left out, keyword-only ones are keywords.
std::pair<py::tuple, py::dict> python_arguments(const Frame& f) {
  const auto& schema = f.op.schema().arguments();
  std::size_t end = f.count();
  const auto is_default = [&](std::size_t i) {
    return schema[i].default_value().has_value() && *schema[i].default_value() == f.argument(i);
  };
  std::size_t by_place = 0;
  while (by_place < end && !schema[by_place].kwarg_only()) ++by_place;
  py::dict kwargs;
  for (std::size_t i = by_place; i < end; ++i) {
    if (!is_default(i)) {
      kwargs[schema[i].name().c_str()] = torch::jit::toPyObject(f.argument(i));
    }
  }
  while (by_place > 0 && is_default(by_place - 1)) --by_place;
  py::tuple args(by_place);
  for (std::size_t i = 0; i < by_place; ++i) args[i] = torch::jit::toPyObject(f.argument(i));
  return {std::move(args), std::move(kwargs)};
}

void put_results(Frame& f, const py::object& out) {
  const auto& returns = f.op.schema().returns();
  f.stack->erase(f.stack->begin() + static_cast<std::ptrdiff_t>(f.base), f.stack->end());
  if (returns.empty()) return;
  if (returns.size() == 1) {
    f.stack->push_back(torch::jit::toIValue(out, returns[0].type()));
    return;
  }
  const auto several = py::cast<py::sequence>(out);
  if (several.size() != returns.size()) {
    throw UsageError(Message(
        "HP-F034", f.info.name + ": the distributed op gave " + std::to_string(several.size()) +
                       " results, the op has " + std::to_string(returns.size())));
  }
  for (std::size_t i = 0; i < returns.size(); ++i) {
    f.stack->push_back(torch::jit::toIValue(py::object(several[i]), returns[i].type()));
  }
}

// What the row of a function that torch does not know asks of its tensors, and gives.
py::tuple infer_row(const std::string& name, const std::vector<at::Tensor>& tensors) {
  const rules::Row* row = rules::find_row(name);
  check_internal(row != nullptr, name + " has no row");
  rules::Call call;
  call.op = name;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    rules::Operand operand;
    operand.name = std::to_string(i);
    operand.meta = torch_layer::meta_of(tensors[i]);
    if (torch_layer::is_dtensor(tensors[i])) {
      operand.layout = torch_layer::impl_of(tensors[i])->layout();
      if (call.mesh == nullptr) call.mesh = operand.layout->mesh();
    }
    call.inputs.push_back(std::move(operand));
    call.list_lengths.push_back(-1);
  }
  const rules::Inference found = rules::infer_forward(rules::concretize(*row, call), call);
  if (!found.handler.empty() || !found.rewrites.empty() || found.random) {
    throw UnsupportedError(
        Message("HP-F040", name + ": the rule needs more than the function itself")
            .fact("rule", row->spec)
            .hint("handlers, attributes and random draws are for ops of torch"));
  }
  const auto list = [](const std::vector<const Layout*>& layouts) {
    py::list out;
    for (const Layout* l : layouts) out.append(py::cast(l, py::return_value_policy::reference));
    return out;
  };
  return py::make_tuple(list(found.inputs), list(found.outputs), found.output_sizes);
}

}  // namespace

void init_user_ops(py::module_& m) {
  m.def("register_rule", &register_rule, py::arg("op"), py::arg("rule"));
  m.def("unregister_rule", &unregister_rule, py::arg("op"));
  m.def("register_row", &rules::register_row, py::arg("name"), py::arg("rule"));
  m.def("unregister_row", &rules::unregister_row, py::arg("name"));
  m.def("infer_row", &infer_row, py::arg("name"), py::arg("tensors"));
  m.def("set_user_op", &torch_layer::set_user_op, py::arg("op"), py::arg("handled"));
  m.def(
      "set_user_op_handler",
      [](py::function handler) {
        // Kept for ever, so that no thread drops it without the interpreter's lock.
        auto* const call = new py::function(std::move(handler));
        torch_layer::set_user_op_handler([call](Frame& f) {
          const py::gil_scoped_acquire lock;
          try {
            const auto [args, kwargs] = python_arguments(f);
            put_results(f,
                        (*call)(f.op.schema().name(), f.op.schema().overload_name(), args, kwargs));
          } catch (py::error_already_set& e) {
            e.restore();
            python_error error;
            error.persist();
            throw error;
          }
        });
      },
      py::arg("handler"));
}

}  // namespace hyper_parallel::python
