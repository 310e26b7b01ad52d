#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/torch/face/module_view.h"

namespace hyper_parallel {

/// New layouts for the tensors of a model, worked out as a whole before anything changes.
class ParameterMoves {
 public:
  /// The layout that the key of this number asks for, for `name` of a tensor.
  using LayoutOf =
      std::function<const Layout*(std::size_t key, const HeldTensor&, const std::string& name)>;

  /// Keys are names of parameters and buffers, or patterns of them (core/path_pattern.h), of which
  /// the closest counts. Parameters that no key names are replicated over `mesh`, or stay as they
  /// are if they are DTensors; buffers that no key names stay as they are.
  ///
  /// Throws UsageError: a key that matches nothing (near names are listed), two keys equally close,
  /// HP-P021 tied parameters with two layouts, HP-P023 a parameter on another mesh, HP-P030 a
  /// layout on another mesh; what the view and `layout_of_key` throw.
  ParameterMoves(std::shared_ptr<ModuleView> view, const Mesh* mesh,
                 const std::vector<std::string>& keys, const LayoutOf& layout_of_key);

  /// Make all of them, and the gradients that they have: one after the other, on all ranks alike.
  /// With `source_rank` the values of that rank count and are broadcast over the mesh.
  void run(std::optional<int> source_rank);

 private:
  struct Move {
    HeldTensor held = {};
    const Layout* layout = nullptr;
  };

  std::shared_ptr<ModuleView> view_;
  std::vector<Move> moves_;
};

/// Layouts by parameter name. Names may have wildcards (core/path_pattern.h), the closest counts.
using ParameterLayouts = std::map<std::string, const Layout*>;

/// Make the parameters of `module` DTensors, in place: those that `layouts` names as it says, the
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
void shard_parameters(torch::nn::Module& module, const Mesh* mesh,
                      const ParameterLayouts& layouts = {}, std::optional<int> source_rank = 0);

}  // namespace hyper_parallel
