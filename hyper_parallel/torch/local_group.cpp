#include "hyper_parallel/torch/local_group.h"

#include <cstring>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "hyper_parallel/torch/local_reduce.h"

namespace hyper_parallel::torch_layer {
namespace {

using Tensors = LocalGroup::Tensors;
using Shares = std::vector<Share*>;

[[noreturn]] void bad_arguments(const char* op, const std::string& what) {
  throw UsageError(Message("HP-C008", std::string(op) + ": " + what));
}

// The blocks that travel from `source` to `destination`, null if none do.
const Block* sent(const Share& source, std::size_t destination) {
  if (source.sends.empty()) return nullptr;
  const bool same = source.sends.size() == source.blocks;
  return source.sends.data() + (same ? 0 : destination * source.blocks);
}

const Block* received(const Share& destination, std::size_t source) {
  if (destination.receives.empty()) return nullptr;
  const bool once = destination.receives.size() == destination.blocks;
  return destination.receives.data() + (once ? 0 : source * destination.blocks);
}

std::optional<std::string> check_blocks(const Shares& shares) {
  for (std::size_t s = 0; s < shares.size(); ++s) {
    for (std::size_t d = 0; d < shares.size(); ++d) {
      const Block* from = sent(*shares[s], d);
      const Block* to = received(*shares[d], s);
      for (std::size_t i = 0; from != nullptr && to != nullptr && i < shares[s]->blocks; ++i) {
        if (from[i].count == to[i].count && from[i].dtype == to[i].dtype) continue;
        return "member " + std::to_string(s) + " sends " + std::to_string(from[i].count) +
               " elements, member " + std::to_string(d) + " expects " +
               std::to_string(to[i].count);
      }
    }
  }
  return std::nullopt;
}

void copy_blocks(const Shares& shares, int worker, int workers) {
  for (std::size_t s = 0; s < shares.size(); ++s) {
    for (std::size_t d = 0; d < shares.size(); ++d) {
      if (static_cast<int>((s + d) % static_cast<std::size_t>(workers)) != worker) continue;
      const Block* from = sent(*shares[s], d);
      const Block* to = received(*shares[d], s);
      for (std::size_t i = 0; from != nullptr && to != nullptr && i < shares[s]->blocks; ++i) {
        if (from[i].count > 0 && from[i].data != to[i].data) {
          std::memmove(to[i].data, from[i].data, from[i].bytes());
        }
      }
    }
  }
}

// Workers take a range of each block where every destination gets the same, else destinations.
void reduce_blocks(const Shares& shares, int worker, int workers) {
  const Share& first = *shares.front();
  const bool same = first.sends.size() == first.blocks;
  std::vector<Block> inputs(shares.size()), outputs;
  for (std::size_t d = 0; d < (same ? 1 : shares.size()); ++d) {
    if (!same && static_cast<int>(d % static_cast<std::size_t>(workers)) != worker) continue;
    for (std::size_t i = 0; i < first.blocks; ++i) {
      for (std::size_t s = 0; s < shares.size(); ++s) inputs[s] = sent(*shares[s], d)[i];
      outputs.clear();
      for (std::size_t to = same ? 0 : d; to < (same ? shares.size() : d + 1); ++to) {
        if (const Block* blocks = received(*shares[to], 0)) outputs.push_back(blocks[i]);
      }
      const std::int64_t count = inputs.front().count;
      const std::int64_t part = same ? (count + workers - 1) / workers : count;
      const std::int64_t begin = std::min(count, same ? part * worker : 0);
      const std::int64_t end = std::min(count, begin + part);
      if (begin < end) reduce(*first.reduce, inputs, outputs, begin, end);
    }
  }
}

Share moving(const char* op, const Tensors& tensors, int root = -1) {
  Share share;
  share.op = op;
  share.root = root;
  share.tensors = tensors;
  share.check = check_blocks;
  share.work = copy_blocks;
  return share;
}

Share reducing(const char* op, const c10d::ReduceOp& reduction, const Tensors& tensors,
               int root = -1) {
  Share share = moving(op, tensors, root);
  share.reduce = reduction.op_;
  share.work = reduce_blocks;
  for (const at::Tensor& tensor : tensors) check_reduction(op, reduction.op_, tensor.scalar_type());
  return share;
}

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

}  // namespace

// Gives every tensor a dense form on the CPU and writes results back where that is a copy.
class LocalGroup::Staging {
 public:
  explicit Staging(const char* op) : op_(op) {}

