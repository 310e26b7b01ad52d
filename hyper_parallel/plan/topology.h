#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "hyper_parallel/core/mesh.h"

namespace hyper_parallel::plan {

/// One kind of link between ranks.
struct Link {
  double latency_seconds = 0;   // one hop
  double bytes_per_second = 0;  // of one rank, in one direction
};

/// What communication costs on some hardware. A mesh axis (or several flattened) runs over the
/// link inside a host if each of its groups lies within one host, else over the link between
/// hosts; rank r lies on host r / ranks_per_host.
struct Topology {
  std::string_view name;
  int ranks_per_host = 0;  // 0: all ranks on one host
  Link inside_host;
  Link between_hosts;
  double launch_seconds = 0;        // to issue one collective
  double local_launch_seconds = 0;  // to issue one local operation
};

/// The known tables, the default first.
std::span<const Topology> topologies();

/// "uniform": all ranks on one host. Then cost differs from bytes only by the count of steps.
const Topology& default_topology();

/// Throws UsageError that lists the names.
const Topology& topology(std::string_view name);

/// The link that the groups of `axes` of `mesh` run over.
const Link& link(const Topology& topology, const Mesh* mesh, const std::vector<int>& axes);

}  // namespace hyper_parallel::plan
