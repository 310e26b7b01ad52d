// `_core`: meshes, placements, layouts, plans and rules. No torch.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/path_pattern.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/plan/redistribute.h"
#include "python/src/core/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {
namespace {

std::vector<Placement> placements_of(const py::iterable& items) {
  std::vector<Placement> out;
  for (const py::handle& item : items) out.push_back(item.cast<Placement>());
  return out;
}

// Each class of error becomes a Python exception that has `code`, and is what users expect to
// catch: ValueError, NotImplementedError, RuntimeError.
template <class E>
py::object make_exception(py::module_& m, const char* name, PyObject* base) {
  py::dict scope;
  scope["__module__"] = "hyper_parallel";
  py::object type = py::reinterpret_steal<py::object>(
      PyErr_NewException((std::string("hyper_parallel.") + name).c_str(), base, scope.ptr()));
  type.attr("code") = "";
  m.attr(name) = type;
  return type;
}

void raise(const py::object& type, const Error& e) {
  py::object value = type(e.what());
  value.attr("code") = e.code();
  PyErr_SetObject(type.ptr(), value.ptr());
}

void init_errors(py::module_& m) {
  static py::object usage = make_exception<UsageError>(m, "UsageError", PyExc_ValueError);
  static py::object unsupported =
      make_exception<UnsupportedError>(m, "UnsupportedError", PyExc_NotImplementedError);
  static py::object comm = make_exception<CommError>(m, "CommError", PyExc_RuntimeError);
  static py::object internal =
      make_exception<InternalError>(m, "InternalError", PyExc_RuntimeError);
  // The module and its errors live as long as the process; no destructor runs at exit.
  for (const py::object* o : {&usage, &unsupported, &comm, &internal}) o->inc_ref();
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const UsageError& e) {
      raise(usage, e);
    } catch (const UnsupportedError& e) {
      raise(unsupported, e);
    } catch (const CommError& e) {
      raise(comm, e);
    } catch (const InternalError& e) {
      raise(internal, e);
    }
  });
  m.def("path_matches", &path_matches, py::arg("pattern"), py::arg("name"));
  m.def("closest_patterns", &closest_patterns, py::arg("patterns"), py::arg("names"),
        py::arg("what"));
  m.def("near_names", &near_names, py::arg("name"), py::arg("known"),
        "The names among `known` closest to `name`, best first, at most three.");
}

void init_placement(py::module_& m) {
  py::class_<Placement>(m, "Placement", "How one tensor lies along one mesh axis.")
      .def("is_replicate", &Placement::is_replicate)
      .def(
          "is_shard",
          [](Placement p, std::optional<int> dim) {
            return p.is_shard() && (!dim || p.dim() == *dim);
          },
          py::arg("dim") = std::nullopt)
      .def(
          "is_partial",
          [](Placement p, std::optional<std::string> op) {
            return p.is_partial() && (!op || p.op() == parse_reduce_op(*op));
          },
          py::arg("reduce_op") = std::nullopt)
      .def_property_readonly("dim",
                             [](Placement p) -> py::object {
                               if (!p.is_shard()) throw py::attribute_error("only Shard has a dim");
                               return py::int_(p.dim());
                             })
      .def_property_readonly("reduce_op",
                             [](Placement p) -> py::object {
                               if (!p.is_partial())
                                 throw py::attribute_error("only Partial has a reduce_op");
                               return py::str(std::string(to_string(p.op())));
                             })
      .def("__str__", [](Placement p) { return to_string(p); })
      .def("__repr__",
           [](Placement p) -> std::string {
             if (p.is_replicate()) return "Replicate()";
             if (p.is_shard()) return "Shard(dim=" + std::to_string(p.dim()) + ")";
             return "Partial(reduce_op='" + std::string(to_string(p.op())) + "')";
           })
      .def("__eq__",
           [](Placement a, const py::object& b) {
             return py::isinstance<Placement>(b) && a == b.cast<Placement>();
           })
      .def("__hash__",
           [](Placement p) {
             return py::hash(
                 py::make_tuple(static_cast<int>(p.kind()), p.dim(), static_cast<int>(p.op())));
           })
      .def("__reduce__", [m](Placement p) -> py::tuple {
        if (p.is_replicate()) return py::make_tuple(m.attr("Replicate"), py::tuple());
        if (p.is_shard()) return py::make_tuple(m.attr("Shard"), py::make_tuple(p.dim()));
        return py::make_tuple(m.attr("Partial"), py::make_tuple(std::string(to_string(p.op()))));
      });
  m.def("Replicate", &Placement::replicate, "Every rank holds the whole tensor.");
  m.def("Shard", &Placement::shard, py::arg("dim"),
        "Rank i holds chunk i of `dim`; negative dims count from the end.");
  m.def(
      "Partial", [](const std::string& op) { return Placement::partial(parse_reduce_op(op)); },
      py::arg("reduce_op") = "sum",
      "Every rank holds a whole-shaped value; `reduce_op` over the ranks gives the tensor.");
}

