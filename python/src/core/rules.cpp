// Rules of ops, and inference by name. hyper_parallel/rules.py gives them their Python face.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/rules/handlers.h"
#include "hyper_parallel/rules/query/answer_text.h"
#include "hyper_parallel/rules/query/infer.h"
#include "hyper_parallel/rules/text/print.h"
#include "python/src/core/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {
namespace {

using Layouts = std::vector<const Layout*>;

rules::Attr attr_of(const std::string& name, const py::handle& value) {
  if (value.is_none()) return std::monostate{};
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
  if (py::isinstance<py::float_>(value)) return value.cast<double>();
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  try {
    if (py::isinstance<py::int_>(value)) return value.cast<std::int64_t>();
    if (py::isinstance<py::sequence>(value)) return value.cast<std::vector<std::int64_t>>();
  } catch (const py::cast_error&) {  // of another kind, or more than 64 bits
  }
  throw UsageError(Message("HP-S042", "attribute \"" + name + "\" has a value of no known kind")
                       .fact("value", py::repr(value).cast<std::string>())
                       .fact("known", "None, bool, int, float, str, a list of ints"));
}

// An operand: (name, sizes, type, layout), the last None for one that is the same on all ranks; or
// None for one that is absent.
rules::Operand operand_of(const py::handle& item) {
  rules::Operand out;
  if (item.is_none()) {
    out.present = false;
    return out;
  }
  const auto parts = item.cast<py::tuple>();
  out.name = parts[0].cast<std::string>();
  try {
    out.meta.sizes = parts[1].cast<Shape>();
  } catch (const py::cast_error&) {
    throw UsageError(Message("HP-S043", "\"" + out.name +
                                            "\" describes no tensor: its sizes are not "
                                            "integers of 64 bits")
                         .fact("sizes", py::repr(parts[1]).cast<std::string>()));
  }
  out.meta.dtype = parse_dtype(parts[2].cast<std::string>());
  if (!parts[3].is_none()) out.layout = parts[3].cast<const Layout*>();
  return out;
}

std::string kind_of(const rules::Rewrite& rewrite) {
  switch (rewrite.kind) {
    case rules::Rewrite::Kind::local_shape:
      return "local shape";
    case rules::Rewrite::Kind::local_size:
      return "local size";
    case rules::Rewrite::Kind::local_sizes:
      return "local sizes";
  }
  return {};
}

py::list changes_of(const rules::Query& query, const std::vector<rules::Change>& changes) {
  py::list out;
  for (const rules::Change& c : changes) {
    out.append(py::make_tuple(c.input, py::cast(c.from, py::return_value_policy::reference),
                              py::cast(c.to, py::return_value_policy::reference), c.bytes, c.reason,
                              rules::to_string(query, c)));
  }
  return out;
}

py::list layouts_of(const Layouts& layouts) {
  py::list out;
  for (const Layout* l : layouts) out.append(py::cast(l, py::return_value_policy::reference));
  return out;
}

py::dict to_dict(const rules::Query& query, const rules::Inference& made) {
  py::dict out;
  out["inputs"] = layouts_of(made.inputs);
  out["outputs"] = layouts_of(made.outputs);
  out["changes"] = changes_of(query, made.changes);
  out["handler"] = made.handler;
  out["bytes"] = made.bytes;
  out["text"] = rules::to_string(query, made);
  out["random"] = made.random;
  py::list rewrites;
  for (const rules::Rewrite& r : made.rewrites) {
    rewrites.append(py::make_tuple(r.argument, kind_of(r), r.tensor, r.dim));
  }
  out["rewrites"] = rewrites;
  return out;
}

py::dict to_dict(const rules::Query& query, const rules::Gradient& made) {
  py::dict out;
  out["inputs"] = layouts_of(made.inputs);
  out["outputs"] = layouts_of(made.outputs);
  out["out_grads"] = layouts_of(made.out_grads);
  out["grads"] = layouts_of(made.grads);
  out["changes"] = changes_of(query, made.changes);
  out["handler"] = made.handler;
  out["bytes"] = made.bytes;
  out["text"] = rules::to_string(query, made);
  return out;
}

std::vector<std::pair<Shape, bool>> tensors_of(const std::vector<rules::TensorMap>& maps) {
  std::vector<std::pair<Shape, bool>> out;
  for (const rules::TensorMap& map : maps) out.emplace_back(map.sizes, map.present);
  return out;
}

// One placement a tensor; None for an absent one.
py::tuple placements_of(const std::vector<rules::StrategyTensor>& tensors) {
  py::list out;
  for (const rules::StrategyTensor& t : tensors) {
    out.append(t.layout == nullptr ? py::object(py::none()) : py::cast(t.layout->placement(0)));
  }
  return py::tuple(out);
}

// Each strategy of one axis of two ranks: its line, its handler, the gradients that whole gradients
// of the results give, and what the line says as values.
py::list table_of(const rules::Query& query) {
  py::list out;
  for (const rules::StrategyLine& line : rules::strategies(query)) {
    out.append(py::make_tuple(rules::to_string(line), line.handler, rules::to_string(line.grads),
                              placements_of(line.inputs), placements_of(line.outputs),
                              line.factor));
  }
  return out;
}

}  // namespace

