#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "hyper_parallel/plan/redistribute.h"

/// A plan by text, for the command line and for other programs.
namespace hyper_parallel::explain {

/// Plan a redistribution that is described in text.
///
///     source    f32[4096, 1024] on dp=2 tp=4: S(0) R
///     target    R S(1), or dp=2 tp=4: R S(1)
///
/// Throws UsageError: HP-T001 other text, and what `plan::redistribute` throws.
std::shared_ptr<const plan::Plan> read_plan(
    std::string_view source, std::string_view target,
    const plan::Topology& topology = plan::default_topology());

/// Each step with the layout that it gives, its bytes and its time; then the total beside the
/// lower bound.
///
///     f32[4096, 1024] on dp=2 tp=4: S(0) R -> R S(1)
///     all_gather dim 0 over dp, 2.0 MiB   R R    30.7 us
///     cut dim 1 over tp, local            R S(1)  1.0 us
///     total ...
std::string plan_text(const plan::Plan& plan);

/// The same as JSON: tensor, source, target, topology, steps, bytes, lower_bound_bytes, seconds,
/// note.
std::string plan_json(const plan::Plan& plan);

}  // namespace hyper_parallel::explain
