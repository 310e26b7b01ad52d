// The graph of DTensors as Python sees it: the node that `grad_fn` shows.

#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/utils/pybind.h>

#include "hyper_parallel/torch/face/api.h"
#include "hyper_parallel/torch/tensor/bridge.h"
#include "hyper_parallel/torch/tensor/down_node.h"
#include "python/src/torch/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {
namespace {

namespace autograd = torch::autograd;

// Gradients do not pass a down node unless the pass starts there, so a hook on it would hardly ever
// be called. Those that can be are put on the local node behind it; others are refused.
template <const char* kName>
PyObject* hook_by_python(PyObject* self, PyObject* hook) {
  try {
    py::object f = py::module_::import("hyper_parallel.dtensors.intermediates").attr(kName);
    return f(py::handle(self), py::handle(hook)).release().ptr();
  } catch (py::error_already_set& e) {
    e.restore();
    return nullptr;
  }
}

constexpr char kHook[] = "register_node_hook";
constexpr char kPrehook[] = "register_node_prehook";

void register_down_node() {
  using namespace torch::autograd;  // NOLINT: torch's macro needs it
  static PyMethodDef methods[] = {
      {"_register_hook_dict", autograd::THPCppFunction_register_hook_dict, METH_O, nullptr},
      {"register_hook", &hook_by_python<kHook>, METH_O, nullptr},
      {"register_prehook", &hook_by_python<kPrehook>, METH_O, nullptr},
      {"name", autograd::THPCppFunction_name, METH_NOARGS, nullptr},
      {"_sequence_nr", autograd::THPCppFunction_sequence_nr, METH_NOARGS, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef properties[] = {THP_FUNCTION_DEFAULT_PROPERTIES,
                                     {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyTypeObject type{};
  autograd::_initFunctionPyTypeObject(type, "hyper_parallel.WrapperToLocal", properties, methods);
  autograd::registerCppFunction(torch_layer::down_node_type(), &type);
}

const autograd::Node* node_of(const py::object& node) {
  if (!autograd::THPCppFunction_Check(node.ptr())) return nullptr;
  return reinterpret_cast<autograd::THPCppFunction*>(node.ptr())->cdata.get();
}

}  // namespace

void init_graph(py::module_& m) {
  register_down_node();
  m.def(
      "layout_of_node",
      [](const py::object& node) -> const Layout* {
        const autograd::Node* found = node_of(node);
        return found == nullptr ? nullptr : torch_layer::layout_of_down_node(*found);
      },
      py::return_value_policy::reference);
  m.def("sizes_of_node", [](const py::object& node) {
    const auto sizes = node_of(node)->input_metadata(0).shape_as_dim_vector();
    Shape out;
    for (const auto& s : sizes) out.push_back(s.expect_int());
    return out;
  });
  m.def("gradient_node", [](const at::Tensor& t) {
    return py::reinterpret_steal<py::object>(
        autograd::functionToPyObject(autograd::impl::gradient_edge(t).function));
  });
}

}  // namespace hyper_parallel::python
