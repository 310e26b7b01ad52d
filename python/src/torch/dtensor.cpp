// DTensors: making, moving, reading; the Python class of wrappers.

#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <cstring>
#include <optional>
#include <string>

#include "hyper_parallel/torch/base/cause.h"
#include "hyper_parallel/torch/face/api.h"
#include "hyper_parallel/torch/tensor/bridge.h"
#include "python/src/torch/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {
namespace {

using torch_layer::impl_of;
using torch_layer::is_dtensor;

PyTypeObject* dtensor_type = nullptr;
PyObject* torch_function = nullptr;  // as the class has them: torch's own disabled ones
PyObject* torch_dispatch = nullptr;

// Hold the interpreter's lock. Cheaper than pybind11's guard where the thread is known to Python,
// as every thread is that came from there.
class InterpreterLock {
 public:
  InterpreterLock() {
    PyThreadState* state = PyGILState_GetThisThreadState();
    if (state == nullptr) {
      guard_.emplace();
    } else if (PyGILState_Check() == 0) {
      PyEval_RestoreThread(state);
      taken_ = true;
    }
  }
  ~InterpreterLock() {
    if (taken_) PyEval_SaveThread();
  }
  InterpreterLock(const InterpreterLock&) = delete;
  InterpreterLock& operator=(const InterpreterLock&) = delete;

 private:
  std::optional<py::gil_scoped_acquire> guard_;
  bool taken_ = false;
};

// Gives a new wrapper its class. The Python object is made here and then kept by the tensor.
void show(const at::Tensor& t) {
  if (dtensor_type == nullptr || Py_IsInitialized() == 0) return;
  const InterpreterLock lock;
  PyObject* object = THPVariable_Wrap(t, dtensor_type);
  if (object == nullptr) throw py::error_already_set();
  Py_DECREF(object);
}

// torch asks every operand for __torch_function__, and every new object for __torch_dispatch__, by
// the slot for names that are C strings, which Python itself does not use. Answering there saves it
// an interned string and a walk over the base classes, several times a call.
PyObject* attribute(PyObject* self, char* name) {
  if (Py_TYPE(self) == dtensor_type) {
    if (std::strcmp(name, "__torch_function__") == 0) return Py_NewRef(torch_function);
    if (std::strcmp(name, "__torch_dispatch__") == 0) return Py_NewRef(torch_dispatch);
  }
  PyObject* key = PyUnicode_FromString(name);
  if (key == nullptr) return nullptr;
  PyObject* value = PyObject_GetAttr(self, key);
  Py_DECREF(key);
  return value;
}

void set_dtensor_type(py::object type) {
  torch_function = py::object(type.attr("__torch_function__")).release().ptr();
  torch_dispatch = py::object(type.attr("__torch_dispatch__")).release().ptr();
  dtensor_type = reinterpret_cast<PyTypeObject*>(type.release().ptr());
  dtensor_type->tp_getattr = &attribute;
  torch_layer::set_python_hook(&show);
}

}  // namespace

void init_dtensor(py::module_& m) {
  m.def("set_dtensor_type", &set_dtensor_type);
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
      [](const at::Tensor& t, const Layout* layout, const std::string& reason) {
        py::gil_scoped_release no_gil;
        static const std::string no_op;
        std::optional<torch_layer::CauseGuard> guard;
        if (!reason.empty()) guard.emplace(no_op, reason);
        return redistribute(t, layout);
      },
      py::arg("tensor"), py::arg("layout"), py::arg("reason") = "");
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
      "local_cotangent",
      [](const at::Tensor& gradient, const Layout* layout, const Shape& sizes) {
        py::gil_scoped_release no_gil;
        return torch_layer::local_cotangent(gradient, layout, sizes);
      },
      py::arg("gradient"), py::arg("layout"), py::arg("sizes"));
  m.def("gradient_factor", &torch_layer::gradient_factor, py::arg("layout"));
  m.def("check_weights", &check_weights, py::arg("weights"));
  m.def(
      "gradients",
      [](const std::vector<std::optional<at::Tensor>>& outputs,
         const std::vector<at::Tensor>& weights, const std::optional<std::vector<double>>& sens,
         bool single) {
        py::gil_scoped_release no_gil;
        std::vector<at::Tensor> tensors;
        for (const auto& each : outputs) tensors.push_back(each.value_or(at::Tensor()));
        return gradients(tensors, weights, sens, single);
      },
      py::arg("outputs"), py::arg("weights"), py::arg("sens"), py::arg("single"));
}

}  // namespace hyper_parallel::python
