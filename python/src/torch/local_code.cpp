// Code on local tensors: regions, their borders, and the collectives inside.

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/torch/face/collectives.h"
#include "hyper_parallel/torch/local/custom_shard.h"
#include "hyper_parallel/torch/local/region.h"
#include "hyper_parallel/torch/ranks/rank_state.h"
#include "hyper_parallel/torch/tensor/bridge.h"
#include "python/src/torch/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {
namespace {

using Names = std::vector<std::string>;
using torch_layer::LocalRegion;

// Run or start a collective with the interpreter free.
template <class Run, class Begin>
py::object collective(bool async_op, Run run, Begin begin) {
  if (async_op) {
    std::optional<Pending> pending;
    {
      py::gil_scoped_release no_gil;
      pending.emplace(begin());
    }
    return py::cast(*std::move(pending));
  }
  at::Tensor out;
  {
    py::gil_scoped_release no_gil;
    out = run();
  }
  return py::cast(std::move(out));
}

void init_collectives(py::module_& m) {
  py::class_<Pending>(m, "Pending").def("wait", [](Pending& self) {
    py::gil_scoped_release no_gil;
    return self.wait();
  });
  m.def(
      "all_reduce",
      [](const at::Tensor& x, const Names& axes, const std::string& op, const Mesh* mesh,
         bool async_op) {
        const ReduceOp by = reduction("all_reduce", op);
        return collective(
            async_op, [&] { return all_reduce(x, axes, by, mesh); },
            [&] { return Start::all_reduce(x, axes, by, mesh); });
      },
      py::arg("x"), py::arg("axes"), py::arg("op"), py::arg("mesh"), py::arg("async_op"));
  m.def(
      "all_gather",
      [](const at::Tensor& x, const Names& axes, std::int64_t dim, const Lengths& sizes,
         const Mesh* mesh, bool async_op) {
        return collective(
            async_op, [&] { return all_gather(x, axes, dim, sizes, mesh); },
            [&] { return Start::all_gather(x, axes, dim, sizes, mesh); });
      },
      py::arg("x"), py::arg("axes"), py::arg("dim"), py::arg("sizes"), py::arg("mesh"),
      py::arg("async_op"));
  m.def(
      "reduce_scatter",
      [](const at::Tensor& x, const Names& axes, std::int64_t dim, const std::string& op,
         const Lengths& sizes, const Mesh* mesh, bool async_op) {
        const ReduceOp by = reduction("reduce_scatter", op);
        return collective(
            async_op, [&] { return reduce_scatter(x, axes, dim, by, sizes, mesh); },
            [&] { return Start::reduce_scatter(x, axes, dim, by, sizes, mesh); });
      },
      py::arg("x"), py::arg("axes"), py::arg("dim"), py::arg("op"), py::arg("sizes"),
      py::arg("mesh"), py::arg("async_op"));
  m.def(
      "all_to_all",
      [](const at::Tensor& x, const Names& axes, const Lengths& send, const Lengths& receive,
         const Mesh* mesh, bool async_op) {
        return collective(
            async_op, [&] { return all_to_all(x, axes, send, receive, mesh); },
            [&] { return Start::all_to_all(x, axes, send, receive, mesh); });
      },
      py::arg("x"), py::arg("axes"), py::arg("send"), py::arg("receive"), py::arg("mesh"),
      py::arg("async_op"));
  m.def(
      "broadcast",
      [](const at::Tensor& x, const Names& axes, int source, const Mesh* mesh, bool async_op) {
        return collective(
            async_op, [&] { return broadcast(x, axes, source, mesh); },
            [&] { return Start::broadcast(x, axes, source, mesh); });
      },
      py::arg("x"), py::arg("axes"), py::arg("source"), py::arg("mesh"), py::arg("async_op"));
  m.def(
      "permute",
      [](const at::Tensor& x, const Names& axes, const std::vector<std::pair<int, int>>& pairs,
         const Mesh* mesh, bool async_op) {
        return collective(
            async_op, [&] { return permute(x, axes, pairs, mesh); },
            [&] { return Start::permute(x, axes, pairs, mesh); });
      },
      py::arg("x"), py::arg("axes"), py::arg("pairs"), py::arg("mesh"), py::arg("async_op"));
  m.def(
      "axis_rank", [](const Names& axes, const Mesh* mesh) { return axis_rank(axes, mesh); },
      py::arg("axes"), py::arg("mesh"));
  m.def(
      "axis_size", [](const Names& axes, const Mesh* mesh) { return axis_size(axes, mesh); },
      py::arg("axes"), py::arg("mesh"));
}

}  // namespace

void init_local_code(py::module_& m) {
  py::class_<LocalRegion>(m, "Region")
      .def(py::init<const Mesh*, bool>(), py::arg("mesh"), py::arg("joined") = true)
      .def_property_readonly("mesh", &LocalRegion::mesh, py::return_value_policy::reference)
      .def("enter", &LocalRegion::enter, py::arg("locals"))
      .def("reaches_outside", &LocalRegion::reaches_outside, py::arg("results"))
      .def("leave", &LocalRegion::leave, py::arg("results"));
  m.def("set_current_region", &torch_layer::set_current_region, py::arg("region").none(true),
        py::return_value_policy::reference);
  m.def("part_for", &torch_layer::part_for, py::arg("value"), py::arg("mesh"));
  m.def(
      "wrap_parts",
      [](const std::vector<at::Tensor>& parts, const std::vector<const Layout*>& layouts,
         const std::string& what, const std::vector<std::string>& names) {
        py::gil_scoped_release no_gil;
        return torch_layer::wrap_parts(parts, layouts, what, names,
                                       torch_layer::settings().checking);
      },
      py::arg("parts"), py::arg("layouts"), py::arg("what"), py::arg("names"));
  m.def("check_gradient_passes", &torch_layer::check_gradient_passes, py::arg("part"),
        py::arg("layout"), py::arg("what"));
  m.def(
      "to_local_as",
      [](const at::Tensor& t, const Layout* target) {
        py::gil_scoped_release no_gil;
        return torch_layer::to_local_as(t, target);
      },
      py::arg("tensor"), py::arg("target"));
  init_collectives(m);
}

}  // namespace hyper_parallel::python
