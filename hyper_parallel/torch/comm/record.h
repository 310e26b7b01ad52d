#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hyper_parallel/core/mesh.h"
#include "hyper_parallel/core/tensor_meta.h"

namespace hyper_parallel::torch_layer {

/// One collective that this rank took part in.
struct CommRow {
  std::string kind;               // "all_reduce", "all_gather", ...
  std::vector<std::string> axes;  // mesh axes of the group
  int ranks = 1;                  // its size
  double bytes = 0;               // sent or received by this rank
  bool backward = false;
  std::string op;      // the op that asked, "" outside of ops
  std::string reason;  // argument and cause
  TensorMeta meta;     // global shape of the tensor
  std::string from;    // layouts before and after
  std::string to;
  int joined = 0;  // rows of one number, if not 0, are one collective
};

/// Add a collective that is no step of a plan to the record of this rank, if there is one.
/// `local`: what this rank gives; `bytes`: what it sends.
void note_collective(std::string_view kind, const Mesh* mesh, const std::vector<int>& axes,
                     const TensorMeta& local, double bytes);

/// Record the collectives of the calling rank from now on. Records do not nest: starting again
/// starts anew.
void start_record();

/// End the record and return it; empty if none was started.
std::vector<CommRow> stop_record();

}  // namespace hyper_parallel::torch_layer
