#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hyper_parallel/core/layout.h"

/// The way back from code on local tensors: parts that ranks made become DTensors.
namespace hyper_parallel::torch_layer {

/// The numbers of all ranks of `mesh`, in the order of its rank list; as many on each. One small
/// all-gather, and a wait on the host.
std::vector<std::vector<std::int64_t>> gather_numbers(const std::vector<std::int64_t>& numbers,
                                                      const Mesh* mesh);

/// A plain tensor's part for local code on `mesh`, or a DTensor's own. A plain tensor counts as the
/// same value on every rank.
at::Tensor part_for(const at::Tensor& value, const Mesh* mesh);

/// DTensors of the parts that local code gave, in `layouts`.
///
/// `what` and `names` (of the parts) stand in errors. `compare_copies`: read the values, too, and
/// compare what ranks hold along axes that are R.
/// Throws UsageError: parts of ranks that do not fit together, or copies that differ.
/// Cost: one all-gather of sizes over the mesh if some layout cuts a dim; one more to compare.
std::vector<at::Tensor> wrap_parts(const std::vector<at::Tensor>& parts,
                                   const std::vector<const Layout*>& layouts,
                                   const std::string& what, const std::vector<std::string>& names,
                                   bool compare_copies);

/// Throws UsageError if `part` requires grad and `layout` is P(max), P(min) or P(prod).
void check_gradient_passes(const at::Tensor& part, const Layout* layout, const std::string& what);

}  // namespace hyper_parallel::torch_layer
