#include "hyper_parallel/torch/ranks/local/group.h"

#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "hyper_parallel/torch/base/cause.h"
#include "hyper_parallel/torch/ranks/local/share.h"

namespace hyper_parallel::torch_layer {
namespace {

using Tensors = LocalGroup::Tensors;

// A collective that is over.
class DoneWork final : public c10d::Work {
 public:
  DoneWork(int rank, c10d::OpType type, Tensors results)
      : Work(rank, type), results_(std::move(results)) {}
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
  void synchronize() override {}
  Tensors result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
    future->markCompleted(c10::IValue(results_));
    return future;
  }

 private:
  Tensors results_;
};

// A posted receive: the tensor is filled by `wait` or by a true `isCompleted`.
class ReceiveWork final : public c10d::Work {
 public:
  ReceiveWork(std::shared_ptr<LocalWorld> world, LocalWorld::Room& room, int member, int from,
              int tag, at::Tensor tensor)
      : Work(member, from < 0 ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV),
        world_(std::move(world)),
        room_(room),
        member_(member),
        receive_(world_->post(room, member, from, tag)),
        tensor_(std::move(tensor)) {}

  bool isCompleted() override { return done_ || (world_->arrived(*receive_) && wait({})); }
  bool isSuccess() const override { return done_; }
  void synchronize() override { wait({}); }
  Tensors result() override { return {tensor_}; }
  int sourceRank() const override { return receive_->from; }

  bool wait(std::chrono::milliseconds) override {
    if (done_) return true;
    const WaitScope scope;
    const at::Tensor& message = world_->wait(room_, member_, *receive_);
    if (message.numel() != tensor_.numel() || message.scalar_type() != tensor_.scalar_type()) {
      Share sent = moving("send", {message}), wanted = moving("recv", {tensor_});
      throw CommError(Message("HP-C001", "recv: the message does not fit the tensor")
                          .fact("sent", describe(sent))
                          .fact("expected", describe(wanted)));
    }
    const at::AutoDispatchBelowADInplaceOrView guard;
    tensor_.copy_(message.view(tensor_.sizes()));
    return done_ = true;
  }

 private:
  std::shared_ptr<LocalWorld> world_;
  LocalWorld::Room& room_;
  int member_;
  std::shared_ptr<LocalWorld::Receive> receive_;
  at::Tensor tensor_;
  bool done_ = false;
};

void require_one(const char* op, std::size_t count) {
  if (count != 1) bad_arguments(op, "takes one tensor (or list) a rank");
}

void require_count(const char* op, std::size_t count, std::size_t expected) {
  if (count == expected) return;
  bad_arguments(op, "needs " + std::to_string(expected) + " tensors in the list, not " +
                        std::to_string(count));
}

void require_whole(const char* op, const at::Tensor& whole, const at::Tensor& part, int ranks) {
  if (whole.numel() == part.numel() * ranks && whole.scalar_type() == part.scalar_type()) return;
  bad_arguments(op, "the larger tensor must hold one part a rank, of the same element type");
}

std::string name_of(const std::vector<int>& ranks) {
  std::string out;
  for (const int rank : ranks) out += (out.empty() ? "" : ",") + std::to_string(rank);
  return out;
}

}  // namespace

LocalGroup::LocalGroup(std::shared_ptr<LocalWorld> world, const std::vector<int>& ranks, int member)
    : Backend(member, static_cast<int>(ranks.size())),
      world_(std::move(world)),
      room_(world_->room(ranks)),
      name_(name_of(ranks)) {}

LocalGroup::Result LocalGroup::meet(Share& share, Staging& staging, Tensors results,
                                    c10d::OpType type) {
  CollectiveLog& log = world_->log(room_.ranks[static_cast<std::size_t>(rank_)]);
  Logged logged;
  logged.ranks = room_.ranks;
  logged.what = describe(share);
  logged.same_shape = share.same_shape;
  if (const Cause& cause = current_cause(); cause.op != nullptr) logged.op = *cause.op;
  logged.group = name_;
  logged.state = Logged::State::waits;
  const std::uint64_t entry = log.add(std::move(logged));
  try {
    const WaitScope scope;
    world_->meet(room_, rank_, share);
  } catch (...) {
    log.change(entry, Logged::State::failed);
    throw;
  }
  log.change(entry, Logged::State::done);
  staging.write_back();
  return c10::make_intrusive<DoneWork>(rank_, type, std::move(results));
}

std::uint64_t LocalGroup::getSequenceNumberForGroup() {
  return room_.sequence[static_cast<std::size_t>(rank_)];
}

void LocalGroup::abort() { world_->abort("a group was aborted"); }

LocalGroup::Result LocalGroup::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  c10d::AllreduceCoalescedOptions all;
  all.reduceOp = options.reduceOp;
  require_one("all_reduce", tensors.size());
  return allreduce_coalesced(tensors, all);
}

