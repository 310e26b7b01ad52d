#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "hyper_parallel/core/mesh.h"
#include "hyper_parallel/core/tensor_meta.h"
#include "hyper_parallel/explain/comm_row.h"
#include "hyper_parallel/plan/redistribute.h"

namespace hyper_parallel {

/// Records the collectives of the calling rank between `start` and `stop`; explain/report.h shows
/// them. Reports nest: each has all rows of its time. Ranks may share one.
///
///     CommReport report;
///     report.start();
///     step();
///     report.stop();
///     std::cout << explain::table(report.rows());
class CommReport {
 public:
  CommReport();
  /// Stops on the calling rank.
  ~CommReport();
  CommReport(const CommReport&) = delete;
  CommReport& operator=(const CommReport&) = delete;

  /// Throws UsageError HP-R020 if the calling rank records this report already.
  void start();
  /// Nothing happens if the calling rank does not record this report.
  void stop();
  /// The rows so far, in order.
  std::vector<CommRow> rows() const;

  struct Rows;

 private:
  std::shared_ptr<Rows> rows_;
};

namespace torch_layer {

/// Add a collective that is no step of a plan to the open reports of this rank, before it is
/// issued. `local`: what this rank gives; `bytes`: what one rank sends or receives.
void note_collective(std::string_view kind, const Mesh* mesh, const std::vector<int>& axes,
                     const TensorMeta& local, double bytes);

/// The same of a step of a plan for a tensor of global `meta`; nothing if it is local.
/// `backward`: also outside of a backward pass.
void note_step(const plan::Step& step, const TensorMeta& meta, bool backward = false,
               int joined = 0);

/// A number, not 0, for the next collective of this thread that is made of several steps.
int next_joined();

}  // namespace torch_layer
}  // namespace hyper_parallel
