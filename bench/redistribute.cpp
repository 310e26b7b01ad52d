// Host time of running a plan, against the functional collective called by hand. The group does
// nothing, so that only the work of the host is seen.

#include "hyper_parallel/torch/comm/redistribute.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "bench/timer.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/comm/program.h"
#include "hyper_parallel/torch/ranks/ranks.h"

namespace {

using namespace hyper_parallel;
using bench::show;

struct Done final : c10d::Work {
  bool wait(std::chrono::milliseconds) override { return true; }
};

/// Collectives that are done at once and leave results as they were.
struct Idle final : c10d::Backend {
  using Result = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using Backend::Backend;

  const std::string getBackendName() const override { return "idle"; }
  Result allreduce(Tensors&, const c10d::AllreduceOptions&) override { return done(); }
  Result _allgather_base(at::Tensor&, at::Tensor&, const c10d::AllgatherOptions&) override {
    return done();
  }
  Result allgather_into_tensor_coalesced(Tensors&, Tensors&,
                                         const c10d::AllgatherOptions&) override {
    return done();
  }
  Result _reduce_scatter_base(at::Tensor&, at::Tensor&,
                              const c10d::ReduceScatterOptions&) override {
    return done();
  }
  Result reduce_scatter_tensor_coalesced(Tensors&, Tensors&,
                                         const c10d::ReduceScatterOptions&) override {
    return done();
  }
  Result alltoall_base(at::Tensor&, at::Tensor&, std::vector<std::int64_t>&,
                       std::vector<std::int64_t>&, const c10d::AllToAllOptions&) override {
    return done();
  }

 private:
  static Result done() { return c10::make_intrusive<Done>(); }
};

std::string make_idle_group(const std::vector<int>& ranks) {
  static std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> groups;
  const int size = static_cast<int>(ranks.size());
  const std::string name = "idle" + std::to_string(groups.size());
  auto group = c10::make_intrusive<c10d::ProcessGroup>(0, size);
  constexpr auto kType = c10d::ProcessGroup::BackendType::CUSTOM;
  group->setBackend(at::kCPU, kType, c10::make_intrusive<Idle>(0, size));
  group->setDefaultBackend(kType);
  group->setGroupName(name);
  c10d::register_process_group(name, group);
  groups.push_back(std::move(group));
  return name;
}

template <class Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

std::shared_ptr<const plan::Plan> plan_of(const char* from, const char* to) {
  const Described d = parse_described(from);
  return plan::redistribute(d.layout, parse_layout(d.layout->mesh(), to), d.meta);
}

}  // namespace

int main() {
  torch_layer::set_process_context(
      std::make_shared<torch_layer::RankContext>(0, 4, make_idle_group));
  const c10::IValue name = torch_layer::current_rank().group_name({0, 1, 2, 3});
  const auto reduce = find<at::Tensor(const at::Tensor&, std::string, const c10::IValue&)>(
      "_c10d_functional::all_reduce");
  const auto gather = find<at::Tensor(const at::Tensor&, std::int64_t, const c10::IValue&)>(
      "_c10d_functional::all_gather_into_tensor");
  const auto wait = find<at::Tensor(const at::Tensor&)>("_c10d_functional::wait_tensor");
  const at::Tensor x = at::ones({64, 64});
  {
    const at::NoGradGuard no_grad;
    std::printf("by hand, below autograd\n");
    const at::AutoDispatchBelowADInplaceOrView guard;
    show("all_reduce, wait_tensor", [&] { wait.call(reduce.call(x, "sum", name)); });
    show("all_gather_into_tensor, wait_tensor", [&] { wait.call(gather.call(x, 4, name)); });
  }
  std::printf("execute\n");
  const auto sum = plan_of("f32[64, 64] on tp=4: P(sum)", "R");
  for (auto [from, to] :
       {std::pair{"f32[64, 64] on tp=4: P(sum)", "R"}, std::pair{"f32[256, 64] on tp=4: S(0)", "R"},
        std::pair{"f32[254, 64] on tp=4: S(0)", "R"}, std::pair{"f32[64, 256] on tp=4: S(1)", "R"},
        std::pair{"f32[64, 64] on tp=4: P(sum)", "S(0)"},
        std::pair{"f32[64, 64] on tp=4: P(sum)", "S(1)"},
        std::pair{"f32[256, 64] on tp=4: S(0)", "S(1)"},
        std::pair{"f32[64, 256] on tp=4: S(1)", "S(0)"},
        std::pair{"f32[64, 64] on tp=4: R", "S(0)"}}) {
    const auto plan = plan_of(from, to);
    const at::Tensor local = at::ones(torch_layer::program_of(*plan)->before);
    show((std::string(from) + " -> " + to).c_str(), [&] { torch_layer::execute(*plan, local); });
  }
  std::printf("redistribute, f32[64, 64] on tp=4: P(sum) -> R\n");
  const at::Tensor leaf = at::ones({64, 64}).requires_grad_();
  show("without grad", [&] { torch_layer::redistribute(sum, x); });
  show("with grad", [&] { torch_layer::redistribute(sum, leaf); });
  std::printf("compile a plan for a rank\n");
  for (auto [from, to] :
       {std::pair{"f32[64, 64] on tp=4: P(sum)", "R"}, std::pair{"f32[256, 64] on tp=4: S(0)", "R"},
        std::pair{"f32[255, 64] on tp=4: S(0)", "S(1)"}}) {
    const auto plan = plan_of(from, to);
    show((std::string(from) + " -> " + to).c_str(), [&] { torch_layer::compile(*plan); });
  }
  return 0;
}