LocalGroup::Result LocalGroup::allreduce_coalesced(Tensors& tensors,
                                                   const c10d::AllreduceCoalescedOptions& options) {
  Share share = reducing("all_reduce", options.reduceOp, tensors);
  Staging staging(share.op);
  share.same_shape = true;
  share.blocks = tensors.size();
  for (const at::Tensor& tensor : tensors) share.sends.push_back(staging.in_place(tensor));
  share.receives = share.sends;
  return meet(share, staging, tensors, c10d::OpType::ALLREDUCE);
}

LocalGroup::Result LocalGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  require_one("reduce", tensors.size());
  Share share = reducing("reduce", options.reduceOp, tensors, static_cast<int>(options.rootRank));
  Staging staging(share.op);
  share.same_shape = true;
  const bool root = share.root == rank_;
  share.sends.push_back(root ? staging.in_place(tensors[0]) : staging.input(tensors[0]));
  if (root) share.receives = share.sends;
  return meet(share, staging, tensors, c10d::OpType::REDUCE);
}

LocalGroup::Result LocalGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  require_one("broadcast", tensors.size());
  Share share = moving("broadcast", tensors, static_cast<int>(options.rootRank));
  Staging staging(share.op);
  share.same_shape = true;
  if (share.root == rank_) {
    share.sends.push_back(staging.input(tensors[0]));
  } else {
    share.receives.push_back(staging.output(tensors[0]));
  }
  return meet(share, staging, tensors, c10d::OpType::BROADCAST);
}

LocalGroup::Result LocalGroup::allgather(Lists& outputs, Tensors& inputs,
                                         const c10d::AllgatherOptions&) {
  require_one("all_gather", inputs.size());
  require_one("all_gather", outputs.size());
  require_count("all_gather", outputs[0].size(), static_cast<std::size_t>(size_));
  Share share = moving("all_gather", inputs);
  Staging staging(share.op);
  share.sends.push_back(staging.input(inputs[0]));
  for (const at::Tensor& tensor : outputs[0]) share.receives.push_back(staging.output(tensor));
  return meet(share, staging, outputs[0], c10d::OpType::ALLGATHER);
}

LocalGroup::Result LocalGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::AllgatherOptions& options) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

LocalGroup::Result LocalGroup::allgather_coalesced(Lists& outputs, Tensors& inputs,
                                                   const c10d::AllgatherOptions&) {
  require_count("all_gather", outputs.size(), static_cast<std::size_t>(size_));
  Share share = moving("all_gather", inputs);
  Staging staging(share.op);
  share.blocks = inputs.size();
  Tensors results;
  for (const at::Tensor& tensor : inputs) share.sends.push_back(staging.input(tensor));
  for (const Tensors& list : outputs) {
    require_count(share.op, list.size(), inputs.size());
    for (const at::Tensor& tensor : list) share.receives.push_back(staging.output(tensor));
    results.insert(results.end(), list.begin(), list.end());
  }
  return meet(share, staging, std::move(results), c10d::OpType::ALLGATHER_COALESCED);
}

LocalGroup::Result LocalGroup::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                               const c10d::AllgatherOptions&) {
  require_count("all_gather", outputs.size(), inputs.size());
  Share share = moving("all_gather", inputs);
  Staging staging(share.op);
  share.same_shape = true;
  share.blocks = inputs.size();
  std::vector<Block> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_whole(share.op, outputs[i], inputs[i], size_);
    share.sends.push_back(staging.input(inputs[i]));
    append_parts(parts, staging.output(outputs[i]), size_);
  }
  share.receives = by_rank(parts, static_cast<std::size_t>(size_));
  return meet(share, staging, outputs, c10d::OpType::_ALLGATHER_BASE);
}

LocalGroup::Result LocalGroup::reduce_scatter(Tensors& outputs, Lists& inputs,
                                              const c10d::ReduceScatterOptions& options) {
  require_one("reduce_scatter", outputs.size());
  require_one("reduce_scatter", inputs.size());
  require_count("reduce_scatter", inputs[0].size(), static_cast<std::size_t>(size_));
  Share share = reducing("reduce_scatter", options.reduceOp, inputs[0]);
  Staging staging(share.op);
  share.same_shape = true;
  for (const at::Tensor& tensor : inputs[0]) share.sends.push_back(staging.input(tensor));
  share.receives.push_back(staging.output(outputs[0]));
  return meet(share, staging, outputs, c10d::OpType::REDUCE_SCATTER);
}

LocalGroup::Result LocalGroup::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

LocalGroup::Result LocalGroup::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  require_count("reduce_scatter", outputs.size(), inputs.size());
  Share share = reducing("reduce_scatter", options.reduceOp, inputs);
  Staging staging(share.op);
  share.same_shape = true;
  share.blocks = inputs.size();
  std::vector<Block> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_whole(share.op, inputs[i], outputs[i], size_);
    append_parts(parts, staging.input(inputs[i]), size_);
    share.receives.push_back(staging.output(outputs[i]));
  }
  share.sends = by_rank(parts, static_cast<std::size_t>(size_));
  return meet(share, staging, outputs, c10d::OpType::_REDUCE_SCATTER_BASE);
}

