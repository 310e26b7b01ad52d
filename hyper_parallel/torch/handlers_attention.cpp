// Scaled dot-product attention where the query sequence is cut and keys and values are whole. The
// op itself runs on the own queries; only causal masks and whole mask rows need care.

#include <ATen/ops/arange.h>

#include <algorithm>

#include "hyper_parallel/torch/handlers_internal.h"

namespace hyper_parallel::torch_layer::handlers {

void sdpa(HandlerCall& c) {
  const int row_dim = static_cast<int>(c.sizes("query").size()) - 2;
  const LocalDim rows = c.dim_of("query", row_dim);
  if (rows.is_whole()) return c.call();
  if (c.find("attn_mask") != nullptr) {
    const Shape& sizes = c.sizes("attn_mask");
    const int dim = static_cast<int>(sizes.size()) - 2;
    if (dim >= 0 && sizes[static_cast<std::size_t>(dim)] == rows.size && rows.size > 1 &&
        c.dim_of("attn_mask", dim).is_whole()) {
      c.set("attn_mask", local_part(c.tensor("attn_mask"), dim, rows));
    }
    return c.call();
  }
  if (!c.boolean("is_causal", false)) return c.call();

  // Query i sees keys 0 .. i (torch aligns the mask top left). Keys behind the last own query are
  // cut off. A rank that holds the first rows then has the square case, which needs no mask.
  const Interval& last = rows.intervals.back();
  const bool first = rows.intervals.size() == 1 && last.begin == 0;
  std::int64_t seen = 0;
  for (const Interval& i : rows.intervals) {
    if (i.size() != 0) seen = i.end;
  }
  const at::Tensor key = c.tensor("key");
  const std::int64_t length = std::min(key.size(-2), std::max<std::int64_t>(seen, 1));
  c.set("key", key.narrow(-2, 0, length));
  c.set("value", c.tensor("value").narrow(-2, 0, length));
  if (!first) {
    const auto options = at::TensorOptions(at::kLong).device(key.device());
    c.set("attn_mask",
          global_indices(rows, key.device()).unsqueeze(-1).ge(at::arange(length, options)));
    c.set("is_causal", false);
  }
  c.call();
}

}  // namespace hyper_parallel::torch_layer::handlers
