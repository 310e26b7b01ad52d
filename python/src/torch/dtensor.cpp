// DTensors: making, moving, reading; the Python class of wrappers.

#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "hyper_parallel/torch/api.h"
#include "hyper_parallel/torch/bridge.h"
#include "hyper_parallel/torch/leaf_grads.h"
#include "python/src/torch/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {
namespace {

using torch_layer::impl_of;
using torch_layer::is_dtensor;

PyTypeObject* dtensor_type = nullptr;

// Gives a new wrapper its class. The Python object is made here and then kept by the tensor.
void show(const at::Tensor& t) {
  if (dtensor_type == nullptr || Py_IsInitialized() == 0) return;
  py::gil_scoped_acquire gil;
  PyObject* object = THPVariable_Wrap(t, dtensor_type);
  if (object == nullptr) throw py::error_already_set();
  Py_DECREF(object);
}

}  // namespace

void init_dtensor(py::module_& m) {
  m.def("set_dtensor_type", [](py::object type) {
    dtensor_type = reinterpret_cast<PyTypeObject*>(type.release().ptr());
    torch_layer::set_python_hook(&show);
  });
  m.def("is_dtensor", [](const at::Tensor& t) { return is_dtensor(t); });
  m.def("describe", &torch_layer::describe);
  m.def("layout", &layout_of, py::return_value_policy::reference);
  m.def("local", [](const at::Tensor& t) {
    (void)layout_of(t);
    return impl_of(t)->local().detach();
  });
  m.def("local_for_use", [](const at::Tensor& t) {
    (void)layout_of(t);
    return torch_layer::local_for_use(t);
  });
  m.def("has_down_node", [](const at::Tensor& t) {
    return is_dtensor(t) && t.requires_grad() && !torch_layer::has_own_graph(t);
  });
  m.def(
      "to_local",
      [](const at::Tensor& t, const Layout* grad_layout) {
        py::gil_scoped_release no_gil;
        return to_local(t, grad_layout);
      },
      py::arg("tensor"), py::arg("grad_layout") = nullptr);
  m.def(
      "full_tensor",
      [](const at::Tensor& t, const Layout* grad_layout) {
        py::gil_scoped_release no_gil;
        return full_tensor(t, grad_layout);
      },
      py::arg("tensor"), py::arg("grad_layout") = nullptr);
  m.def(
      "from_local",
      [](const at::Tensor& local, const Layout* layout, std::optional<Shape> sizes,
         const Layout* grad_layout) {
        py::gil_scoped_release no_gil;
        return from_local(local, layout, std::move(sizes), grad_layout);
      },
      py::arg("local"), py::arg("layout"), py::arg("sizes") = std::nullopt,
      py::arg("grad_layout") = nullptr);
  m.def(
      "distribute_tensor",
      [](const at::Tensor& t, const Layout* layout, std::optional<int> source_rank) {
        py::gil_scoped_release no_gil;
        return distribute_tensor(t, layout, source_rank);
      },
      py::arg("tensor"), py::arg("layout"), py::arg("source_rank") = 0);
  m.def(
      "redistribute",
      [](const at::Tensor& t, const Layout* layout) {
        py::gil_scoped_release no_gil;
        return redistribute(t, layout);
      },
      py::arg("tensor"), py::arg("layout"));
  m.def("reduce_partial", [](const at::Tensor& t) {
    py::gil_scoped_release no_gil;
    return reduce_partial(t);
  });
  m.def(
      "wrap",
      [](const at::Tensor& local, const Layout* layout, const Shape& sizes) {
        py::gil_scoped_release no_gil;
        return torch_layer::wrap(local, layout, sizes);
      },
      py::arg("local"), py::arg("layout"), py::arg("sizes"));
  m.def(
      "convert_cotangent",
      [](const at::Tensor& local, const Layout* from, const Layout* to, const Shape& sizes) {
        py::gil_scoped_release no_gil;
        return torch_layer::convert_cotangent(local, from, to, sizes);
      },
      py::arg("local"), py::arg("source"), py::arg("target"), py::arg("sizes"));
  m.def("set_grad_sync", [](bool enabled) {
    const bool before = torch_layer::grad_sync_enabled();
    torch_layer::set_grad_sync_enabled(enabled);
    return before;
  });
}

}  // namespace hyper_parallel::python
