// Internal: how index tensors stand to the dims of what they index. For look-ups and writes.
#pragma once

#include <vector>

#include "hyper_parallel/rules/build/make.h"

namespace hyper_parallel::rules {

/// gather(self, dim, index), and scatter(self, dim, index, src?) the other way round. In dims other
/// than `dim` index i stands for index i of self, so they pass only where the sizes are equal.
struct Along {
  ConcreteRule rule;
  int self = kNoFactor;   // factor of self along dim
  int index = kNoFactor;  // factor of index along dim
};

/// `index`: the number of the operand that holds indices.
Along along_dim(const Call& call, std::size_t index);

/// True if a tensor of this type picks the elements where it is true.
bool is_mask(DType dtype);

/// self[i, j, ...] with index tensors, absent ones for ":".
struct Indexed {
  ConcreteRule rule;
  std::vector<int> self;    // factor of each dim of self
  std::vector<int> index;   // factors of the index tensors
  std::vector<char> taken;  // beside: an index tensor stands there
  TensorMap result;         // of the look-up
  std::size_t count = 0;    // index tensors that are present
  bool masks = false;
};

/// `indices`: the number of index tensors, which follow self.
Indexed index_dims(const Call& call, std::size_t indices);

/// `map` broadcasts to `result`.
void put_last_dims(TensorMap& map, const TensorMap& result);

/// Operands of the ops that look up or write where a mask is true: self, mask, indices ..., and
/// values if something is written. The mask broadcasts to what the indices pick.
Indexed index_masked(const Call& call, bool writes);

}  // namespace hyper_parallel::rules
