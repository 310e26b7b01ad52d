#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hyper_parallel/torch/ranks/local/world.h"

namespace hyper_parallel::torch_layer {

/// Throw UsageError for the arguments of collective `op`.
[[noreturn]] void bad_arguments(const char* op, const std::string& what);

/// A share of a collective that copies blocks from sources to destinations. `root`: see `Share`.
Share moving(const char* op, const std::vector<at::Tensor>& tensors, int root = -1);

/// A share of a collective that combines the blocks of all sources, in rank order.
/// Throws UnsupportedError: the reduction is not defined on an element type of `tensors`.
Share reducing(const char* op, const c10d::ReduceOp& reduction,
               const std::vector<at::Tensor>& tensors, int root = -1);

/// Gives tensors a dense form on the CPU, and writes results back where that is a copy.
/// The blocks live as long as this object and the tensors.
class Staging {
 public:
  explicit Staging(const char* op) : op_(op) {}

  Block input(const at::Tensor& tensor) { return block(dense(tensor, /*fill=*/true)); }
  Block output(const at::Tensor& tensor) { return written(tensor, /*fill=*/false); }

  /// For a tensor that is read and written.
  Block in_place(const at::Tensor& tensor) { return written(tensor, /*fill=*/true); }

  void write_back();

 private:
  at::Tensor dense(const at::Tensor& tensor, bool fill);
  Block written(const at::Tensor& tensor, bool fill);
  static Block block(const at::Tensor& tensor);

  const char* op_;
  std::vector<at::Tensor> kept_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;
};

/// Cut `whole` into `parts` equal blocks at the end of `list`.
void append_parts(std::vector<Block>& list, const Block& whole, int parts);

/// From [tensor][rank] to the order of a share, [rank][tensor].
std::vector<Block> by_rank(const std::vector<Block>& list, std::size_t ranks);

/// Cut dim 0 of `tensor`, which `whole` holds, into `rows` a rank; empty: equal parts.
/// Throws UsageError if they do not add up.
std::vector<Block> cut_rows(const char* op, const at::Tensor& tensor, const Block& whole,
                            const std::vector<std::int64_t>& rows, int ranks);

}  // namespace hyper_parallel::torch_layer
