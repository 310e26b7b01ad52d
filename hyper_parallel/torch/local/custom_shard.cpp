#include "hyper_parallel/torch/local/custom_shard.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <map>
#include <numeric>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/comm/group_exchanges.h"
#include "hyper_parallel/torch/ranks/ranks.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer {
namespace {

using Numbers = std::vector<std::int64_t>;
using Rows = std::vector<Numbers>;

constexpr std::size_t kMostDims = 8;

std::string code_text(const Shape& shape) { return to_string(shape); }

/// A number of shape and bits (FNV-1a).
std::int64_t mark(const at::Tensor& part) {
  std::uint64_t hash = 14695981039346656037u;
  const auto add = [&](const unsigned char* bytes, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) hash = (hash ^ bytes[i]) * 1099511628211u;
  };
  const at::Tensor plain = part.detach().resolve_conj().resolve_neg().cpu().contiguous();
  const Shape shape(plain.sizes().begin(), plain.sizes().end());
  add(reinterpret_cast<const unsigned char*>(shape.data()), shape.size() * sizeof(shape[0]));
  add(static_cast<const unsigned char*>(plain.const_data_ptr()), plain.nbytes());
  return static_cast<std::int64_t>(hash);
}

/// Where numbers for other ranks lie: on the CPU if a backend takes them there.
at::Device device_for(const std::vector<int>& ranks) {
  const auto group = current_rank().group(ranks);
  for (const at::Device& device : group->getDeviceTypes()) {
    if (device.is_cpu()) return at::kCPU;
  }
  const auto devices = group->getDeviceTypes();
  return devices.empty() ? at::Device(at::kCPU) : devices.front();
}

void check_copies(const std::vector<at::Tensor>& parts, const std::vector<const Layout*>& layouts,
                  const std::string& what, const std::vector<std::string>& names) {
  const Mesh* mesh = layouts[0]->mesh();
  Numbers mine;
  for (const at::Tensor& part : parts) mine.push_back(mark(part));
  const Rows marks = gather_numbers(mine, mesh);
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    std::map<std::vector<int>, std::size_t> first;
    for (std::size_t m = 0; m < marks.size(); ++m) {
      std::vector<int> place = *mesh->coordinate(mesh->ranks()[m]);
      for (int axis = 0; axis < mesh->ndim(); ++axis) {
        if (layouts[i]->placement(axis).is_replicate()) place[static_cast<std::size_t>(axis)] = -1;
      }
      const std::size_t holder = first.try_emplace(std::move(place), m).first->second;
      if (marks[holder][i] == marks[m][i]) continue;
      throw UsageError(Message("HP-F015", what + ": " + names[i] + " should be the same on ranks " +
                                              std::to_string(mesh->ranks()[holder]) + " and " +
                                              std::to_string(mesh->ranks()[m]))
                           .fact("layout", to_string_with_mesh(layouts[i]))
                           .hint("all_reduce() inside, or a layout with Partial() there"));
    }
  }
}

/// The global sizes: sizes of cut dims are summed over the ranks that cut them and have the first
/// rank's coordinates elsewhere.
Shape joined_sizes(const std::vector<Shape>& shapes, const Layout* layout) {
  const Mesh* mesh = layout->mesh();
  Shape whole = shapes[0];
  for (const Split& split : layout->splits()) {
    const auto dim = static_cast<std::size_t>(split.dim);
    if (dim >= whole.size()) continue;
    whole[dim] = 0;
    for (std::size_t m = 0; m < shapes.size(); ++m) {
      const std::vector<int> place = *mesh->coordinate(mesh->ranks()[m]);
      bool counts = dim < shapes[m].size();
      for (int axis = 0; axis < mesh->ndim(); ++axis) {
        const bool cuts = std::find(split.axes.begin(), split.axes.end(), axis) != split.axes.end();
        counts &= cuts || place[static_cast<std::size_t>(axis)] == 0;
      }
      if (counts) whole[dim] += shapes[m][dim];
    }
  }
  return whole;
}

Shape checked_sizes(const std::vector<Shape>& shapes, const Layout* layout, const std::string& what,
                    const std::string& name) {
  const Mesh* mesh = layout->mesh();
  const Shape whole = joined_sizes(shapes, layout);
  for (std::size_t m = 0; m < shapes.size(); ++m) {
    const std::vector<int> place = *mesh->coordinate(mesh->ranks()[m]);
    const bool comparable =
        shapes[m].size() == whole.size() && layout->max_dim() < static_cast<int>(whole.size());
    const Shape want = comparable ? local_shape(layout, whole, place) : Shape{};
    if (comparable && want == shapes[m]) continue;
    std::vector<std::string> lines;
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      lines.push_back("rank " + std::to_string(mesh->ranks()[k]) + ": " + code_text(shapes[k]));
    }
    throw UsageError(
        Message("HP-F010", what + ": " + name + " does not have the shape that its layout says")
            .fact("layout", to_string_with_mesh(layout))
            .fact("shapes", join(lines, "; "))
            .hint("rank " + std::to_string(mesh->ranks()[m]) + " should hold " +
                  (comparable ? code_text(want) : "as many dims as the others") +
                  ": chunk i of n has ceil(size / n) rows, the last ones fewer or none"));
  }
  return whole;
}

