#include "hyper_parallel/plan/topology.h"

#include <array>

#include "hyper_parallel/core/error.h"

namespace hyper_parallel::plan {
namespace {

constexpr Topology kTopologies[] = {
    // Source: torch 2.13.0, torch/distributed/tensor/_collective_utils.py (MeshTopoInfo): 87.7
    // GB/s,
    // 0.6 us a hop, 6.6 us base; read 2025-11.
    {.name = "uniform",
     .ranks_per_host = 0,
     .inside_host = {0.6e-6, 87.7e9},
     .between_hosts = {0.6e-6, 87.7e9},
     .launch_seconds = 6.6e-6,
     .local_launch_seconds = 1e-6},
    // The same source with its factor 0.22 and 2.7 us between hosts.
    {.name = "torch",
     .ranks_per_host = 8,
     .inside_host = {0.6e-6, 87.7e9},
     .between_hosts = {2.7e-6, 0.22 * 87.7e9},
     .launch_seconds = 6.6e-6,
     .local_launch_seconds = 1e-6},
    // NVLink 3: 600 GB/s in both directions together; HDR InfiniBand: 200 Gb/s a GPU.
    // Source: NVIDIA A100 and DGX A100 data sheets (peaks, not measured here). Latency and launch
    // as in "torch".
    {.name = "a100",
     .ranks_per_host = 8,
     .inside_host = {0.6e-6, 300e9},
     .between_hosts = {2.7e-6, 25e9},
     .launch_seconds = 6.6e-6,
     .local_launch_seconds = 1e-6},
    // NVLink 4: 900 GB/s in both directions together; NDR InfiniBand: 400 Gb/s a GPU.
    // Source: NVIDIA H100 and DGX H100 data sheets (peaks, not measured here). Latency and launch
    // as in "torch".
    {.name = "h100",
     .ranks_per_host = 8,
     .inside_host = {0.6e-6, 450e9},
     .between_hosts = {2.7e-6, 50e9},
     .launch_seconds = 6.6e-6,
     .local_launch_seconds = 1e-6},
};

}  // namespace

std::span<const Topology> topologies() { return kTopologies; }

const Topology& default_topology() { return kTopologies[0]; }

const Topology& topology(std::string_view name) {
  std::vector<std::string> names;
  for (const Topology& t : kTopologies) {
    if (t.name == name) return t;
    names.emplace_back(t.name);
  }
  throw UsageError(Message("HP-R001", "no topology named \"" + std::string(name) + "\"")
                       .fact("topologies", join(names)));
}

const Link& link(const Topology& topology, const Mesh* mesh, const std::vector<int>& axes) {
  if (topology.ranks_per_host == 0) return topology.inside_host;
  // The mesh is row-major: the rank at place p has as its group's first member the rank at the
  // place with the coordinates of `axes` set to 0.
  std::vector<int> strides(static_cast<std::size_t>(mesh->ndim()), 1);
  for (int i = mesh->ndim() - 2; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] =
        strides[static_cast<std::size_t>(i) + 1] * mesh->size(i + 1);
  }
  for (int place = 0; place < mesh->size(); ++place) {
    int first = place;
    for (int axis : axes) {
      const int stride = strides[static_cast<std::size_t>(axis)];
      first -= place / stride % mesh->size(axis) * stride;
    }
    const auto host = [&](int p) {
      return mesh->ranks()[static_cast<std::size_t>(p)] / topology.ranks_per_host;
    };
    if (host(place) != host(first)) return topology.between_hosts;
  }
  return topology.inside_host;
}

}  // namespace hyper_parallel::plan
