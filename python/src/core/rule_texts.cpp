// Texts about rules: values of calls, tables, the page of all rules.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "hyper_parallel/explain/rule_samples.h"
#include "hyper_parallel/explain/rules_page.h"
#include "hyper_parallel/rules/text/values.h"
#include "python/src/core/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {

void init_rule_texts(py::module_& m) {
  m.def("short_dtype", &rules::short_dtype, py::arg("name"),
        "The library's name of an element type: f32 for float32; other text as it is.");
  m.def(
      "parse_operand",
      [](const std::string& text) {
        rules::OperandText made = rules::parse_operand(text);
        std::optional<std::string> layout;
        if (!made.layout.empty()) layout = std::move(made.layout);
        return std::tuple(std::move(made.dtype), std::move(made.sizes), std::move(layout));
      },
      py::arg("text"), "Element type, sizes and layout of f32[8, 16] on dp=2 tp=4: S(0) R.");
  m.def(
      "parse_attrs", [](const std::string& text) { return rules::parse_attrs(text); },
      py::arg("text"), "Attributes by name: dim=1 keepdim=True shape=[2, 3].");
  m.def("rule_sample", &explain::rule_sample, py::arg("op"), py::arg("rule"),
        "The sample call of a row, empty if there is none.");
  m.def("rules_listing", &explain::rules_listing, "The names of all rows, by family.");
  m.def("rules_table", &explain::rules_table, py::arg("op"), py::arg("operands") = "",
        py::arg("attrs") = "", "The strategies of one mesh axis in a call.");
  m.def("rules_markdown", &explain::rules_markdown, "The page docs/rules.md.");
}

}  // namespace hyper_parallel::python
