// The list of op families. A new file of rows is added here and in families.h.

#include "hyper_parallel/rules/families.h"

#include <array>

namespace hyper_parallel::rules {

std::span<const Family> families() {
  static const std::array kFamilies = {
      attention_family(), embedding_family(),    loss_family(),   matmul_family(),
      pointwise_family(), reduction_family(),    reorder_family(), softmax_norm_family(),
      view_family(),
  };
  return kFamilies;
}

}  // namespace hyper_parallel::rules
