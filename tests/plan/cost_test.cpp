// Bytes and seconds of single collectives, and the links that mesh axes run over.

#include "hyper_parallel/plan/cost.h"

#include <doctest/doctest.h>

#include "hyper_parallel/core/text.h"
#include "tests/core/support.h"

namespace hyper_parallel::test {
namespace {

using plan::StepKind;

bool between(const char* topology, const char* mesh, const std::vector<int>& axes) {
  const plan::Topology& t = plan::topology(topology);
  return &plan::link(t, parse_mesh(mesh), axes) == &t.between_hosts;
}

}  // namespace

TEST_SUITE("Cost") {
  TEST_CASE("bytes of one rank") {
    CHECK(plan::all_gather_bytes(4, 100) == 300);
    CHECK(plan::reduce_scatter_bytes(4, 100) == 300);
    CHECK(plan::all_reduce_bytes(4, 400) == 600);  // a reduce-scatter and an all-gather of 100
    CHECK(plan::broadcast_bytes(4, 400) == 400);
    CHECK(plan::all_to_all_bytes(4, 400) == 300);
    for (int ranks : {2, 3, 8}) {
      const double part = 120.0 / ranks;
      CHECK(plan::all_reduce_bytes(ranks, 120) ==
            doctest::Approx(plan::reduce_scatter_bytes(ranks, part) +
                            plan::all_gather_bytes(ranks, part)));
    }
  }

  TEST_CASE("one rank moves nothing") {
    CHECK(plan::all_gather_bytes(1, 100) == 0);
    CHECK(plan::reduce_scatter_bytes(1, 100) == 0);
    CHECK(plan::all_reduce_bytes(1, 100) == 0);
    CHECK(plan::all_to_all_bytes(1, 100) == 0);
  }

  TEST_CASE("seconds are launch, hops and bytes") {
    const plan::Topology t = {.name = "test",
                              .inside_host = {1e-6, 1e9},
                              .between_hosts = {5e-6, 1e8},
                              .launch_seconds = 1e-5,
                              .local_launch_seconds = 1e-7};
    const auto seconds = [&](StepKind kind, int ranks, const plan::Link& link) {
      return plan::step_seconds(kind, ranks, 1e6, link, t);
    };
    CHECK(seconds(StepKind::all_gather, 8, t.inside_host) == doctest::Approx(1e-5 + 3e-6 + 1e-3));
    CHECK(seconds(StepKind::all_gather, 5, t.inside_host) == doctest::Approx(1e-5 + 3e-6 + 1e-3));
    CHECK(seconds(StepKind::all_reduce, 8, t.inside_host) == doctest::Approx(1e-5 + 6e-6 + 1e-3));
    CHECK(seconds(StepKind::all_gather, 8, t.between_hosts) ==
          doctest::Approx(1e-5 + 15e-6 + 1e-2));
  }

  TEST_CASE("an axis runs between hosts if one of its groups does") {
    // Eight ranks on a host.
    CHECK_FALSE(between("h100", "dp=4 tp=8", {1}));
    CHECK(between("h100", "dp=4 tp=8", {0}));
    CHECK(between("h100", "dp=4 tp=8", {0, 1}));
    CHECK(between("h100", "x=16", {0}));
    CHECK_FALSE(between("h100", "x=8", {0}));
    CHECK(between("h100", "a=4 b=3", {1}));  // ranks 6, 7, 8
    CHECK_FALSE(between("uniform", "dp=4 tp=8", {0}));
    CHECK(between("h100", "x=2 ranks=[0, 8]", {0}));
    CHECK_FALSE(between("h100", "x=2 ranks=[8, 15]", {0}));
  }

  TEST_CASE("topologies by name, the default first") {
    CHECK(&plan::default_topology() == &plan::topologies().front());
    for (const plan::Topology& t : plan::topologies()) {
      CHECK(&plan::topology(t.name) == &t);
      CHECK(t.inside_host.bytes_per_second >= t.between_hosts.bytes_per_second);
      CHECK(t.inside_host.latency_seconds <= t.between_hosts.latency_seconds);
    }
    CHECK(starts(failure([] { plan::topology("tokamak"); }),
                 "UsageError [HP-R001] no topology named \"tokamak\"\n  topologies  uniform"));
  }
}

}  // namespace hyper_parallel::test
