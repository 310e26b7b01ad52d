#include "hyper_parallel/torch/ranks/watched_group.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/base/cause.h"
#include "hyper_parallel/torch/ranks/local/world.h"
#include "hyper_parallel/torch/ranks/rank_state.h"
#include "hyper_parallel/torch/ranks/watch.h"

namespace hyper_parallel::torch_layer {
namespace {

using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<std::vector<at::Tensor>>;
using Result = c10::intrusive_ptr<c10d::Work>;

constexpr std::int64_t kFingerprintBytes = 256;

/// Keep `object` for ever: Gloo's destructor waits for collectives that will never end.
template <class T>
void keep(const c10::intrusive_ptr<T>& object) {
  new c10::intrusive_ptr<T>(object);
}

/// Wait for `work` in slices, between which the watch is asked. Throws the verdict.
void wait_watched(Watch& watch, std::uint64_t entry, const std::string& what,
                  const c10::intrusive_ptr<c10d::Backend>& backend, const Result& work) {
  if (work->isCompleted() && work->exception() == nullptr) {
    work->wait();
    watch.log().change(entry, Logged::State::done);
    return;
  }
  watch.log().change(entry, Logged::State::waits);
  const WaitScope scope;
  int silent = 0;
  try {
    while (true) {
      try {
        work->wait(watch.settings().beat());
        watch.log().change(entry, Logged::State::done);
        return;
      } catch (const std::exception& error) {
        // The end of a slice is an error too, but leaves the work as it is.
        if (work->isCompleted() && work->exception() != nullptr) watch.explain(what, error.what());
      }
      if (!work->isCompleted()) watch.check_wait(silent);
    }
  } catch (const CommError&) {
    watch.log().change(entry, Logged::State::failed);
    keep(backend);
    keep(work);
    throw;
  }
}

class WatchedWork final : public c10d::Work {
 public:
  WatchedWork(std::shared_ptr<Watch> watch, std::uint64_t entry, std::string what,
              c10::intrusive_ptr<c10d::Backend> backend, Result inner, int rank)
      : Work(rank),
        watch_(std::move(watch)),
        entry_(entry),
        what_(std::move(what)),
        backend_(std::move(backend)),
        inner_(std::move(inner)) {}

  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  Tensors result() override { return inner_->result(); }
  void synchronize() override { inner_->synchronize(); }
  void blockCurrentStream() override { inner_->blockCurrentStream(); }
  void abort() override { inner_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return inner_->getFuture(); }
  std::uint64_t getSequencenumber() const override { return inner_->getSequencenumber(); }

  bool wait(std::chrono::milliseconds timeout) override {
    if (timeout != kNoTimeout) return inner_->wait(timeout);
    // Torch's engine and bindings may stand between this and the caller.
    at_border([&] { wait_watched(*watch_, entry_, what_, backend_, inner_); });
    return true;
  }

 private:
  const std::shared_ptr<Watch> watch_;
  const std::uint64_t entry_;
  const std::string what_;
  const c10::intrusive_ptr<c10d::Backend> backend_;
  const Result inner_;
};

/// Gloo, with a log and an end to every wait for a collective.
class WatchedGroup final : public c10d::Backend {
 public:
  WatchedGroup(c10::intrusive_ptr<c10d::Backend> inner, std::shared_ptr<Watch> watch,
               std::string name, std::vector<int> ranks)
      : Backend(inner->getRank(), inner->getSize()),
        inner_(std::move(inner)),
        watch_(std::move(watch)),
        name_(std::move(name)),
        ranks_(std::move(ranks)) {}

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  c10::intrusive_ptr<Options> getBackendOptions() override { return inner_->getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  std::uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }
  void abort() override { inner_->abort(); }
  void shutdown() override { inner_->shutdown(); }