  Block input(const at::Tensor& tensor) { return block(dense(tensor, /*fill=*/true)); }

  Block output(const at::Tensor& tensor) { return written(tensor, /*fill=*/false); }

  /// For a tensor that is read and written.
  Block in_place(const at::Tensor& tensor) { return written(tensor, /*fill=*/true); }

  void write_back() {
    const at::AutoDispatchBelowADInplaceOrView guard;
    for (auto& [tensor, copy] : copies_) tensor.copy_(copy);
  }

 private:
  at::Tensor dense(const at::Tensor& tensor, bool fill) {
    if (tensor.layout() != at::kStrided) bad_arguments(op_, "needs dense tensors");
    if (tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) {
      return tensor;
    }
    const at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor copy = at::empty_like(tensor, tensor.options().device(at::kCPU),
                                     at::MemoryFormat::Contiguous);
    if (fill) copy.copy_(tensor);
    kept_.push_back(copy);
    return copy;
  }

  Block written(const at::Tensor& tensor, bool fill) {
    at::Tensor copy = dense(tensor, fill);
    if (!copy.is_same(tensor)) copies_.emplace_back(tensor, copy);
    return block(copy);
  }

  static Block block(const at::Tensor& tensor) {
    return {static_cast<std::byte*>(tensor.data_ptr()), tensor.numel(), tensor.scalar_type()};
  }

  const char* op_;
  Tensors kept_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;
};

namespace {

void append_parts(std::vector<Block>& list, const Block& whole, int parts) {
  const std::int64_t count = whole.count / parts;
  const std::size_t bytes = whole.bytes() / static_cast<std::size_t>(parts);
  for (int i = 0; i < parts; ++i) {
    list.push_back({whole.data + bytes * static_cast<std::size_t>(i), count, whole.dtype});
  }
}

// From [tensor][rank] to the order of a share, [rank][tensor].
std::vector<Block> by_rank(const std::vector<Block>& list, std::size_t ranks) {
  std::vector<Block> out;
  const std::size_t tensors = list.size() / ranks;
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t t = 0; t < tensors; ++t) out.push_back(list[t * ranks + r]);
  }
  return out;
}

// Cut dim 0 of `tensor` into `rows`; empty means equal parts.
std::vector<Block> cut_rows(const char* op, const at::Tensor& tensor, const Block& whole,
                            const std::vector<std::int64_t>& rows, int ranks) {
  std::vector<Block> out;
  const std::int64_t size = tensor.dim() == 0 ? 1 : tensor.size(0);
  if (rows.empty()) {
    if (size % ranks != 0) bad_arguments(op, "dim 0 does not divide by the number of ranks");
    append_parts(out, whole, ranks);
    return out;
  }
  std::int64_t sum = 0;
  for (const std::int64_t n : rows) sum += n < 0 ? size + 1 : n;
  if (static_cast<int>(rows.size()) != ranks || sum != size) {
    bad_arguments(op, "split sizes must be one a rank and add up to dim 0");
  }
  const std::int64_t row = size == 0 ? 0 : whole.count / size;
  std::byte* data = whole.data;
  for (const std::int64_t n : rows) {
    out.push_back({data, n * row, whole.dtype});
    data += out.back().bytes();
  }
  return out;
}

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

}  // namespace

LocalGroup::LocalGroup(std::shared_ptr<LocalWorld> world, const std::vector<int>& ranks, int member)
    : Backend(member, static_cast<int>(ranks.size())),
      world_(std::move(world)),
      room_(world_->room(ranks)) {}

LocalGroup::Result LocalGroup::meet(Share& share, Staging& staging, Tensors results,
                                    c10d::OpType type) {
  {
    const WaitScope scope;
    world_->meet(room_, rank_, share);
  }
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
