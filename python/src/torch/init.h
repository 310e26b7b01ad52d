#pragma once

#include <pybind11/pybind11.h>

namespace hyper_parallel::python {

// One function a topic; module.cpp is the list of calls.
void init_ranks(pybind11::module_& m);
void init_dtensor(pybind11::module_& m);
void init_graph(pybind11::module_& m);
void init_values(pybind11::module_& m);
void init_dispatch(pybind11::module_& m);
void init_verify(pybind11::module_& m);
void init_local_code(pybind11::module_& m);
void init_user_ops(pybind11::module_& m);
void init_modules(pybind11::module_& m);

}  // namespace hyper_parallel::python
