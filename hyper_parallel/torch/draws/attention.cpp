// Attention with dropout of its weights, by its parts: own batches, heads and rows of queries,
// whole keys. The op draws inside a kernel, and in another order for each kernel; here the numbers
// are those of torch's math kernel, [*n, h, l, s] in row-major order.
// Source: torch 2.13, ATen/native/transformers/attention.cpp, _scaled_dot_product_attention_math.

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include <cmath>

#include "hyper_parallel/torch/dispatch/handler_call.h"
#include "hyper_parallel/torch/draws/draws.h"
#include "hyper_parallel/torch/draws/noise.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer::draws {
namespace {

/// Keys or values [*n, k, s, e] beside queries of h heads: one for each own query head.
at::Tensor beside_queries(const at::Tensor& t, const LocalDim& heads, const LocalDim& own,
                          std::int64_t dim) {
  const std::int64_t group = heads.size / own.size;
  if (group == 1 && t.size(dim) != 1) return t;
  const at::Tensor all = global_indices(heads, t.device()).floor_divide(group);
  const LocalIndex at = to_local_index(all, own);
  return at::index_select(t, dim, at.position);
}

}  // namespace

// query [*n h l e], key [*n k s e], value [*n k s v], mask [l s] or more -> [*n h l v]
void attention(Frame& f, const OpPlan& plan, Operands& operands) {
  const at::Tensor given = operands.tensors[0];
  const auto ndim = static_cast<int>(given.dim());
  const auto dim_of = [&](std::size_t i, int dim) {
    const at::Tensor& t = operands.tensors[i];
    const Layout* layout =
        plan.inputs[i].layout != nullptr ? plan.inputs[i].layout : Layout::replicated(plan.mesh);
    return local_dim(layout, dim, t.size(dim));
  };
  at::Tensor query = local_operand(plan, operands, 0);
  at::Tensor key = local_operand(plan, operands, 1);
  at::Tensor value = local_operand(plan, operands, 2);
  const at::Tensor mask = local_operand(plan, operands, 3);
  const double rate = f.argument(4).toDouble();
  const bool causal = f.argument(5).toBool();
  const c10::IValue& scale_given = f.argument(6);
  const bool grouped = f.argument(7).toBool();
  if (grouped && ndim > 2) {
    const int head = ndim - 3;
    key = beside_queries(key, dim_of(0, head), dim_of(1, head), head);
    value = beside_queries(value, dim_of(0, head), dim_of(2, head), head);
  }
  // Both factors take the root, as torch's kernel does.
  const double scale = scale_given.isNone() ? 1 / std::sqrt(static_cast<double>(query.size(-1)))
                                            : scale_given.toScalar().toDouble();
  const double root = std::sqrt(std::abs(scale));
  at::Tensor weights =
      at::matmul(query * (scale < 0 ? -root : root), (key * root).transpose(-2, -1));
  const LocalDim rows = dim_of(0, ndim - 2);
  const double never = -std::numeric_limits<double>::infinity();
  if (causal) {
    const at::Tensor columns =
        at::arange(key.size(-2), at::TensorOptions(at::kLong).device(key.device()));
    const at::Tensor later = columns.gt(global_indices(rows, key.device()).unsqueeze(-1));
    weights = weights.masked_fill(later, never);
  } else if (mask.defined()) {
    const int dim = static_cast<int>(mask.dim()) - 2;
    at::Tensor own = mask;
    if (dim >= 0 && operands.tensors[3].size(dim) > 1 && dim_of(3, dim).is_whole()) {
      own = local_part(mask, dim, rows);
    }
    weights = own.scalar_type() == at::kBool ? weights.masked_fill(own.logical_not(), never)
                                             : weights + own;
  }
  weights = at::softmax(weights, -1);
  // A row that sees no key has weights of nan; torch gives it zeros.
  if (mask.defined() && mask.scalar_type() == at::kBool) {
    weights = weights.masked_fill(weights.isnan(), 0);
  }
  const c10::IntArrayRef sizes = plan.output_sizes[0];
  Place place{.layout = plan.outputs[0]->reduced(),
              .sizes = {sizes.begin(), sizes.end()},
              .strides = {},
              .options = weights.options()};
  place.sizes.back() = operands.tensors[1].size(-2);
  // The last dim of the result is one of values, that of the weights one of keys.
  std::vector<Split> splits = place.layout->splits();
  std::erase_if(splits, [&](const Split& s) { return s.dim == ndim - 1; });
  place.layout = Layout::get(plan.mesh, splits, {});
  weights = weights * coins(place, 1 - rate).div_(1 - rate);
  leave(f, {wrap(at::matmul(weights, value), plan.outputs[0], sizes)});
}

}  // namespace hyper_parallel::torch_layer::draws
