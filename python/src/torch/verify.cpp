// The verifier: cases from Python arguments, reports as dicts.

#include "hyper_parallel/torch/verify/verify.h"

#include <pybind11/stl.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "hyper_parallel/rules/rule.h"
#include "hyper_parallel/torch/verify/case.h"
#include "python/src/torch/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {
namespace {

using torch_layer::VerifyCase;
using torch_layer::VerifyOptions;
using torch_layer::VerifyReport;

torch::jit::Stack stack_of(const std::string& op, const py::tuple& args, const py::dict& kwargs) {
  return torch::jit::createStackForSchema(torch_layer::find_op(op).schema(),
                                          torch::jit::tuple_slice(args),
                                          py::reinterpret_borrow<py::kwargs>(kwargs), std::nullopt);
}

VerifyCase case_of(const py::dict& d) {
  VerifyCase out;
  out.op = d["op"].cast<std::string>();
  out.label = d["label"].cast<std::string>();
  out.spec = d["spec"].cast<std::string>();
  out.values = d["values"].cast<bool>();
  out.grad = d["grad"].cast<bool>();
  out.missing = d["missing"].cast<bool>();
  out.mutation = d["mutation"].cast<std::string>();
  out.arguments = stack_of(out.op, d["args"].cast<py::tuple>(), d["kwargs"].cast<py::dict>());
  for (const py::handle& other : d["others"]) {
    const auto [args, kwargs] = other.cast<std::pair<py::tuple, py::dict>>();
    out.others.push_back(stack_of(out.op, args, kwargs));
  }
  return out;
}

py::dict dict_of(const VerifyReport::Counts& counts) {
  py::dict out;
  out["forced"] = counts.forced;
  out["refused"] = counts.refused;
  out["dispatched"] = counts.dispatched;
  out["backward"] = counts.backward;
  out["trials"] = counts.trials;
  out["drawn"] = counts.drawn;
  out["error"] = counts.error;
  out["table"] = counts.table;
  out["mutations"] = counts.mutations;
  return out;
}

py::dict dict_of(const torch_layer::Finding& f) {
  py::dict out;
  out["which"] = f.which;
  out["kind"] = f.kind;
  out["line"] = f.line;
  out["detail"] = f.detail;
  return out;
}

}  // namespace

void init_verify(py::module_& m) {
  m.def(
      "verify",
      [](const std::vector<py::dict>& cases, const std::vector<int>& sizes, bool dispatch,
         bool missing, std::uint64_t seed, int most_choices, int most_layouts, int most_trials) {
        VerifyOptions options;
        options.dispatch = dispatch;
        options.missing = missing;
        options.seed = seed;
        options.most_choices = most_choices;
        options.most_layouts = most_layouts;
        options.most_trials = most_trials;
        std::vector<VerifyCase> all;
        for (const py::dict& d : cases) all.push_back(case_of(d));
        VerifyReport report;
        {
          py::gil_scoped_release no_gil;
          report = torch_layer::verify(all, sizes, options);
        }
        py::list counts;
        py::list findings;
        for (const auto& c : report.counts) counts.append(dict_of(c));
        for (const auto& f : report.findings) findings.append(dict_of(f));
        py::dict out;
        out["counts"] = counts;
        out["findings"] = findings;
        return out;
      },
      py::arg("cases"), py::arg("sizes"), py::arg("dispatch") = true, py::arg("missing") = true,
      py::arg("seed") = 0, py::arg("most_choices") = VerifyOptions{}.most_choices,
      py::arg("most_layouts") = VerifyOptions{}.most_layouts,
      py::arg("most_trials") = VerifyOptions{}.most_trials);
  m.def("rule_rows", [] {
    std::vector<std::pair<std::string, std::string>> out;
    for (const std::string& op : rules::op_names()) out.emplace_back(op, rules::find_row(op)->spec);
    return out;
  });
  m.def("find_rule", [](const std::string& op) -> std::optional<std::string> {
    const rules::Row* row = rules::find_row(op);
    return row == nullptr ? std::nullopt : std::optional<std::string>(row->spec);
  });
}

}  // namespace hyper_parallel::python
