// Internal: one function for each source file of rows.
#pragma once

#include "hyper_parallel/rules/build/make.h"

namespace hyper_parallel::rules {

Family attention_family();
Family convolution_family();
Family counting_family();
Family embedding_family();
Family factory_family();
Family host_family();
Family index_write_family();
Family indexing_family();
Family join_family();
Family linalg_family();
Family loss_family();
Family matmul_family();
Family optimizer_family();
Family other_family();
Family places_family();
Family pointwise_family();
Family pooling_family();
Family random_family();
Family recurrent_family();
Family reduction_family();
Family reorder_family();
Family scan_family();
Family slice_family();
Family softmax_norm_family();
Family statistics_family();
Family stretch_family();
Family view_family();

}  // namespace hyper_parallel::rules
