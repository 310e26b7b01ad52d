#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/torch/random/by_index.h"

/// Random numbers of a global tensor, this rank's part of them.
namespace hyper_parallel::torch_layer::draws {

/// Of what the numbers are: a tensor of `sizes`, `strides` (of the whole, as one device has it) and
/// element type in `layout`, which has no P.
struct Place {
  const Layout* layout;
  Shape sizes;
  std::vector<std::int64_t> strides;  // empty: row-major
  at::TensorOptions options;
};

/// Strides of `t` as one device has them where they say where each element lies, else none.
std::vector<std::int64_t> dense_strides(const at::Tensor& t);

/// True where a draw of `count` numbers is made by index, see `Settings::random`.
bool by_index(std::int64_t count);

/// The numbers of `draw`: by index, or this rank's part of what `exact` makes of the whole tensor.
/// The stream of the rank advances equally on all ranks.
at::Tensor noise(const Place& place, const Distribution& draw,
                 c10::function_ref<void(at::Tensor&)> exact);

/// 1 with probability `keep`, else 0; exact: Tensor.bernoulli_(keep).
at::Tensor coins(const Place& place, double keep);

}  // namespace hyper_parallel::torch_layer::draws
