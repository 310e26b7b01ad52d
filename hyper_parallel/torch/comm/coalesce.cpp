// Several plans at once: collectives that agree are joined.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/comm/program.h"
#include "hyper_parallel/torch/comm/record.h"
#include "hyper_parallel/torch/comm/redistribute.h"

namespace hyper_parallel::torch_layer {
namespace coalesced {

using plan::StepKind;

// One collective takes this many bytes at most, so that buffers stay small next to the tensors.
constexpr double kMostBytes = 256.0 * 1024 * 1024;

struct Job {
  std::shared_ptr<const plan::Plan> plan;
  std::shared_ptr<Program> program;
  at::Tensor value;
  std::size_t next = 0;

  bool done() const { return next == program->actions.size(); }
  const Action& action() const { return program->actions[next]; }
  const plan::Step& step() const { return plan->steps[next]; }
};

/// Bytes of the whole tensor: an upper bound that all ranks know.
inline double bytes_of(const Job& job) { return static_cast<double>(job.plan->meta.bytes()); }

inline bool joins(StepKind kind) {
  return kind == StepKind::all_reduce || kind == StepKind::all_gather ||
         kind == StepKind::reduce_scatter;
}

/// True if the next steps can be one collective. Ranks may hold parts of any size, none included,
/// so this looks at the plans only, on which all ranks agree.
inline bool agree(const Job& a, const Job& b) {
  const plan::Step& x = a.step();
  const plan::Step& y = b.step();
  return joins(x.kind) && x.kind == y.kind && x.op == y.op && x.axes == y.axes &&
         x.before->mesh() == y.before->mesh() && a.value.scalar_type() == b.value.scalar_type() &&
         a.value.device() == b.value.device();
}

inline wire::Sent issue_joined(const Action& a, const at::Tensor& buffer) {
  switch (a.kind) {
    case StepKind::all_gather:
      return wire::all_gather(buffer, a.group);
    case StepKind::reduce_scatter:
      return wire::reduce_scatter(buffer, a.op, a.group);
    default:
      return wire::all_reduce_in_place(buffer, a.op, a.group);
  }
}

/// The next step of several jobs as one collective, on a buffer of n equal rows where ranks get or
/// give different parts, else of one row: the values stand side by side.
class JoinedStep {
 public:
  explicit JoinedStep(std::vector<Job*> jobs) : jobs_(std::move(jobs)) {
    const Action& first = jobs_.front()->action();
    const std::int64_t n = first.group.size;
    const std::int64_t rows = first.kind == StepKind::reduce_scatter ? n : 1;
    std::vector<at::Tensor> blocks;
    for (const Job* job : jobs_) {
      const at::Tensor sent = before_collective(job->action(), job->value);
      blocks.push_back(sent.reshape({rows, -1}));
      columns_.push_back(blocks.back().size(1));
      shapes_.emplace_back(sent.sizes().begin(), sent.sizes().end());
      if (first.kind == StepKind::all_gather) shapes_.back()[0] *= n;
      if (first.kind == StepKind::reduce_scatter) shapes_.back()[0] /= n;
    }
    sent_.emplace(issue_joined(first, at::cat(blocks, 1)));
  }

  void land() {
    const at::Tensor received = sent_->wait();
    std::int64_t start = 0;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      Job& job = *jobs_[i];
      const at::Tensor own = received.narrow(1, start, columns_[i]).reshape(shapes_[i]);
      start += columns_[i];
      job.value = after_collective(job.action(), job.value, own);
      ++job.next;
    }
  }

 private:
  std::vector<Job*> jobs_;
  std::vector<std::int64_t> columns_;
  std::vector<Shape> shapes_;
  std::optional<wire::Sent> sent_;
};

}  // namespace coalesced

using coalesced::Job;
using coalesced::JoinedStep;

struct PendingPlans::State {
  std::vector<at::Tensor> out;
  std::vector<Job> jobs;
  std::vector<std::size_t> places;  // of the jobs' results
  bool backward = false;
  // What is under way: one job's collective, or that of several.
  std::optional<wire::Sent> alone;
  Job* job = nullptr;
  std::optional<JoinedStep> joined;

  bool flying() const { return alone || joined; }

  /// One round: local steps up to the next collective of each job, then the first job's collective
  /// together with all that agree with it.
  void advance() {
    while (!flying()) {
      std::vector<Job*> together;
      double bytes = 0;
      for (Job& each : jobs) {
        while (!each.done() && !each.step().communicates()) {
          each.value = run_here(each.action(), each.value);
          ++each.next;
        }
        if (each.done()) continue;
        const bool fits = together.empty() || (coalesced::agree(*together.front(), each) &&
                                               bytes + bytes_of(each) <= coalesced::kMostBytes);
        if (!fits) continue;
        together.push_back(&each);
        bytes += bytes_of(each);
      }
      if (together.empty()) return;
      start(std::move(together));
    }
  }

  void start(std::vector<Job*> together) {
    const int number = together.size() > 1 ? next_joined() : 0;
    std::vector<Job*> busy;
    for (Job* each : together) {
      note_step(each->step(), each->plan->meta, backward, number);
      if (sends(each->action())) {
        busy.push_back(each);
        continue;
      }
      each->value = run_here(each->action(), each->value);
      ++each->next;
    }
    // Which of several are idle is the same on all ranks of a group.
    if (busy.empty()) return;
    if (together.size() > 1) {
      joined.emplace(std::move(busy));
      return;
    }
    job = busy.front();
    alone.emplace(issue(job->action(), job->value));
  }

  void land() {
    if (joined) {
      joined->land();
      joined.reset();
      return;
    }
    job->value = torch_layer::land(job->action(), job->value, *std::move(alone));
    ++job->next;
    alone.reset();
  }
};

PendingPlans::PendingPlans(const std::vector<std::shared_ptr<const plan::Plan>>& plans,
                           const std::vector<at::Tensor>& locals, bool backward)
    : state_(std::make_unique<State>()) {
  check_internal(plans.size() == locals.size(), "PendingPlans: one plan a tensor");
  State& s = *state_;
  s.out = locals;
  s.backward = backward;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i] == nullptr || (plans[i]->steps.empty() && plans[i]->meta.numel() != 0)) continue;
    if (plans[i]->meta.numel() == 0) {
      s.out[i] = execute(*plans[i], locals[i]);
      continue;
    }
    s.jobs.push_back({plans[i], program_of(*plans[i]), locals[i]});
    check_local(*plans[i], *s.jobs.back().program, locals[i]);
    s.places.push_back(i);
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  s.advance();
}

PendingPlans::PendingPlans(PendingPlans&&) noexcept = default;
PendingPlans& PendingPlans::operator=(PendingPlans&&) noexcept = default;
PendingPlans::~PendingPlans() = default;

std::vector<at::Tensor> PendingPlans::wait() {
  State& s = *state_;
  at::AutoDispatchBelowADInplaceOrView guard;
  while (s.flying()) {
    s.land();
    s.advance();
  }
  for (std::size_t i = 0; i < s.jobs.size(); ++i) {
    at::Tensor& value = s.jobs[i].value;
    if (s.jobs[i].program->may_alias) value = value.clone(at::MemoryFormat::Contiguous);
    s.out[s.places[i]] = std::move(value);
  }
  return std::move(s.out);
}

std::vector<at::Tensor> execute_coalesced(
    const std::vector<std::shared_ptr<const plan::Plan>>& plans,
    const std::vector<at::Tensor>& locals, bool backward) {
  return PendingPlans(plans, locals, backward).wait();
}

}  // namespace hyper_parallel::torch_layer