std::vector<Shape> global_sizes(const std::vector<at::Tensor>& parts,
                                const std::vector<const Layout*>& layouts, const std::string& what,
                                const std::vector<std::string>& names) {
  std::vector<Shape> mine;
  for (const at::Tensor& part : parts) mine.emplace_back(part.sizes().begin(), part.sizes().end());
  const bool cut = std::any_of(layouts.begin(), layouts.end(),
                               [](const Layout* layout) { return !layout->splits().empty(); });
  if (!cut) return mine;
  // A row a part: the number of dims, then the dims.
  constexpr std::size_t width = kMostDims + 1;
  Numbers numbers(parts.size() * width);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (mine[i].size() > kMostDims) {
      throw UsageError(Message("HP-F011", "a result of local code has " +
                                              std::to_string(mine[i].size()) + " dims")
                           .fact("most", std::to_string(kMostDims)));
    }
    numbers[i * width] = static_cast<std::int64_t>(mine[i].size());
    std::copy(mine[i].begin(), mine[i].end(),
              numbers.begin() + static_cast<std::ptrdiff_t>(i * width + 1));
  }
  const Rows everyone = gather_numbers(numbers, layouts[0]->mesh());
  std::vector<Shape> out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<Shape> shapes;
    for (const Numbers& row : everyone) {
      const auto begin = row.begin() + static_cast<std::ptrdiff_t>(i * width + 1);
      shapes.emplace_back(begin, begin + row[i * width]);
    }
    out.push_back(checked_sizes(shapes, layouts[i], what, names[i]));
  }
  return out;
}

}  // namespace

Rows gather_numbers(const Numbers& numbers, const Mesh* mesh) {
  if (mesh->size() == 1 || numbers.empty()) {
    return Rows(static_cast<std::size_t>(mesh->size()), numbers);
  }
  at::NoGradGuard no_grad;
  std::vector<int> axes(static_cast<std::size_t>(mesh->ndim()));
  std::iota(axes.begin(), axes.end(), 0);
  const Group group = group_along(mesh, axes);
  const auto count = static_cast<std::int64_t>(numbers.size());
  at::Tensor mine = at::empty({count}, at::kLong);
  std::copy(numbers.begin(), numbers.end(), mine.mutable_data_ptr<std::int64_t>());
  const Numbers counts(static_cast<std::size_t>(group.size), count);
  const at::Device device = device_for(mesh->group(axes, current_rank().rank()));
  const at::Tensor all = run(all_gather_exchange(group, {count}, 0, counts), mine.to(device)).cpu();
  Rows out;
  const auto* data = all.const_data_ptr<std::int64_t>();
  for (std::int64_t m = 0; m < group.size; ++m) {
    out.emplace_back(data + m * count, data + (m + 1) * count);
  }
  return out;
}

at::Tensor part_for(const at::Tensor& value, const Mesh* mesh) {
  return is_dtensor(value) ? local_for_use(value) : border_in(value, mesh);
}

std::vector<at::Tensor> wrap_parts(const std::vector<at::Tensor>& parts,
                                   const std::vector<const Layout*>& layouts,
                                   const std::string& what, const std::vector<std::string>& names,
                                   bool compare_copies) {
  const std::vector<Shape> sizes = global_sizes(parts, layouts, what, names);
  if (compare_copies && !parts.empty()) check_copies(parts, layouts, what, names);
  std::vector<at::Tensor> out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    out.push_back(wrap(parts[i], layouts[i], sizes[i]));
  }
  return out;
}

void check_gradient_passes(const at::Tensor& part, const Layout* layout, const std::string& what) {
  if (!part.requires_grad()) return;
  for (const Placement& p : layout->placements()) {
    if (!p.is_partial() || p.op() == ReduceOp::sum || p.op() == ReduceOp::avg) continue;
    const std::string op(to_string(p.op()));
    throw UsageError(
        Message("HP-F012", what + " requires grad, and no gradient passes P(" + op + ")")
            .fact("layout", to_string_with_mesh(layout))
            .hint("reduce it inside, or detach() the inputs"));
  }
}

}  // namespace hyper_parallel::torch_layer
