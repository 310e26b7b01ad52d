// `_torch`: DTensors, dispatch, ranks.

#include <pybind11/pybind11.h>

#include "hyper_parallel/torch/dtensor.h"
#include "python/src/torch/init.h"

PYBIND11_MODULE(_torch, m) {
  using namespace hyper_parallel::python;
  m.doc() = "DTensors, dispatch and ranks.";
  pybind11::module_::import("hyper_parallel._core");
  hyper_parallel::torch_layer::check_dispatch_key();
  init_ranks(m);
  init_dtensor(m);
  init_dispatch(m);
  init_verify(m);
}
