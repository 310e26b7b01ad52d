// Rows of reports, and what is made of them. hyper_parallel/report.py gives them their Python face.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/explain/plan_text.h"
#include "hyper_parallel/explain/report.h"
#include "python/src/core/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {
namespace {

using Rows = std::vector<CommRow>;

CommRow make_row(std::string kind, std::vector<std::string> axes, std::int64_t bytes,
                 const std::string& phase, std::string op, std::string reason, std::string tensor,
                 std::string source, std::string target, int ranks, int joined) {
  if (phase != "forward" && phase != "backward") {
    throw UsageError(Message("HP-R021", "a row of a report has an unknown phase")
                         .fact("phase", phase)
                         .fact("known", "forward, backward"));
  }
  CommRow row;
  row.kind = std::move(kind);
  row.axes = std::move(axes);
  row.bytes = bytes;
  row.backward = phase == "backward";
  row.op = std::move(op);
  row.reason = std::move(reason);
  row.tensor = std::move(tensor);
  row.from = std::move(source);
  row.to = std::move(target);
  row.ranks = ranks;
  row.joined = joined;
  return row;
}

// The arguments of the constructor, in order.
py::tuple fields_of(const CommRow& row) {
  return py::make_tuple(row.kind, py::tuple(py::cast(row.axes)), row.bytes, row.phase(), row.op,
                        row.reason, row.tensor, row.from, row.to, row.ranks, row.joined);
}

void init_row(py::module_& m) {
  py::class_<CommRow>(m, "CommRow", "One collective that a rank took part in: a line of a report.")
      .def(py::init(&make_row), py::arg("kind"), py::arg("axes"), py::arg("bytes"),
           py::arg("phase"), py::arg("op") = "", py::arg("reason") = "", py::arg("tensor") = "",
           py::arg("source") = "", py::arg("target") = "", py::arg("ranks") = 1,
           py::arg("joined") = 0)
      .def_readonly("kind", &CommRow::kind)
      .def_property_readonly("axes", [](const CommRow& r) { return py::tuple(py::cast(r.axes)); })
      .def_readonly("bytes", &CommRow::bytes)
      .def_property_readonly("phase", &CommRow::phase)
      .def_readonly("op", &CommRow::op)
      .def_readonly("reason", &CommRow::reason)
      .def_readonly("tensor", &CommRow::tensor)
      .def_readonly("source", &CommRow::from)
      .def_readonly("target", &CommRow::to)
      .def_readonly("ranks", &CommRow::ranks)
      .def_readonly("joined", &CommRow::joined)
      .def("__eq__",
           [](const CommRow& a, const py::object& b) {
             return py::isinstance<CommRow>(b) && a == b.cast<const CommRow&>();
           })
      .def("__hash__", [](const CommRow& r) { return py::hash(fields_of(r)); })
      .def("__repr__",
           [](const CommRow& r) {
             return py::str(
                        "CommRow(kind={!r}, axes={!r}, bytes={!r}, phase={!r}, op={!r}, "
                        "reason={!r}, tensor={!r}, source={!r}, target={!r}, ranks={!r}, "
                        "joined={!r})")
                 .attr("format")(*fields_of(r));
           })
      .def("__reduce__",
           [](const CommRow& r) { return py::make_tuple(py::type::of<CommRow>(), fields_of(r)); });
}

}  // namespace

void init_explain(py::module_& m) {
  init_row(m);
  m.def(
      "select_rows",
      [](const Rows& rows, std::optional<std::string> kind, std::optional<std::string> phase,
         std::optional<std::vector<std::string>> axes, std::optional<std::string> op) {
        return explain::select(rows,
                               {std::move(kind), std::move(phase), std::move(axes), std::move(op)});
      },
      py::arg("rows"), py::arg("kind") = std::nullopt, py::arg("phase") = std::nullopt,
      py::arg("axes") = std::nullopt, py::arg("op") = std::nullopt,
      "The rows that fit all that is given.");
  m.def(
      "count_rows", [](const Rows& rows) { return explain::count(rows); }, py::arg("rows"),
      "The number of collectives; those that went out as one count once.");
  m.def(
      "rows_table", [](const Rows& rows) { return explain::table(rows); }, py::arg("rows"),
      "Counts and bytes by phase, kind and axes.");
  m.def(
      "rows_why", [](const Rows& rows) { return explain::why(rows); }, py::arg("rows"),
      "One line a collective: what it moves, and what asked for it.");
  m.def(
      "rows_html",
      [](const Rows& rows, const std::string& title) { return explain::html(rows, title); },
      py::arg("rows"), py::arg("title"), "A page with the sums, and every collective.");
  m.def(
      "rows_json", [](const Rows& rows) { return explain::json(rows); }, py::arg("rows"),
      "The rows as JSON, one a line.");
  m.def(
      "explain_plan",
      [](const std::string& source, const std::string& target, const std::string& topology,
         bool json) {
        const auto plan = explain::read_plan(source, target, plan::topology(topology));
        return json ? explain::plan_json(*plan) : explain::plan_text(*plan);
      },
      py::arg("source"), py::arg("target"), py::arg("topology") = "uniform",
      py::arg("json") = false, "A redistribution by text: steps, bytes, lower bound, time.");
  m.def(
      "topologies",
      [] {
        std::vector<std::string> names;
        for (const plan::Topology& t : plan::topologies()) names.emplace_back(t.name);
        return names;
      },
      "The names of the known topologies, the default first.");
}

}  // namespace hyper_parallel::python
