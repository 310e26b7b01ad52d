#include "hyper_parallel/torch/ranks/coordinate.h"

#include <unordered_map>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/ranks/rank_state.h"

namespace hyper_parallel::torch_layer {
namespace {

struct Coordinates : std::unordered_map<const Mesh*, std::vector<int>> {};

}  // namespace

const std::vector<int>& my_coordinate(const Mesh* mesh) {
  Coordinates& known = PerRank<Coordinates>::get();
  const auto it = known.find(mesh);
  if (it != known.end()) return it->second;
  RankContext& me = current_rank();
  for (int rank : mesh->ranks()) {
    if (rank >= me.world_size()) {
      throw UsageError(
          Message("HP-M020", "the mesh is larger than the world")
              .fact("mesh", mesh->to_string())
              .fact("world", std::to_string(me.world_size()) + " ranks")
              .hint("start more ranks: run_local(fn, world), torchrun --nproc-per-node"));
    }
  }
  auto here = mesh->coordinate(me.rank());
  if (!here) {
    throw UsageError(Message("HP-M011", "rank " + std::to_string(me.rank()) + " is not in the mesh")
                         .fact("mesh", mesh->to_string()));
  }
  return known.emplace(mesh, std::move(*here)).first->second;
}

}  // namespace hyper_parallel::torch_layer
