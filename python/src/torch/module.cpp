// `_torch`: DTensors, dispatch, ranks.

#include <pybind11/pybind11.h>

#include <torch/csrc/Exceptions.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/tensor/dtensor.h"
#include "python/src/torch/init.h"

namespace {

namespace hp = hyper_parallel;

const char* class_of(const hp::Error& e) {
  if (dynamic_cast<const hp::UsageError*>(&e) != nullptr) return "UsageError";
  if (dynamic_cast<const hp::UnsupportedError*>(&e) != nullptr) return "UnsupportedError";
  if (dynamic_cast<const hp::CommError*>(&e) != nullptr) return "CommError";
  return "InternalError";
}

// Errors from inside an op leave through torch's bindings, which know only torch's exceptions and
// Python's own: so hand them a Python error.
void to_python(const hp::Error& e) {
  pybind11::gil_scoped_acquire gil;
  pybind11::object type = pybind11::module_::import("hyper_parallel._core").attr(class_of(e));
  pybind11::object value = type(e.what());
  value.attr("code") = e.code();
  PyErr_SetObject(type.ptr(), value.ptr());
  python_error error;
  error.persist();
  throw error;
}

}  // namespace

PYBIND11_MODULE(_torch, m) {
  using namespace hyper_parallel::python;
  hyper_parallel::set_error_hook(&to_python);
  pybind11::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (python_error& e) {
      e.restore();
    }
  });
  m.doc() = "DTensors, dispatch and ranks.";
  pybind11::module_::import("hyper_parallel._core");
  hyper_parallel::torch_layer::check_dispatch_key();
  init_ranks(m);
  init_dtensor(m);
  init_graph(m);
  init_values(m);
  init_dispatch(m);
  init_verify(m);
  init_local_code(m);
  init_user_ops(m);
  init_modules(m);
}
