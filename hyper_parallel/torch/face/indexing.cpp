#include "hyper_parallel/torch/face/indexing.h"

#include <ATen/core/List.h>
#include <ATen/ops/arange.h>

#include <algorithm>

#include "hyper_parallel/torch/face/api.h"
#include "hyper_parallel/torch/tensor/dtensor.h"

namespace hyper_parallel {
namespace {

using at::indexing::TensorIndex;

bool is_mask(const TensorIndex& item) {
  if (!item.is_tensor()) return false;
  const at::ScalarType type = item.tensor().scalar_type();
  return type == at::kBool || type == at::kByte;
}

// The dims of the tensor that an item stands for.
std::int64_t dims_taken(const TensorIndex& item) {
  if (item.is_none() || item.is_ellipsis() || item.is_boolean()) return 0;
  return is_mask(item) ? item.tensor().dim() : 1;
}

// True for a slice that may leave something out.
bool is_part(const TensorIndex& item) {
  if (!item.is_slice()) return false;
  const at::indexing::Slice& slice = item.slice();
  return slice.start() != 0 || slice.stop() != at::indexing::INDEX_MAX || slice.step() != 1;
}

// Indices count as the same on every rank.
std::vector<TensorIndex> plain(IndexItems index) {
  std::vector<TensorIndex> out(index.begin(), index.end());
  for (TensorIndex& item : out) {
    if (item.is_tensor() && torch_layer::is_dtensor(item.tensor())) {
      item = TensorIndex(full_tensor(item.tensor()).detach());
    }
  }
  return out;
}

}  // namespace

bool torch_layer::needs_coordinates(const at::Tensor& t, IndexItems index,
                                    std::int64_t value_ndim) {
  const Layout* layout = layout_of(t);
  if (layout->splits().empty()) return false;
  std::int64_t used = 0;
  for (const TensorIndex& item : index) used += dims_taken(item);
  std::int64_t dim = 0;
  for (const TensorIndex& item : index) {
    if (item.is_ellipsis()) {
      dim += t.dim() - used;
      continue;
    }
    const bool picks = item.is_integer() || is_part(item);
    if (picks && layout->split(static_cast<int>(dim)) != nullptr) return true;
    if (is_mask(item) && (index.size() > 1 || value_ndim > 0)) return true;
    dim += dims_taken(item);
  }
  return false;
}

void torch_layer::assign_by_coordinates(const at::Tensor& t, IndexItems index,
                                        const at::Tensor& value) {
  const std::vector<TensorIndex> items = plain(index);
  c10::List<std::optional<at::Tensor>> coordinates;
  at::Tensor first;
  for (std::int64_t dim = 0; dim < t.dim(); ++dim) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(t.dim()), 1);
    shape[static_cast<std::size_t>(dim)] = t.size(dim);
    const at::Tensor line = at::arange(t.size(dim), at::TensorOptions(t.device()).dtype(at::kLong));
    const at::Tensor picked = line.view(shape).expand(t.sizes()).index(items);
    if (dim == 0) first = picked;
    coordinates.push_back(picked);
  }
  at::Tensor fitted = value;
  while (fitted.dim() > first.dim() && fitted.size(0) == 1) fitted = fitted.select(0, 0);
  if (fitted.scalar_type() != t.scalar_type()) fitted = fitted.to(t.scalar_type());
  at::Tensor target = t;
  target.index_put_(coordinates, fitted.expand(first.sizes()));
}

void assign(const at::Tensor& t, IndexItems index, const at::Tensor& value) {
  if (torch_layer::needs_coordinates(t, index, value.dim())) {
    torch_layer::assign_by_coordinates(t, index, value);
    return;
  }
  at::Tensor target = t;
  target.index_put_(plain(index), value);
}

}  // namespace hyper_parallel
