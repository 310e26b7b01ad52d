#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/rules/window.h"

namespace hyper_parallel::torch_layer::handlers {

/// What one rank needs of a dim that is cut, and what it gives to the others along the axes that
/// cut it. Positions count in its own piece.
struct Halo {
  int dim = 0;
  const Mesh* mesh = nullptr;
  std::vector<int> axes;       // that cut the dim, major to minor
  int me = 0;                  // this rank's place in their group
  bool moves = false;          // some rank of the group lacks a row
  std::int64_t most_rows = 0;  // that one rank of the group fetches or gives

  rules::WindowRows rows;           // global
  Interval piece;                   // of the result, global
  std::int64_t own = 0;             // rows of the own piece
  Interval kept;                    // of these, used here
  std::vector<Interval> gives;      // by rank of the group: own rows for it; none for this rank
  std::vector<std::int64_t> takes;  // rows from it
  std::int64_t before = 0;  // rows of zeros to put around: rows of the block that are outside
  std::int64_t after = 0;
};

/// For dim `dim` of an operand laid out as `operand`, whose result `result` reads it through
/// `window`. The operand has one piece a rank. `padded`: zeros stand for rows of the block that lie
/// outside; else only an empty piece gets them, so that an op has something to run on. Kept for
/// each thread.
std::shared_ptr<const Halo> halo_of(const rules::Window& window, int dim, const Layout* operand,
                                    const Layout* result, bool padded);

/// The rows `halo.rows.inside` with the halo's zeros around. All ranks of the group
/// must call it. Differentiable any number of times: its transpose sends the cotangents of fetched
/// rows back, where they are added.
at::Tensor fetch(const std::shared_ptr<const Halo>& halo, const at::Tensor& local);

}  // namespace hyper_parallel::torch_layer::handlers
