// Models of Python: the view that C++ has of an `nn.Module`, and the walk over its tensors.

#include "hyper_parallel/torch/face/module.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "python/src/torch/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {
namespace {

// Calls back to a `ModuleView` of modules/view.py.
class PythonView : public ModuleView {
 public:
  explicit PythonView(py::object view) : view_(std::move(view)) {}
  ~PythonView() override {
    py::gil_scoped_acquire gil;
    view_ = py::object();
  }
  PythonView(const PythonView&) = delete;
  PythonView& operator=(const PythonView&) = delete;

  std::vector<HeldTensor> held() override {
    py::gil_scoped_acquire gil;
    std::vector<HeldTensor> out;
    for (const py::handle& item : view_.attr("held")()) {
      auto [names, tensor, buffer] =
          item.cast<std::tuple<std::vector<std::string>, at::Tensor, bool>>();
      out.push_back({std::move(names), std::move(tensor), buffer});
    }
    return out;
  }

  void replace(const HeldTensor& old, const at::Tensor& made, const at::Tensor& gradient) override {
    py::gil_scoped_acquire gil;
    view_.attr("replace")(old.tensor, made,
                          gradient.defined() ? py::cast(gradient) : py::object(py::none()));
  }

 private:
  py::object view_;
};

}  // namespace

void init_modules(py::module_& m) {
  py::class_<ParameterMoves>(m, "ParameterMoves",
                             "New layouts for the tensors of a model, before anything changes.")
      .def(py::init([](py::object view, const Mesh* mesh, const std::vector<std::string>& keys,
                       const py::function& layout_of_key) {
             return ParameterMoves(
                 std::make_shared<PythonView>(std::move(view)), mesh, keys,
                 [&](std::size_t key, const HeldTensor& held, const std::string& name) {
                   return layout_of_key(key, held.tensor, name).cast<const Layout*>();
                 });
           }),
           py::arg("view"), py::arg("mesh"), py::arg("keys"), py::arg("layout_of_key"))
      .def(
          "run",
          [](ParameterMoves& moves, std::optional<int> source_rank) {
            py::gil_scoped_release no_gil;
            moves.run(source_rank);
          },
          py::arg("source_rank"));
}

}  // namespace hyper_parallel::python
