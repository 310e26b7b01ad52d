// Scaled dot-product attention where the query sequence is cut, or the query heads are cut across
// their groups, and keys and values are whole. The op itself runs on the own queries; causal masks,
// whole mask rows and the key head of each own query head need care.

#include <ATen/ops/arange.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/index_select.h>

#include <algorithm>

#include "hyper_parallel/torch/handlers/internal.h"

namespace hyper_parallel::torch_layer::handlers {

namespace {

// Own query heads that start or end inside a group cannot be paired with keys by counting: give
// each its own key and value head.
void pair_heads(HandlerCall& c) {
  const int dim = static_cast<int>(c.sizes("query").size()) - 3;
  if (dim < 0 || !c.boolean("enable_gqa", false)) return;
  const LocalDim heads = c.dim_of("query", dim);
  const std::int64_t keys = c.sizes("key")[static_cast<std::size_t>(dim)];
  if (heads.is_whole() || !c.dim_of("key", dim).is_whole() || heads.size == keys) return;
  const at::Tensor key = c.tensor("key");
  const at::Tensor own = global_indices(heads, key.device()).floor_divide(heads.size / keys);
  c.set("key", at::index_select(key, dim, own));
  c.set("value", at::index_select(c.tensor("value"), dim, own));
  c.set("enable_gqa", false);
}

// query [*n h l e], key [*n k s e], value [*n k s v] -> [*n h l v]; l or h is cut, s whole.
void sdpa(HandlerCall& c) {
  pair_heads(c);
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

constexpr HandlerEntry kAttention[] = {
    {"sdpa", sdpa},
};

}  // namespace

std::span<const HandlerEntry> attention_entries() { return kAttention; }

}  // namespace hyper_parallel::torch_layer::handlers
