// Plans between two meshes of the same ranks.

#include <algorithm>
#include <optional>
#include <set>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/plan/build_internal.h"

namespace hyper_parallel::plan {
namespace {

/// Both meshes with their axes split until they are the same.
struct Refinement {
  const Mesh* mesh = nullptr;
  std::vector<std::vector<int>> parts_a;  // for each axis of mesh a, those that it consists of
  std::vector<std::vector<int>> parts_b;
};

/// The number of ranks that lie behind one step along each axis, and that of all.
std::vector<int> strides(const Mesh* mesh) {
  std::vector<int> out = {1};
  for (int axis = mesh->ndim() - 1; axis >= 0; --axis) out.push_back(out.back() * mesh->size(axis));
  return out;
}

std::optional<Refinement> refine(const Mesh* a, const Mesh* b) {
  if (a->ranks() != b->ranks()) return std::nullopt;
  std::set<int> ends;  // ascending strides
  for (const Mesh* mesh : {a, b}) {
    for (int stride : strides(mesh)) ends.insert(stride);
  }
  // Axis i of the refined mesh spans from ends[n - 1 - i] to the next end.
  const std::vector<int> list(ends.begin(), ends.end());
  const std::size_t axes = list.size() - 1;
  if (axes == 0) return std::nullopt;
  Refinement out;
  std::vector<int> sizes;
  for (std::size_t i = axes; i-- > 0;) {
    if (list[i + 1] % list[i] != 0) return std::nullopt;
    sizes.push_back(list[i + 1] / list[i]);
  }
  std::vector<std::string> names(axes);
  const auto assign = [&](const Mesh* mesh, std::vector<std::vector<int>>& parts, bool name) {
    int end = mesh->size();
    for (int axis = 0; axis < mesh->ndim(); ++axis) {
      const int begin = end / mesh->size(axis);
      std::vector<int> own;
      for (std::size_t i = 0; i < axes; ++i) {
        const int stride = list[axes - 1 - i];
        if (stride >= begin && stride < end) own.push_back(static_cast<int>(i));
      }
      for (std::size_t k = 0; name && k < own.size(); ++k) {
        const std::string part = own.size() == 1 ? "" : "." + std::to_string(k);
        names[static_cast<std::size_t>(own[k])] = mesh->name(axis) + part;
      }
      parts.push_back(std::move(own));
      end = begin;
    }
  };
  assign(a, out.parts_a, true);
  assign(b, out.parts_b, false);
  // A part may bear the name of another axis ("x.0" beside "x").
  if (std::set<std::string>(names.begin(), names.end()).size() != names.size()) {
    for (std::size_t i = 0; i < axes; ++i) names[i] = "axis" + std::to_string(i);
  }
  out.mesh = Mesh::get(sizes, names, a->ranks());
  return out;
}

/// `layout` on the refined mesh; null if pieces would differ, as chunks of chunks do when sizes
/// are uneven.
const Layout* express(const Layout* layout, const Mesh* mesh,
                      const std::vector<std::vector<int>>& parts, const TensorMeta& meta) {
  std::vector<Split> splits;
  for (Split s : layout->splits()) {
    std::vector<int> axes;
    for (int axis : s.axes) {
      const std::vector<int>& own = parts[static_cast<std::size_t>(axis)];
      axes.insert(axes.end(), own.begin(), own.end());
    }
    s.axes = std::move(axes);
    splits.push_back(std::move(s));
  }
  std::vector<std::optional<ReduceOp>> partials(static_cast<std::size_t>(mesh->ndim()));
  for (int axis = 0; axis < layout->mesh()->ndim(); ++axis) {
    const Placement p = layout->placement(axis);
    if (!p.is_partial()) continue;
    for (int part : parts[static_cast<std::size_t>(axis)])
      partials[static_cast<std::size_t>(part)] = p.op();
  }
  const Layout* out = Layout::get(mesh, std::move(splits), partials);
  for (int rank : mesh->ranks()) {
    const std::vector<int> here = *layout->mesh()->coordinate(rank);
    const std::vector<int> there = *mesh->coordinate(rank);
    for (const Split& s : layout->splits()) {
      const std::int64_t size = meta.sizes[static_cast<std::size_t>(s.dim)];
      if (local_intervals(layout, s.dim, size, here) != local_intervals(out, s.dim, size, there)) {
        return nullptr;
      }
    }
  }
  return out;
}

}  // namespace

void add_steps_across_meshes(const Layout* from, const Layout* to, Plan& plan) {
  std::vector<int> a = from->mesh()->ranks();
  std::vector<int> b = to->mesh()->ranks();
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  if (a != b) {
    throw UnsupportedError(Message("HP-R006", "redistribute: the meshes have different ranks")
                               .fact("tensor", to_string(plan.meta, from))
                               .fact("to", to_string_with_mesh(to))
                               .hint("gather to a plain tensor and distribute it again"));
  }
  if (const auto refined = refine(from->mesh(), to->mesh())) {
    const Layout* source = express(from, refined->mesh, refined->parts_a, plan.meta);
    const Layout* target = express(to, refined->mesh, refined->parts_b, plan.meta);
    if (source != nullptr && target != nullptr) {
      add_steps(source, target, plan);
      plan.lower_bound = lower_bound(source, target, plan.meta, *plan.topology);
      return;
    }
  }
  add_steps(from, Layout::replicated(from->mesh()), plan);
  add_steps(Layout::replicated(to->mesh()), to, plan);
  plan.note = "through R: the pieces on the two meshes do not fit";
}

}  // namespace hyper_parallel::plan
