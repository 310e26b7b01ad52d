// Code on local tensors: the borders of its graph, and the record of its collectives.

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/torch/comm/record.h"
#include "hyper_parallel/torch/local/region.h"
#include "hyper_parallel/torch/tensor/bridge.h"
#include "hyper_parallel/torch/tensor/dtensor.h"
#include "python/src/torch/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {

void init_local_code(py::module_& m) {
  m.def("enter_region", &torch_layer::enter_region, py::arg("locals"), py::arg("mesh"));
  m.def(
      "region_anchor",
      [](const std::vector<at::Tensor>& entered) -> std::optional<at::Tensor> {
        const at::Tensor anchor = torch_layer::region_anchor(entered);
        return anchor.defined() ? std::optional<at::Tensor>(anchor) : std::nullopt;
      },
      py::arg("entered"));
  m.def("leave_region", &torch_layer::leave_region, py::arg("results"), py::arg("ties"),
        py::arg("forced"), py::arg("mesh"));
  m.def("graph_mark", &torch_layer::graph_mark);
  m.def("reaches_outside", &torch_layer::reaches_outside, py::arg("tensors"), py::arg("since"));
  m.def("backward_mesh", &torch_layer::backward_mesh, py::return_value_policy::reference);
  m.def(
      "note_collective",
      [](const std::string& kind, const Mesh* mesh, const std::vector<int>& axes,
         const at::Tensor& local, double bytes) {
        torch_layer::note_collective(kind, mesh, axes, torch_layer::meta_of(local), bytes);
      },
      py::arg("kind"), py::arg("mesh"), py::arg("axes"), py::arg("local"), py::arg("bytes"));
  m.def(
      "to_local_as",
      [](const at::Tensor& t, const Layout* target) {
        py::gil_scoped_release no_gil;
        return torch_layer::to_local(t, target, nullptr);
      },
      py::arg("tensor"), py::arg("target"));
}

}  // namespace hyper_parallel::python
