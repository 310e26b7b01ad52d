// Dispatch: policy, checking mode, the plan cache.

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <utility>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/comm/record.h"
#include "hyper_parallel/torch/dispatch/frame.h"
#include "hyper_parallel/torch/ranks/rank_state.h"
#include "python/src/torch/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {
namespace {

using torch_layer::Policy;

// In the order of RandomMode.
constexpr const char* kRandomModes[] = {"auto", "exact", "by_index"};

torch_layer::RandomMode parse_random(const std::string& text) {
  for (std::size_t i = 0; i < std::size(kRandomModes); ++i) {
    if (text == kRandomModes[i]) return static_cast<torch_layer::RandomMode>(i);
  }
  throw UsageError(Message("HP-D036", "no random mode \"" + text + "\"")
                       .hint("\"auto\", \"exact\" or \"by_index\""));
}

Policy parse_policy(const std::string& text) {
  if (text == "auto") return Policy::automatic;
  if (text == "strict") return Policy::strict;
  throw UsageError(
      Message("HP-D032", "unknown policy \"" + text + "\"").fact("policies", "auto, strict"));
}

std::string name_of(Policy policy) { return policy == Policy::strict ? "strict" : "auto"; }

}  // namespace

void init_dispatch(py::module_& m) {
  // Settings of the calling thread; what each was before is returned.
  m.def("set_skip",
        [](bool value) { return std::exchange(torch_layer::change_settings().skip, value); });
  m.def("policy", [] { return name_of(torch_layer::settings().policy); });
  m.def("set_policy", [](const std::string& text) {
    return name_of(std::exchange(torch_layer::change_settings().policy, parse_policy(text)));
  });
  m.def("set_random_mode", [](const std::string& text) {
    const auto before = std::exchange(torch_layer::change_settings().random, parse_random(text));
    return kRandomModes[static_cast<std::size_t>(before)];
  });
  m.def("set_check_mode", [](bool enabled) {
    return std::exchange(torch_layer::change_settings().checking, enabled);
  });
  m.def("set_grad_sync", [](bool enabled) {
    return std::exchange(torch_layer::change_settings().grad_sync, enabled);
  });
  m.def("cache_info", [] {
    const auto& cache = torch_layer::PlanCache::of_thread();
    py::dict out;
    out["hits"] = cache.hits;
    out["misses"] = cache.misses;
    out["size"] = cache.size();
    return out;
  });
  py::class_<CommReport>(m, "CommReport_", "The collectives of a rank between start and stop.")
      .def(py::init<>())
      .def("start", &CommReport::start)
      .def("stop", &CommReport::stop)
      .def_property_readonly("rows", &CommReport::rows);
  m.def("clear_cache", [] { torch_layer::PlanCache::of_thread().clear(); });
}

}  // namespace hyper_parallel::python
