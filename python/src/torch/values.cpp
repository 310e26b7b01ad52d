// New DTensors, and writes by index.

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/face/factories.h"
#include "hyper_parallel/torch/face/indexing.h"
#include "python/src/torch/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {
namespace {

using at::indexing::Slice;
using at::indexing::TensorIndex;

std::optional<c10::SymInt> bound_of(const py::handle& value) {
  if (value.is_none()) return std::nullopt;
  return c10::SymInt(py::reinterpret_steal<py::int_>(PyNumber_Index(value.ptr())).cast<long>());
}

TensorIndex index_of(const py::handle& item) {
  if (item.is_none()) return at::indexing::None;
  if (item.ptr() == Py_Ellipsis) return at::indexing::Ellipsis;
  if (py::isinstance<py::bool_>(item)) return item.cast<bool>();
  if (py::isinstance<py::int_>(item)) return item.cast<std::int64_t>();
  if (py::isinstance<py::slice>(item)) {
    return Slice(bound_of(item.attr("start")), bound_of(item.attr("stop")),
                 bound_of(item.attr("step")));
  }
  return item.cast<at::Tensor>();
}

std::vector<TensorIndex> items_of(const py::list& items) {
  std::vector<TensorIndex> out;
  for (const py::handle& item : items) out.push_back(index_of(item));
  return out;
}

at::Tensor make_filled(const std::string& name, const Shape& sizes, const Layout* layout,
                       const at::Tensor& like, const at::Tensor& value, bool requires_grad) {
  const py::gil_scoped_release no_gil;
  const at::TensorOptions options = like.options().requires_grad(requires_grad);
  if (name == "empty") return empty(sizes, layout, options);
  if (name == "zeros") return zeros(sizes, layout, options);
  if (name == "ones") return ones(sizes, layout, options);
  if (name == "rand") return rand(sizes, layout, options);
  if (name == "randn") return randn(sizes, layout, options);
  check_internal(name == "full", "a factory's name");
  return full(sizes, value.item(), layout, options);
}

}  // namespace

void init_values(py::module_& m) {
  m.def("make_filled", &make_filled, py::arg("name"), py::arg("sizes"), py::arg("layout"),
        py::arg("like"), py::arg("value"), py::arg("requires_grad"));
  m.def(
      "needs_coordinates",
      [](const at::Tensor& t, const py::list& index, std::int64_t value_ndim) {
        return torch_layer::needs_coordinates(t, items_of(index), value_ndim);
      },
      py::arg("tensor"), py::arg("index"), py::arg("value_ndim"));
  m.def(
      "assign_by_coordinates",
      [](const at::Tensor& t, const py::list& index, const at::Tensor& value) {
        const std::vector<TensorIndex> items = items_of(index);
        const py::gil_scoped_release no_gil;
        torch_layer::assign_by_coordinates(t, items, value);
      },
      py::arg("tensor"), py::arg("index"), py::arg("value"));
}

}  // namespace hyper_parallel::python