void init_rules(py::module_& m) {
  using rules::Query;
  py::class_<Query>(m, "Query_", "A call of an op that has met its rule.")
      .def(py::init([](const std::string& op, const py::list& operands,
                       const std::vector<int>& list_lengths, const py::dict& attrs,
                       const Mesh* mesh) {
             rules::Call call;
             call.op = op;
             call.mesh = mesh;
             for (const py::handle& item : operands) call.inputs.push_back(operand_of(item));
             call.list_lengths = list_lengths;
             for (const auto& [name, value] : attrs) {
               const auto text = py::str(name).cast<std::string>();
               call.attrs.emplace(text, attr_of(text, value));
             }
             return rules::query(std::move(call));
           }),
           py::arg("op"), py::arg("operands"), py::arg("list_lengths"), py::arg("attrs"),
           py::arg("mesh") = nullptr)
      .def_readonly("row", &Query::row)
      .def_readonly("spec", &Query::spec)
      .def_property_readonly(
          "mesh", [](const Query& q) { return q.call.mesh; }, py::return_value_policy::reference)
      .def_property_readonly("results", [](const Query& q) { return tensors_of(q.rule.outputs); })
      .def(
          "forward",
          [](const Query& q, const Layouts& wanted, const std::string& topology) {
            const rules::CostModel model(plan::topology(topology));
            return to_dict(q, rules::infer_forward(q, wanted, model));
          },
          py::arg("outputs") = Layouts(), py::arg("topology") = "uniform")
      .def(
          "backward",
          [](const Query& q, const Layouts& outputs) {
            return to_dict(q, rules::infer_backward(q, outputs));
          },
          py::arg("outputs"))
      .def(
          "grad",
          [](const Query& q, const Layouts& inputs, const Layouts& outputs,
             const Layouts& out_grads, const Layouts& wanted) {
            return to_dict(q, rules::infer_grad(q, {inputs, outputs, out_grads}, wanted));
          },
          py::arg("inputs"), py::arg("outputs"), py::arg("out_grads"), py::arg("grads") = Layouts())
      .def("table", &table_of)
      .def_property_readonly(
          "result_dtype",
          [](const Query& q) { return std::string(to_string(rules::result_dtype(q))); })
      .def("sized", [](const Query& q) { return rules::to_string(q.rule); });
  m.def("rule_names", &rules::known_names, "Every name that inference knows, sorted.");
  m.def("rule_rows", [] {
    std::vector<std::tuple<std::string, std::string, std::string, std::vector<std::string>>> out;
    for (rules::RowInfo& r : rules::rows()) {
      out.emplace_back(std::move(r.family), std::move(r.op), std::move(r.spec), std::move(r.names));
    }
    return out;
  });
  m.def("rule_handlers", [] {
    std::vector<std::pair<std::string, std::string>> out;
    for (const rules::HandlerInfo& h : rules::handlers()) out.emplace_back(h.name, h.doc);
    return out;
  });
  m.def(
      "redistribution_bytes",
      [](const Layout* from, const Layout* to, const std::string& meta) {
        return plan::redistribute(from, to, parse_meta(meta))->bytes;
      },
      py::arg("source"), py::arg("target"), py::arg("meta"),
      "Bytes that a rank moves from one layout to another.");
}

}  // namespace hyper_parallel::python