  Result allreduce(Tensors& t, const c10d::AllreduceOptions& o) override {
    return send("all_reduce", t, true, [&] { return inner_->allreduce(t, o); }, o.reduceOp);
  }
  Result allreduce_sparse(Tensors& t, const c10d::AllreduceOptions& o) override {
    return send("all_reduce_sparse", {}, true, [&] { return inner_->allreduce_sparse(t, o); });
  }
  Result allreduce_coalesced(Tensors& t, const c10d::AllreduceCoalescedOptions& o) override {
    return send(
        "all_reduce", t, true, [&] { return inner_->allreduce_coalesced(t, o); }, o.reduceOp);
  }
  Result reduce(Tensors& t, const c10d::ReduceOptions& o) override {
    return send("reduce", t, true, [&] { return inner_->reduce(t, o); }, o.reduceOp, o.rootRank);
  }
  Result broadcast(Tensors& t, const c10d::BroadcastOptions& o) override {
    return send("broadcast", t, true, [&] { return inner_->broadcast(t, o); }, {}, o.rootRank);
  }
  Result allgather(Lists& out, Tensors& in, const c10d::AllgatherOptions& o) override {
    return send("all_gather", in, false, [&] { return inner_->allgather(out, in, o); });
  }
  Result _allgather_base(at::Tensor& out, at::Tensor& in,
                         const c10d::AllgatherOptions& o) override {
    return send("all_gather", {in}, true, [&] { return inner_->_allgather_base(out, in, o); });
  }
  Result allgather_coalesced(Lists& out, Tensors& in, const c10d::AllgatherOptions& o) override {
    return send("all_gather", in, false, [&] { return inner_->allgather_coalesced(out, in, o); });
  }
  Result allgather_into_tensor_coalesced(Tensors& out, Tensors& in,
                                         const c10d::AllgatherOptions& o) override {
    return send("all_gather", in, true,
                [&] { return inner_->allgather_into_tensor_coalesced(out, in, o); });
  }
  Result gather(Lists& out, Tensors& in, const c10d::GatherOptions& o) override {
    return send("gather", in, false, [&] { return inner_->gather(out, in, o); }, {}, o.rootRank);
  }
  Result scatter(Tensors& out, Lists& in, const c10d::ScatterOptions& o) override {
    return send("scatter", out, false, [&] { return inner_->scatter(out, in, o); }, {}, o.rootRank);
  }
  Result reduce_scatter(Tensors& out, Lists& in, const c10d::ReduceScatterOptions& o) override {
    return send(
        "reduce_scatter", out, false, [&] { return inner_->reduce_scatter(out, in, o); },
        o.reduceOp);
  }
  Result _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                              const c10d::ReduceScatterOptions& o) override {
    return send(
        "reduce_scatter", {in}, true, [&] { return inner_->_reduce_scatter_base(out, in, o); },
        o.reduceOp);
  }
  Result reduce_scatter_tensor_coalesced(Tensors& out, Tensors& in,
                                         const c10d::ReduceScatterOptions& o) override {
    return send(
        "reduce_scatter", in, true,
        [&] { return inner_->reduce_scatter_tensor_coalesced(out, in, o); }, o.reduceOp);
  }
  Result alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<std::int64_t>& out_rows,
                       std::vector<std::int64_t>& in_rows,
                       const c10d::AllToAllOptions& o) override {
    return send("all_to_all", {in}, false,
                [&] { return inner_->alltoall_base(out, in, out_rows, in_rows, o); });
  }
  Result alltoall(Tensors& out, Tensors& in, const c10d::AllToAllOptions& o) override {
    return send("all_to_all", in, false, [&] { return inner_->alltoall(out, in, o); });
  }
  Result barrier(const c10d::BarrierOptions& o) override {
    return send("barrier", {}, true, [&] { return inner_->barrier(o); });
  }

  // Between two ranks: in no common order, so not in the log.
  Result send(Tensors& t, int to, int tag) override { return inner_->send(t, to, tag); }
  Result recv(Tensors& t, int from, int tag) override { return inner_->recv(t, from, tag); }
  Result recvAnysource(Tensors& t, int tag) override { return inner_->recvAnysource(t, tag); }

