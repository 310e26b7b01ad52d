#include "hyper_parallel/torch/comm/record.h"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/base/cause.h"
#include "hyper_parallel/torch/ranks/rank_state.h"

namespace hyper_parallel {

struct CommReport::Rows {
  std::mutex mutex;
  std::vector<CommRow> rows;
};

namespace {

using torch_layer::Cause;
using OpenReports = std::vector<std::shared_ptr<CommReport::Rows>>;

// The reports that the calling rank records, outer ones first.
OpenReports& open_reports() { return torch_layer::of_rank<OpenReports>(); }

CommRow make_row(std::string_view kind, const Mesh* mesh, const std::vector<int>& axes,
                 const TensorMeta& meta, double bytes) {
  CommRow row;
  row.kind = kind;
  for (int axis : axes) {
    row.axes.push_back(mesh->name(axis));
    row.ranks *= mesh->size(axis);
  }
  row.bytes = std::llrint(bytes);
  row.tensor = to_string(meta);
  // A handler's own backward runs its collectives as if forward.
  row.backward = torch::autograd::get_current_graph_task_id() >= 0;
  const Cause& cause = torch_layer::current_cause();
  if (cause.op != nullptr) row.op = *cause.op;
  if (cause.reason != nullptr) row.reason = *cause.reason;
  return row;
}

void add(const CommRow& row) {
  for (const auto& report : open_reports()) {
    const std::lock_guard lock(report->mutex);
    report->rows.push_back(row);
  }
}

}  // namespace

CommReport::CommReport() : rows_(std::make_shared<Rows>()) {}

CommReport::~CommReport() { stop(); }

void CommReport::start() {
  OpenReports& open = open_reports();
  if (std::find(open.begin(), open.end(), rows_) != open.end()) {
    throw UsageError(Message("HP-R020", "this report is being recorded already"));
  }
  open.push_back(rows_);
}

void CommReport::stop() { std::erase(open_reports(), rows_); }

std::vector<CommRow> CommReport::rows() const {
  const std::lock_guard lock(rows_->mutex);
  return rows_->rows;
}

namespace torch_layer {

void note_collective(std::string_view kind, const Mesh* mesh, const std::vector<int>& axes,
                     const TensorMeta& local, double bytes) {
  if (!open_reports().empty()) add(make_row(kind, mesh, axes, local, bytes));
}

void note_step(const plan::Step& step, const TensorMeta& meta, bool backward, int joined) {
  if (open_reports().empty() || !step.communicates()) return;
  CommRow row =
      make_row(plan::to_string(step.kind), step.before->mesh(), step.axes, meta, step.bytes);
  row.backward |= backward;
  row.joined = joined;
  row.from = step.before->to_string();
  row.to = step.after->to_string();
  add(row);
}

int next_joined() {
  struct Joined {
    std::atomic<int> last = 0;
  };
  return ++of_rank<Joined>().last;
}

}  // namespace torch_layer
}  // namespace hyper_parallel
