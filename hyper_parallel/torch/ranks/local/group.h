#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "hyper_parallel/torch/ranks/local/share.h"

namespace c10d {
class ProcessGroup;
}

namespace hyper_parallel::torch_layer {

/// Collectives between threads of one process: one object a rank and list of ranks.
///
/// Calls return when the result is there. Reductions run in rank order, so all ranks get equal
/// bits. Tensors that are not dense or not on the CPU go through a copy on the CPU. Sizes may be
/// uneven in the list forms and in all-to-all.
///
/// Throws CommError as `LocalWorld::meet`, UsageError for arguments that do not fit together,
/// UnsupportedError for a reduction that the element type lacks.
class LocalGroup final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<std::vector<at::Tensor>>;
  using Result = c10::intrusive_ptr<c10d::Work>;

  /// `member` is the place of this rank in `ranks`.
  LocalGroup(std::shared_ptr<LocalWorld> world, const std::vector<int>& ranks, int member);

  const std::string getBackendName() const override { return "local"; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override;
  void abort() override;

  Result allreduce(Tensors& tensors, const c10d::AllreduceOptions& options = {}) override;
  Result allreduce_coalesced(Tensors& tensors,
                             const c10d::AllreduceCoalescedOptions& options = {}) override;
  Result reduce(Tensors& tensors, const c10d::ReduceOptions& options = {}) override;
  Result broadcast(Tensors& tensors, const c10d::BroadcastOptions& options = {}) override;

  Result allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& = {}) override;
  Result _allgather_base(at::Tensor& output, at::Tensor& input,
                         const c10d::AllgatherOptions& = {}) override;
  Result allgather_coalesced(Lists& outputs, Tensors& inputs,
                             const c10d::AllgatherOptions& = {}) override;
  Result allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                         const c10d::AllgatherOptions& = {}) override;

  Result reduce_scatter(Tensors& outputs, Lists& inputs,
                        const c10d::ReduceScatterOptions& options = {}) override;
  Result _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                              const c10d::ReduceScatterOptions& options = {}) override;
  Result reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                         const c10d::ReduceScatterOptions& options = {}) override;

  Result alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& = {}) override;
  Result alltoall_base(at::Tensor& output, at::Tensor& input,
                       std::vector<std::int64_t>& output_rows,
                       std::vector<std::int64_t>& input_rows,
                       const c10d::AllToAllOptions& = {}) override;

  Result gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options = {}) override;
  Result scatter(Tensors& outputs, Lists& inputs,
                 const c10d::ScatterOptions& options = {}) override;

  /// Copies the tensor and returns; `recv` and `recvAnysource` wait in `Work::wait`.
  Result send(Tensors& tensors, int to, int tag) override;
  Result recv(Tensors& tensors, int from, int tag) override;
  Result recvAnysource(Tensors& tensors, int tag) override;

  Result barrier(const c10d::BarrierOptions& = {}) override;
  void monitoredBarrier(const c10d::BarrierOptions& = {}, bool all = false) override;

 private:
  Result meet(Share& share, Staging& staging, Tensors results, c10d::OpType type);

  std::shared_ptr<LocalWorld> world_;
  LocalWorld::Room& room_;
  const std::string name_;  // in the log
};

/// Make the process group of one rank in `ranks`, with a LocalGroup behind each device type.
/// `name` must be its own for each rank: threads share one registry of groups.
c10::intrusive_ptr<c10d::ProcessGroup> make_local_group(const std::shared_ptr<LocalWorld>& world,
                                                        const std::vector<int>& ranks, int member,
                                                        const std::string& name);

}  // namespace hyper_parallel::torch_layer
