#include "hyper_parallel/torch/ranks/local/share.h"

#include <algorithm>
#include <cstring>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>

#include "hyper_parallel/torch/ranks/local/reduce.h"

namespace hyper_parallel::torch_layer {
namespace {

using Shares = std::vector<Share*>;

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
               " elements, member " + std::to_string(d) + " expects " + std::to_string(to[i].count);
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

}  // namespace

void bad_arguments(const char* op, const std::string& what) {
  throw UsageError(Message("HP-C008", std::string(op) + ": " + what));
}

Share moving(const char* op, const std::vector<at::Tensor>& tensors, int root) {
  Share share;
  share.op = op;
  share.root = root;
  share.tensors = tensors;
  share.check = check_blocks;
  share.work = copy_blocks;
  return share;
}

Share reducing(const char* op, const c10d::ReduceOp& reduction,
               const std::vector<at::Tensor>& tensors, int root) {
  Share share = moving(op, tensors, root);
  share.reduce = reduction.op_;
  share.work = reduce_blocks;
  for (const at::Tensor& tensor : tensors) check_reduction(op, reduction.op_, tensor.scalar_type());
  return share;
}

at::Tensor Staging::dense(const at::Tensor& tensor, bool fill) {
  if (tensor.layout() != at::kStrided) bad_arguments(op_, "needs dense tensors");
  if (tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) {
    return tensor;
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  at::Tensor copy =
      at::empty_like(tensor, tensor.options().device(at::kCPU), at::MemoryFormat::Contiguous);
  if (fill) copy.copy_(tensor);
  kept_.push_back(copy);
  return copy;
}

Block Staging::written(const at::Tensor& tensor, bool fill) {
  at::Tensor copy = dense(tensor, fill);
  if (!copy.is_same(tensor)) copies_.emplace_back(tensor, copy);
  return block(copy);
}

Block Staging::block(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.numel(), tensor.scalar_type()};
}

void Staging::write_back() {
  const at::AutoDispatchBelowADInplaceOrView guard;
  for (auto& [tensor, copy] : copies_) tensor.copy_(copy);
}

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

}  // namespace hyper_parallel::torch_layer
