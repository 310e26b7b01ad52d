#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "hyper_parallel/core/mesh.h"

namespace hyper_parallel::torch_layer {

/// Mean and squared deviations over dims that are cut; dims are kept, R over the axes that cut
/// them.
struct Moments {
  at::Tensor shift;    // the mean up to rounding, no gradient
  at::Tensor shifted;  // x - shift: this rank's part
  at::Tensor offset;   // the mean of `shifted`: what rounding left out of `shift`
  at::Tensor squares;  // sum over all ranks of |x - mean|^2, real, not negative

  at::Tensor mean() const;
};

/// In two passes, as stable as on one device: an all-reduce of the sum, then one of the sums of
/// deviations and of their squares. No result depends on `shift`, so that no gradient flows
/// through it: backward there is one all-reduce.
///
/// `x`: no half type. `count`: elements a row over all ranks.
Moments split_moments(const at::Tensor& x, c10::ArrayRef<std::int64_t> dims, double count,
                      const Mesh* mesh, const std::vector<int>& axes);

}  // namespace hyper_parallel::torch_layer