void init_mesh(py::module_& m) {
  py::class_<Mesh, std::unique_ptr<Mesh, py::nodelete>>(m, "Mesh",
                                                        "Ranks in a grid with named axes.")
      .def_static("get", &Mesh::get, py::arg("sizes"), py::arg("names"),
                  py::arg("ranks") = std::vector<int>{}, py::return_value_policy::reference)
      .def_static("parse", &parse_mesh, py::arg("text"), py::return_value_policy::reference)
      .def_property_readonly("sizes", [](const Mesh& x) { return x.sizes(); })
      .def_property_readonly("names", [](const Mesh& x) { return x.names(); })
      .def_property_readonly("ranks", [](const Mesh& x) { return x.ranks(); })
      .def_property_readonly("ndim", &Mesh::ndim)
      .def(
          "size",
          [](const Mesh& x, std::optional<int> axis) { return axis ? x.size(*axis) : x.size(); },
          py::arg("axis") = std::nullopt)
      .def("axis", &Mesh::axis, py::arg("name"))
      .def("coordinate", &Mesh::coordinate, py::arg("rank"))
      .def("group", &Mesh::group, py::arg("axes"), py::arg("rank"))
      .def("sub_mesh", &Mesh::sub_mesh, py::arg("names"), py::arg("rank"),
           py::return_value_policy::reference)
      .def("flatten", &Mesh::flatten, py::arg("names"), py::arg("name") = "",
           py::return_value_policy::reference)
      .def("__str__", &Mesh::to_string)
      .def("__repr__", [](const Mesh& x) { return "Mesh(" + x.to_string() + ")"; })
      .def("__eq__",
           [](const Mesh* a, const py::object& b) {
             return py::isinstance<Mesh>(b) && a == b.cast<const Mesh*>();
           })
      .def("__hash__", [](const Mesh& x) { return x.hash(); })
      .def("__reduce__", [](const Mesh& x) -> py::tuple {
        return py::make_tuple(py::type::of<Mesh>().attr("parse"), py::make_tuple(x.to_string()));
      });
}

