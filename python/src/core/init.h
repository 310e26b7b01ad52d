#pragma once

#include <pybind11/pybind11.h>

namespace hyper_parallel::python {

// One function a topic; module.cpp is the list of calls.
void init_rules(pybind11::module_& m);
void init_explain(pybind11::module_& m);
void init_rule_texts(pybind11::module_& m);

}  // namespace hyper_parallel::python
