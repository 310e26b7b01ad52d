// Ranks for Python: threads of `run_local`, and the process of torch.distributed.

#include "hyper_parallel/torch/ranks/ranks.h"

#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "hyper_parallel/torch/ranks/local/world.h"
#include "hyper_parallel/torch/ranks/rank_stream.h"
#include "hyper_parallel/torch/ranks/watch.h"
#include "hyper_parallel/torch/ranks/watched_group.h"
#include "python/src/torch/init.h"

namespace py = pybind11;

namespace hyper_parallel::python {
namespace {

using namespace hyper_parallel::torch_layer;

// One call of run_local: the meeting point and what the caller's thread hands to the ranks.
class PyLocalWorld {
 public:
  PyLocalWorld(int size, double timeout)
      : world_(std::make_shared<LocalWorld>(
            size, std::chrono::milliseconds(static_cast<std::int64_t>(timeout * 1e3)))) {
    require_outside_run_local();
  }

  void enter(int rank) {
    scope() = std::make_unique<RankScope>(world_, rank, caller_);
    log() = {world_, &world_->log(rank)};
  }
  static void leave() {
    scope().reset();
    log().reset();
  }

  /// The log of the calling rank, null outside of run_local.
  static std::shared_ptr<CollectiveLog>& log() {
    thread_local std::shared_ptr<CollectiveLog> log;
    return log;
  }

  bool fail(int rank, const std::string& text) { return world_->fail(rank, text); }
  void finish(int rank) { world_->finish(rank); }
  void abort(const std::string& reason) { world_->abort(reason); }
  void restore_threads() const { caller_.restore_threads(); }

 private:
  static std::unique_ptr<RankScope>& scope() {
    thread_local std::unique_ptr<RankScope> scope;
    return scope;
  }

  std::shared_ptr<LocalWorld> world_;
  RankCaller caller_;
};

// `description`: None, or (rank, world size, maker of groups, name of the default group).
std::shared_ptr<RankContext> context_of(const py::object& description) {
  if (description.is_none()) return nullptr;
  const auto [rank, size, maker, name] =
      description.cast<std::tuple<int, int, py::function, std::string>>();
  // Contexts are copied and dropped without Python's lock, so the function sits behind a pointer
  // that is never freed.
  auto* const make = new py::function(maker);
  const c10::intrusive_ptr<c10d::ProcessGroup> world = c10d::resolve_process_group(name);
  std::vector<int> everyone(static_cast<std::size_t>(size));
  std::iota(everyone.begin(), everyone.end(), 0);
  watch_group(world, everyone, world, rank, size);
  const c10::weak_intrusive_ptr<c10d::ProcessGroup> group(world);
  return std::make_shared<RankContext>(
      rank, size,
      [make, group, me = rank, size = size](const std::vector<int>& ranks) {
        std::string made;
        {
          const py::gil_scoped_acquire lock;
          made = (*make)(ranks).cast<std::string>();
        }
        if (const auto world = group.lock()) {
          watch_group(c10d::resolve_process_group(made), ranks, world, me, size);
        }
        return made;
      },
      [group] { return !group.expired(); });
}

}  // namespace

void init_ranks(py::module_& m) {
  set_wait_hooks({
      [] { return PyGILState_Check() == 1 ? static_cast<void*>(PyEval_SaveThread()) : nullptr; },
      [](void* state) { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); },
  });

  py::class_<PyLocalWorld>(m, "_LocalWorld")
      .def(py::init<int, double>(), py::arg("size"), py::arg("timeout"))
      .def("enter", &PyLocalWorld::enter, py::arg("rank"))
      .def_static("leave", &PyLocalWorld::leave)
      .def("fail", &PyLocalWorld::fail, py::arg("rank"), py::arg("text"))
      .def("finish", &PyLocalWorld::finish, py::arg("rank"))
      .def("abort", &PyLocalWorld::abort, py::arg("reason"))
      .def("restore_threads", &PyLocalWorld::restore_threads);

  m.def("_collective_log", [] {
    if (const auto log = PyLocalWorld::log()) return log->text();
    const std::shared_ptr<Watch> watch = process_watch();
    return watch != nullptr ? watch->log().text() : std::string();
  });
  m.def(
      "_note_failure",
      [](const std::string& error, bool final) {
        const py::gil_scoped_release unlocked;
        if (const auto watch = process_watch()) watch->note_failure(error, final);
      },
      py::arg("error"), py::arg("final"));
  m.def("_finish_watch", &finish_watch, py::call_guard<py::gil_scoped_release>());
  m.def("_rank", [] { return current_rank().rank(); });
  m.def("_world_size", [] { return current_rank().world_size(); });
  m.def("_context_generation", [] { return context_generation(); });
  m.def("_seed_rank_stream", &seed_rank_stream, py::arg("seed"));
  m.def("_rank_stream_state", &rank_stream_state);
  m.def("_set_rank_stream_state", &set_rank_stream_state, py::arg("state"));
  m.def("_inside_run_local", [] { return inside_run_local(); });
  m.def(
      "_group_name", [](const std::vector<int>& ranks) { return current_rank().group_name(ranks); },
      py::arg("ranks"));
  m.def("_set_process_context",
        [](const py::object& description) { set_process_context(context_of(description)); });
  m.def("_set_context_provider", [](py::function provider) {
    auto* const ask = new py::function(std::move(provider));
    set_context_provider([ask] {
      const py::gil_scoped_acquire lock;
      return context_of((*ask)());
    });
  });
}

}  // namespace hyper_parallel::python