 private:
  template <class Issue>
  Result send(const char* op, const Tensors& tensors, bool same_shape, Issue issue,
              std::optional<c10d::ReduceOp> reduce = {}, std::int64_t root = -1) {
    at_border([&] { watch_->throw_if_failed(); });
    Share share;
    share.op = op;
    if (reduce) share.reduce = reduce->op_;
    share.root = static_cast<int>(root);
    share.tensors = tensors;
    Logged logged;
    logged.group = name_;
    logged.ranks = ranks_;
    logged.what = describe(share);
    logged.same_shape = same_shape;
    if (const Cause& cause = current_cause(); cause.op != nullptr) logged.op = *cause.op;
    if (torch_layer::settings().checking) at_border([&] { compare(logged); });
    std::string what = logged.what;
    const std::uint64_t entry = watch_->log().add(std::move(logged));
    Result work;
    try {
      work = issue();
    } catch (...) {
      watch_->log().change(entry, Logged::State::failed);
      throw;
    }
    return c10::make_intrusive<WatchedWork>(watch_, entry, std::move(what), inner_, std::move(work),
                                            rank_);
  }

  /// Gather what all ranks are about to do.
  void compare(const Logged& mine) {
    Logged entry = mine;
    entry.what = "compare u8[" + std::to_string(kFingerprintBytes) + "]";
    const at::Tensor sent = at::zeros({kFingerprintBytes}, at::kByte);
    std::string text = signature(mine);
    if (!mine.op.empty()) text += " for " + mine.op;
    text.resize(std::min<std::size_t>(text.size(), kFingerprintBytes - 1));
    std::memcpy(sent.mutable_data_ptr(), text.data(), text.size());
    Lists all(1);
    for (int i = 0; i < size_; ++i) all[0].push_back(at::zeros({kFingerprintBytes}, at::kByte));
    Tensors one{sent};
    const std::string what = entry.what;
    const std::uint64_t number = watch_->log().add(std::move(entry));
    wait_watched(*watch_, number, what, inner_, inner_->allgather(all, one));
    std::map<std::string, std::vector<int>> brought;
    for (int i = 0; i < size_; ++i) {
      const at::Tensor& each = all[0][static_cast<std::size_t>(i)];
      brought[static_cast<const char*>(each.const_data_ptr())].push_back(
          ranks_[static_cast<std::size_t>(i)]);
    }
    if (brought.size() == 1) return;
    Message message("HP-C001", "ranks do not bring the same collective");
    for (const auto& [each, who] : brought) {
      std::string list;
      for (const int rank : who) list += (list.empty() ? "rank " : ", ") + std::to_string(rank);
      message.fact(list, each);
    }
    throw CommError(
        message.hint("all ranks of a group must call the same collectives in the same order"));
  }

  const c10::intrusive_ptr<c10d::Backend> inner_;
  const std::shared_ptr<Watch> watch_;
  const std::string name_;
  const std::vector<int> ranks_;
};

}  // namespace

void watch_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::vector<int>& ranks,
                 const c10::intrusive_ptr<c10d::ProcessGroup>& world, int rank, int size) {
  if (size < 2) return;
  constexpr auto kOwn = c10d::ProcessGroup::BackendType::CUSTOM;
  if (!group->hasBackends()) return;
  c10::intrusive_ptr<c10d::Backend> inner;
  try {
    inner = group->getBackend(at::kCPU);
  } catch (const c10::Error&) {  // none for the host
    return;
  }
  if (inner->getBackendName() != "gloo") return;
  if (dynamic_cast<WatchedGroup*>(inner.get()) != nullptr) return;
  const std::shared_ptr<Watch> watch = watch_of(world, rank, size);
  if (watch == nullptr) return;
  c10::intrusive_ptr<c10d::Backend> watched =
      c10::make_intrusive<WatchedGroup>(std::move(inner), watch, group->getGroupName(), ranks);
  group->setBackend(at::kCPU, kOwn, std::move(watched));
}

}  // namespace hyper_parallel::torch_layer
