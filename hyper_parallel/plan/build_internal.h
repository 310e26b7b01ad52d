#pragma once

#include "hyper_parallel/plan/redistribute.h"

namespace hyper_parallel::plan {

/// Append the cheapest steps between two layouts on one mesh.
void add_steps(const Layout* from, const Layout* to, Plan& plan);

/// The same without a search: reduce, gather, cut. P(avg) must be P(sum) already, and what `to` has
/// partial must be so in `from`.
void add_plain_steps(const Layout* from, const Layout* to, Plan& plan);

/// The same between meshes of the same ranks. Sets `plan.lower_bound` too.
void add_steps_across_meshes(const Layout* from, const Layout* to, Plan& plan);

/// Set `bytes` and `seconds` of the plan from its steps.
void add_totals(Plan& plan);

/// See Plan::lower_bound; 0 across meshes.
double lower_bound(const Layout* from, const Layout* to, const TensorMeta& meta,
                   const Topology& topology);

}  // namespace hyper_parallel::plan