LocalGroup::Result LocalGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                        const c10d::AllToAllOptions&) {
  require_count("all_to_all", inputs.size(), static_cast<std::size_t>(size_));
  require_count("all_to_all", outputs.size(), static_cast<std::size_t>(size_));
  Share share = moving("all_to_all", inputs);
  Staging staging(share.op);
  for (const at::Tensor& tensor : inputs) share.sends.push_back(staging.input(tensor));
  for (const at::Tensor& tensor : outputs) share.receives.push_back(staging.output(tensor));
  return meet(share, staging, outputs, c10d::OpType::ALLTOALL);
}

LocalGroup::Result LocalGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                             std::vector<std::int64_t>& output_rows,
                                             std::vector<std::int64_t>& input_rows,
                                             const c10d::AllToAllOptions&) {
  Share share = moving("all_to_all", {input});
  Staging staging(share.op);
  share.sends = cut_rows(share.op, input, staging.input(input), input_rows, size_);
  share.receives = cut_rows(share.op, output, staging.output(output), output_rows, size_);
  return meet(share, staging, {output}, c10d::OpType::ALLTOALL_BASE);
}

LocalGroup::Result LocalGroup::gather(Lists& outputs, Tensors& inputs,
                                      const c10d::GatherOptions& options) {
  require_one("gather", inputs.size());
  Share share = moving("gather", inputs, static_cast<int>(options.rootRank));
  Staging staging(share.op);
  share.sends.push_back(staging.input(inputs[0]));
  if (share.root != rank_) return meet(share, staging, {}, c10d::OpType::GATHER);
  require_one(share.op, outputs.size());
  require_count(share.op, outputs[0].size(), static_cast<std::size_t>(size_));
  for (const at::Tensor& tensor : outputs[0]) share.receives.push_back(staging.output(tensor));
  return meet(share, staging, outputs[0], c10d::OpType::GATHER);
}

LocalGroup::Result LocalGroup::scatter(Tensors& outputs, Lists& inputs,
                                       const c10d::ScatterOptions& options) {
  require_one("scatter", outputs.size());
  Share share = moving("scatter", outputs, static_cast<int>(options.rootRank));
  Staging staging(share.op);
  if (share.root == rank_) {
    require_one(share.op, inputs.size());
    require_count(share.op, inputs[0].size(), static_cast<std::size_t>(size_));
    for (const at::Tensor& tensor : inputs[0]) share.sends.push_back(staging.input(tensor));
  }
  share.receives.push_back(staging.output(outputs[0]));
  return meet(share, staging, outputs, c10d::OpType::SCATTER);
}

LocalGroup::Result LocalGroup::send(Tensors& tensors, int to, int tag) {
  require_one("send", tensors.size());
  const at::AutoDispatchBelowADInplaceOrView guard;
  world_->send(room_, rank_, to, tag, tensors[0].clone(at::MemoryFormat::Contiguous));
  return c10::make_intrusive<DoneWork>(rank_, c10d::OpType::SEND, tensors);
}

LocalGroup::Result LocalGroup::recv(Tensors& tensors, int from, int tag) {
  require_one("recv", tensors.size());
  return c10::make_intrusive<ReceiveWork>(world_, room_, rank_, from, tag, tensors[0]);
}

LocalGroup::Result LocalGroup::recvAnysource(Tensors& tensors, int tag) {
  return recv(tensors, /*from=*/-1, tag);
}

LocalGroup::Result LocalGroup::barrier(const c10d::BarrierOptions&) {
  Share share = moving("barrier", {});
  Staging staging(share.op);
  return meet(share, staging, {}, c10d::OpType::BARRIER);
}

void LocalGroup::monitoredBarrier(const c10d::BarrierOptions& options, bool) { barrier(options); }

c10::intrusive_ptr<c10d::ProcessGroup> make_local_group(const std::shared_ptr<LocalWorld>& world,
                                                        const std::vector<int>& ranks, int member,
                                                        const std::string& name) {
  constexpr auto kType = c10d::ProcessGroup::BackendType::CUSTOM;
  auto group = c10::make_intrusive<c10d::ProcessGroup>(member, static_cast<int>(ranks.size()));
  const c10::intrusive_ptr<c10d::Backend> backend =
      c10::make_intrusive<LocalGroup>(world, ranks, member);
  for (const at::DeviceType device : {at::kCPU, at::kCUDA, at::kXPU, at::kMPS, at::kPrivateUse1}) {
    group->setBackend(device, kType, backend);
  }
  group->setDefaultBackend(kType);
  group->setGroupName(name);
  return group;
}

}  // namespace hyper_parallel::torch_layer
