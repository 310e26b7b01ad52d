#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "hyper_parallel/torch/comm/exchange.h"
#include "hyper_parallel/torch/comm/wire.h"

/// The collectives of local code as exchanges along `group`. Among one rank all are a copy.
/// Results are contiguous and share no memory with what was given.
namespace hyper_parallel::torch_layer {

/// `op` over the ranks. Of sum and avg the transpose is the map itself; others have none.
ExchangePtr all_reduce_exchange(const Group& group, ReduceOp op);

/// The ranks' parts side by side along `dim`; `lengths` has one a rank. `local`: this rank's shape.
/// Transposed: reduce_scatter(sum).
ExchangePtr all_gather_exchange(const Group& group, const Shape& local, int dim,
                                const std::vector<std::int64_t>& lengths);

/// This rank's part along `dim` of the sum or average. `whole`: the shape that all ranks give.
/// Transposed: all_gather (times 1 / n for avg).
ExchangePtr reduce_scatter_exchange(const Group& group, const Shape& whole, int dim,
                                    const std::vector<std::int64_t>& lengths, ReduceOp op);

/// `sent[i]` rows to rank i, `received[i]` rows from it. `local`: this rank's shape.
/// Transposed: the rows go back.
ExchangePtr all_to_all_exchange(const Group& group, const Shape& local,
                                const std::vector<std::int64_t>& sent,
                                const std::vector<std::int64_t>& received);

/// The tensor of the rank at place `source`. Transposed: the sum on that rank, zeros elsewhere.
ExchangePtr broadcast_exchange(const Group& group, int source);

/// `pairs` of places: the tensor of the first goes to the second; where nothing comes are zeros.
/// Transposed: the pairs turned round.
ExchangePtr permute_exchange(const Group& group, const std::vector<std::pair<int, int>>& pairs);

}  // namespace hyper_parallel::torch_layer