void init_layout(py::module_& m) {
  py::class_<Split>(m, "Split", "How one tensor dim is cut.")
      .def_readonly("dim", &Split::dim)
      .def_readonly("axes", &Split::axes)
      .def_readonly("block", &Split::block)
      .def_readonly("segments", &Split::segments);
  py::class_<Layout, std::unique_ptr<Layout, py::nodelete>>(
      m, "Layout_", "How one tensor lies over a mesh; immutable and interned.")
      .def_static(
          "get",
          [](const Mesh* mesh, const py::iterable& items, std::optional<int> ndim) {
            std::vector<Placement> placements = placements_of(items);
            if (ndim) placements = normalize(mesh, placements, *ndim);
            return Layout::get(mesh, placements);
          },
          py::arg("mesh"), py::arg("placements"), py::arg("ndim") = std::nullopt,
          py::return_value_policy::reference)
      .def_static(
          "of_splits",
          [](const Mesh* mesh,
             const std::vector<std::tuple<int, std::vector<int>, std::int64_t,
                                          std::vector<std::int64_t>>>& splits,
             const std::vector<std::optional<std::string>>& partials) {
            std::vector<Split> s;
            for (const auto& [dim, axes, block, segments] : splits) {
              s.push_back({dim, axes, block, segments});
            }
            std::vector<std::optional<ReduceOp>> p;
            for (const auto& op : partials) {
              p.push_back(op ? std::optional<ReduceOp>(parse_reduce_op(*op)) : std::nullopt);
            }
            return Layout::get(mesh, std::move(s), p);
          },
          py::arg("mesh"), py::arg("splits"),
          py::arg("partials") = std::vector<std::optional<std::string>>{},
          py::return_value_policy::reference)
      .def_static("from_names", &Layout::from_names, py::arg("mesh"), py::arg("dims"),
                  py::return_value_policy::reference)
      .def_static("replicated", &Layout::replicated, py::arg("mesh"),
                  py::return_value_policy::reference)
      .def_static("parse", py::overload_cast<std::string_view>(&parse_layout), py::arg("text"),
                  py::return_value_policy::reference)
      .def_property_readonly("mesh", &Layout::mesh, py::return_value_policy::reference)
      .def_property_readonly("placements", [](const Layout& x) { return x.placements(); })
      .def_property_readonly("splits", [](const Layout& x) { return x.splits(); })
      .def_property_readonly("is_replicated", &Layout::is_replicated)
      .def_property_readonly("has_partial", &Layout::has_partial)
      .def_property_readonly("max_dim", &Layout::max_dim)
      .def_property_readonly("replicas", &Layout::replicas)
      .def("dual", &Layout::dual, py::return_value_policy::reference)
      .def("reduced", &Layout::reduced, py::return_value_policy::reference)
      .def("with_axis", &Layout::with, py::arg("axis"), py::arg("placement"),
           py::return_value_policy::reference)
      .def("local_shape",
           [](const Layout* x, const Shape& sizes, const std::vector<int>& coordinate) {
             return local_shape(x, sizes, coordinate);
           })
      .def("to_string", &Layout::to_string)
      .def("to_string_with_mesh", [](const Layout* x) { return to_string_with_mesh(x); })
      .def("__str__", &Layout::to_string)
      .def("__repr__", [](const Layout* x) { return "Layout(" + to_string_with_mesh(x) + ")"; })
      .def("__eq__",
           [](const Layout* a, const py::object& b) {
             return py::isinstance<Layout>(b) && a == b.cast<const Layout*>();
           })
      .def("__hash__", [](const Layout& x) { return x.hash(); })
      .def("__reduce__", [](const Layout* x) -> py::tuple {
        return py::make_tuple(
            py::module_::import("hyper_parallel._core").attr("Layout_").attr("parse"),
            py::make_tuple(to_string_with_mesh(x)));
      });
  m.def(
      "plan",
      [](const Layout* from, const Layout* to, const std::string& meta) {
        return to_string(*plan::redistribute(from, to, parse_meta(meta)));
      },
      py::arg("source"), py::arg("target"), py::arg("meta"),
      "The steps, bytes and lower bound of a redistribution of a tensor such as \"f32[4096, "
      "1024]\".");
}

}  // namespace
}  // namespace hyper_parallel::python

PYBIND11_MODULE(_core, m) {
  using namespace hyper_parallel::python;
  m.doc() = "Meshes, placements, layouts, plans and rules.";
  init_errors(m);
  init_placement(m);
  init_mesh(m);
  init_layout(m);
  init_rules(m);
  init_explain(m);
  init_rule_texts(m);
}
