// Rules and ops that Python code registers.

#include "hyper_parallel/torch/dispatch/user_ops.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/rule.h"
#include "hyper_parallel/torch/dispatch/frame.h"
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

}  // namespace

void init_user_ops(py::module_& m) {
  m.def("register_rule", &register_rule, py::arg("op"), py::arg("rule"));
  m.def("unregister_rule", &unregister_rule, py::arg("op"));
  m.def("register_row", &rules::register_row, py::arg("name"), py::arg("rule"));
  m.def("unregister_row", &rules::unregister_row, py::arg("name"));
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
