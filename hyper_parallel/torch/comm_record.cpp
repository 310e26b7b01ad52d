#include "hyper_parallel/torch/comm_record.h"

#include <memory>

#include "hyper_parallel/torch/frame.h"
#include "hyper_parallel/torch/redistribute.h"

namespace hyper_parallel::torch_layer {
namespace {

struct Record {
  std::vector<CommRow> rows;
  CommObserver observer;
};

thread_local std::unique_ptr<Record> record;

void add(const plan::Step& step, const TensorMeta& meta, bool backward, int joined) {
  if (!step.communicates()) return;
  CommRow row;
  row.kind = plan::to_string(step.kind);
  for (char& c : row.kind) c = c == '-' ? '_' : c;
  const Mesh* mesh = step.before->mesh();
  for (int axis : step.axes) {
    row.axes.push_back(mesh->name(axis));
    row.ranks *= mesh->size(axis);
  }
  row.bytes = step.bytes;
  row.backward = backward;
  row.joined = joined;
  const Cause& cause = current_cause();
  if (cause.op != nullptr) row.op = *cause.op;
  if (cause.reason != nullptr) row.reason = *cause.reason;
  row.meta = meta;
  row.from = step.before->to_string();
  row.to = step.after->to_string();
  record->rows.push_back(std::move(row));
}

}  // namespace

void start_record() {
  record = std::make_unique<Record>();
  record->observer = add;
  set_comm_observer(&record->observer);
}

std::vector<CommRow> stop_record() {
  if (!record) return {};
  set_comm_observer(nullptr);
  std::vector<CommRow> rows = std::move(record->rows);
  record.reset();
  return rows;
}

}  // namespace hyper_parallel::torch_layer
