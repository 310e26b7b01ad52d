#include "hyper_parallel/plan/cost.h"

#include <bit>

namespace hyper_parallel::plan {

double all_gather_bytes(int ranks, double part) { return (ranks - 1) * part; }

double reduce_scatter_bytes(int ranks, double part) { return (ranks - 1) * part; }

double all_reduce_bytes(int ranks, double whole) { return 2.0 * (ranks - 1) / ranks * whole; }

double broadcast_bytes(int ranks, double whole) { return ranks == 1 ? 0 : whole; }

double all_to_all_bytes(int ranks, double whole) { return 1.0 * (ranks - 1) / ranks * whole; }

double step_seconds(StepKind kind, int ranks, double bytes, const Link& link,
                    const Topology& topology) {
  switch (kind) {
    case StepKind::cut:
    case StepKind::scale:
    case StepKind::own:
    case StepKind::pad:
      return topology.local_launch_seconds;
    default:
      break;
  }
  const bool exchange = kind == StepKind::all_to_all || kind == StepKind::permute;
  if (exchange && bytes == 0) return topology.local_launch_seconds;
  int hops = std::bit_width(static_cast<unsigned>(ranks - 1));
  if (kind == StepKind::all_reduce) hops *= 2;
  return topology.launch_seconds + hops * link.latency_seconds + bytes / link.bytes_per_second;
}

}  // namespace hyper_parallel::plan
