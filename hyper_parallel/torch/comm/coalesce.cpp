// Several plans at once: collectives that agree are joined.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/comm/observer.h"
#include "hyper_parallel/torch/comm/program.h"

namespace hyper_parallel::torch_layer {
namespace {

using plan::StepKind;

// One collective takes this many bytes at most, so that buffers stay small next to the tensors.
constexpr double kMostBytes = 256.0 * 1024 * 1024;

struct Job {
  const plan::Plan* plan = nullptr;
  std::shared_ptr<Program> program;
  at::Tensor value;
  std::size_t next = 0;

  bool done() const { return next == program->actions.size(); }
  const Action& action() const { return program->actions[next]; }
  const plan::Step& step() const { return plan->steps[next]; }
};

/// Bytes of the whole tensor: an upper bound that all ranks know.
double bytes_of(const Job& job) { return static_cast<double>(job.plan->meta.bytes()); }

bool joins(StepKind kind) {
  return kind == StepKind::all_reduce || kind == StepKind::all_gather ||
         kind == StepKind::reduce_scatter;
}

/// True if the next steps can be one collective. Ranks may hold parts of any size, none included,
/// so this looks at the plans only, on which all ranks agree.
bool agree(const Job& a, const Job& b) {
  const plan::Step& x = a.step();
  const plan::Step& y = b.step();
  return joins(x.kind) && x.kind == y.kind && x.op == y.op && x.axes == y.axes &&
         x.before->mesh() == y.before->mesh() && a.value.scalar_type() == b.value.scalar_type() &&
         a.value.device() == b.value.device();
}

at::Tensor communicate_joined(const Action& a, at::Tensor buffer) {
  switch (a.kind) {
    case StepKind::all_gather:
      return all_gather(buffer, a.group);
    case StepKind::reduce_scatter:
      return reduce_scatter(buffer, a.op, a.group);
    default:
      break;
  }
  all_reduce_in_place(buffer, a.op, a.group);
  return buffer;
}

/// Run the next action of all jobs as one collective, on a buffer of n equal rows where ranks get
/// or give different parts, else of one row: the values stand side by side.
void run_joined(std::vector<Job*> jobs) {
  for (Job* job : jobs) {
    if (job->action().idle) job->value = run(job->action(), job->value);
  }
  const auto busy = std::stable_partition(jobs.begin(), jobs.end(),
                                          [](const Job* job) { return job->action().idle; });
  for (auto job = jobs.begin(); job != busy; ++job) ++(*job)->next;
  jobs.erase(jobs.begin(), busy);
  if (jobs.empty()) return;
  const Action& first = jobs.front()->action();
  const std::int64_t rows = first.kind == StepKind::reduce_scatter ? first.group.size : 1;
  std::vector<at::Tensor> blocks;
  std::vector<Shape> shapes;
  for (Job* job : jobs) {
    const at::Tensor sent = before_collective(job->action(), job->value);
    blocks.push_back(sent.reshape({rows, -1}));
    shapes.emplace_back(sent.sizes().begin(), sent.sizes().end());
    if (first.kind == StepKind::all_gather) shapes.back()[0] *= first.group.size;
    if (first.kind == StepKind::reduce_scatter) shapes.back()[0] /= first.group.size;
  }
  const at::Tensor received = communicate_joined(first, at::cat(blocks, 1));
  std::int64_t start = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Job& job = *jobs[i];
    const std::int64_t columns = blocks[i].size(1);
    const at::Tensor own = received.narrow(1, start, columns).reshape(shapes[i]);
    start += columns;
    job.value = after_collective(job.action(), job.value, own);
    ++job.next;
  }
}

}  // namespace

std::vector<at::Tensor> execute_coalesced(
    const std::vector<std::shared_ptr<const plan::Plan>>& plans,
    const std::vector<at::Tensor>& locals, bool backward) {
  check_internal(plans.size() == locals.size(), "execute_coalesced: one plan a tensor");
  std::vector<at::Tensor> out = locals;
  std::vector<Job> jobs;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i] == nullptr || (plans[i]->steps.empty() && plans[i]->meta.numel() != 0)) continue;
    if (plans[i]->meta.numel() == 0) {
      out[i] = execute(*plans[i], locals[i]);
      continue;
    }
    jobs.push_back({plans[i].get(), program_of(*plans[i]), locals[i]});
    check_local(*plans[i], *jobs.back().program, locals[i]);
    places.push_back(i);
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  // Each round: local steps up to the next collective of each job, then the first job's
  // collective together with all that agree with it.
  while (true) {
    std::vector<Job*> together;
    double bytes = 0;
    for (Job& job : jobs) {
      while (!job.done() && !job.step().communicates()) {
        observe(job.step(), job.plan->meta, backward);
        job.value = run(job.action(), job.value);
        ++job.next;
      }
      if (job.done()) continue;
      const bool fits = together.empty() ||
                        (agree(*together.front(), job) && bytes + bytes_of(job) <= kMostBytes);
      if (!fits) continue;
      together.push_back(&job);
      bytes += bytes_of(job);
    }
    if (together.empty()) break;
    const int joined = together.size() > 1 ? next_joined() : 0;
    for (Job* job : together) observe(job->step(), job->plan->meta, backward, joined);
    if (together.size() > 1) {
      run_joined(together);
    } else {
      Job& job = *together.front();
      job.value = run(job.action(), job.value);
      ++job.next;
    }
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].program->may_alias)
      jobs[i].value = jobs[i].value.clone(at::MemoryFormat::Contiguous);
    out[places[i]] = std::move(jobs[i].value);
  }
  return out;
}

}  // namespace hyper_parallel::torch_layer
