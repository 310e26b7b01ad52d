// The list of op families. A new file of rows is added here and in families.h.

#include "hyper_parallel/rules/families/families.h"

#include <array>

namespace hyper_parallel::rules {

std::span<const Family> families() {
  static const std::array kFamilies = {
      attention_family(),  convolution_family(), counting_family(),    embedding_family(),
      factory_family(),    host_family(),        index_write_family(), indexing_family(),
      join_family(),       linalg_family(),      loss_family(),        matmul_family(),
      optimizer_family(),  other_family(),       places_family(),      pointwise_family(),
      pooling_family(),    random_family(),      recurrent_family(),   reduction_family(),
      reorder_family(),    scan_family(),        slice_family(),       softmax_norm_family(),
      statistics_family(), stretch_family(),     view_family(),
  };
  return kFamilies;
}

}  // namespace hyper_parallel::rules
