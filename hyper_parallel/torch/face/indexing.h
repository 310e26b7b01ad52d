#pragma once

#include <ATen/TensorIndexing.h>
#include <ATen/core/Tensor.h>

/// `t[index] = value` on DTensors.
namespace hyper_parallel {

/// What Python writes in the brackets: numbers, slices, `...`, None, masks and tensors of indices.
using IndexItems = at::ArrayRef<at::indexing::TensorIndex>;

/// Write `value` where `index` points, as Python's `t[index] = value` does on one device. `value`
/// is a DTensor in any layout, or a plain tensor that is the same on every rank; it is expanded
/// and converted to the type of `t`.
///
///     assign(t, {Slice(1, 4), 2}, value)
///
/// Cost: where the index takes a part of a split dim, one whole `index` of coordinates a rank, and
/// `value` whole; else what torch's copy through a view costs.
void assign(const at::Tensor& t, IndexItems index, const at::Tensor& value);

namespace torch_layer {

/// True where torch's own way cannot write into the parts of `t`: a number or a slice takes a part
/// of a split dim, where torch would write through a view; or a mask meets values (`value_ndim`
/// not 0) or other items, and each rank has to know which of its ones are its own.
bool needs_coordinates(const at::Tensor& t, IndexItems index, std::int64_t value_ndim);

/// Write by the coordinates of the elements that `index` picks: each rank those that it holds.
void assign_by_coordinates(const at::Tensor& t, IndexItems index, const at::Tensor& value);

}  // namespace torch_layer
}  // namespace hyper_parallel
