#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hyper_parallel/explain/comm_row.h"

namespace hyper_parallel::explain {

/// The collectives of one phase, kind and axes; or of all, with phase "total".
struct Sum {
  std::string phase;
  std::string kind;
  std::string axes;  // "dp tp"
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};

/// Forward first, each in order of first use; the total last.
std::vector<Sum> sums(std::span<const CommRow> rows);

/// What a collective moves: `f32[4, 8] S(0) R -> R R`.
std::string moved(const CommRow& row);

/// What a collective is for: `for aten::linear: input, axis tp`, `for a gradient`.
std::string cause(const CommRow& row);

}  // namespace hyper_parallel::explain
