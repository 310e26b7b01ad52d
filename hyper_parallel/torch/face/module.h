#pragma once

#include <map>
#include <optional>
#include <string>

#include "hyper_parallel/core/layout.h"

namespace torch::nn {
class Module;
}

namespace hyper_parallel {

/// Layouts by parameter name. Names may have wildcards (core/path_pattern.h), the closest counts.
using ParameterPlan = std::map<std::string, const Layout*>;

/// Make the parameters of `module` DTensors, in place: those that `plan` names as it says, the
/// others replicated over `mesh`. Tied parameters stay tied, buffers stay plain. Make optimizers
/// afterwards.
///
///     const Mesh* mesh = Mesh::get({2, 2}, {"dp", "tp"});
///     shard_parameters(*model, mesh, {{"up.weight", Layout::from_names(mesh, {{"tp"}, {}})},
///                                     {"down.weight", Layout::from_names(mesh, {{}, {"tp"}})}});
///
/// With `source_rank` the values of that rank count: they are broadcast over the mesh. Without,
/// every rank is trusted to hold the same ones.
///
/// Replaces what torch's own layers hold. A layer of another kind that holds a parameter itself
/// must make it a DTensor where it registers it (`distribute_tensor`); its layout may then be
/// changed here.
///
/// Throws UsageError, before anything has changed: a key that matches nothing (near names are
/// listed), two keys equally close, tied parameters with two layouts, a layout on another mesh or
/// with a dim out of range, a plain parameter in a layer of an unknown kind.
void shard_parameters(torch::nn::Module& module, const Mesh* mesh, const ParameterPlan& plan = {},
                      std::optional<int> source_rank = 0);

}  // namespace hyper_parallel
