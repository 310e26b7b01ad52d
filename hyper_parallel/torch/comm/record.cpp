#include "hyper_parallel/torch/comm/record.h"

#include <memory>

#include <torch/csrc/autograd/graph_task.h>

#include "hyper_parallel/torch/comm/cause.h"
#include "hyper_parallel/torch/comm/redistribute.h"
#include "hyper_parallel/torch/ranks/of_rank.h"

namespace hyper_parallel::torch_layer {
namespace {

struct Record {
  std::vector<CommRow> rows;
  CommObserver observer;
};

std::unique_ptr<Record>& current_record() { return of_rank<std::unique_ptr<Record>, Record>(); }

CommRow make_row(std::string_view kind, const Mesh* mesh, const std::vector<int>& axes,
                 const TensorMeta& meta, double bytes) {
  CommRow row;
  row.kind = kind;
  for (char& c : row.kind) c = c == '-' ? '_' : c;
  for (int axis : axes) {
    row.axes.push_back(mesh->name(axis));
    row.ranks *= mesh->size(axis);
  }
  row.bytes = bytes;
  row.meta = meta;
  // A handler's own backward runs its collectives as if forward.
  row.backward = torch::autograd::get_current_graph_task_id() >= 0;
  const Cause& cause = current_cause();
  if (cause.op != nullptr) row.op = *cause.op;
  if (cause.reason != nullptr) row.reason = *cause.reason;
  return row;
}

void add(const plan::Step& step, const TensorMeta& meta, bool backward, int joined) {
  if (!step.communicates()) return;
  CommRow row =
      make_row(plan::to_string(step.kind), step.before->mesh(), step.axes, meta, step.bytes);
  row.backward |= backward;
  row.joined = joined;
  row.from = step.before->to_string();
  row.to = step.after->to_string();
  current_record()->rows.push_back(std::move(row));
}

}  // namespace

void note_collective(std::string_view kind, const Mesh* mesh, const std::vector<int>& axes,
                     const TensorMeta& local, double bytes) {
  if (auto& record = current_record()) {
    record->rows.push_back(make_row(kind, mesh, axes, local, bytes));
  }
}

void start_record() {
  auto& record = current_record();
  record = std::make_unique<Record>();
  record->observer = add;
  set_comm_observer(&record->observer);
}

std::vector<CommRow> stop_record() {
  auto& record = current_record();
  if (!record) return {};
  set_comm_observer(nullptr);
  std::vector<CommRow> rows = std::move(record->rows);
  record.reset();
  return rows;
}

}  // namespace hyper_parallel::torch_layer
