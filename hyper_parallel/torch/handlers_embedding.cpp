// Look-ups in a table whose rows are cut.

#include <ATen/ops/embedding.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/handlers_internal.h"

namespace hyper_parallel::torch_layer::handlers {

void embedding(HandlerCall& c) {
  const LocalDim rows = c.dim_of("weight", 0);
  if (rows.is_whole()) return c.call();
  if (c.boolean("scale_grad_by_freq", false)) {
    throw UnsupportedError(
        Message("HP-D030", "aten::embedding: scale_grad_by_freq with a split vocabulary")
            .fact("weight", c.layout("weight")->to_string())
            .hint("split the embedding dim instead, S(1), or leave scale_grad_by_freq out"));
  }
  const at::Tensor weight = c.tensor("weight");
  const LocalIndex ids = to_local_index(c.tensor("indices"), rows);
  std::int64_t padding = -1;
  if (const std::int64_t row = c.integer("padding_idx", -1); row >= 0) {
    std::int64_t start = 0;
    for (const Interval& i : rows.intervals) {
      if (row >= i.begin && row < i.end) padding = start + row - i.begin;
      start += i.size();
    }
  }
  at::Tensor out = at::embedding(nonempty(weight, 0), ids.position, padding, false,
                                 c.boolean("sparse", false) && weight.size(0) != 0);
  c.finish({out.masked_fill_(ids.mine.logical_not().unsqueeze_(-1), 0)});
}

}  // namespace hyper_parallel::torch_layer::handlers
