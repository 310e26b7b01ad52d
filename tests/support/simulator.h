#pragma once

#include <cstdint>
#include <vector>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/plan/redistribute.h"

/// Plans run on small arrays, for all ranks of a mesh in one thread: what a plan means, by the
/// slowest and plainest way.
namespace hyper_parallel::test {

/// The local tensor of one rank, row-major.
using Local = std::vector<double>;
/// By place in the mesh.
using Locals = std::vector<Local>;

/// The coordinates of a mesh in row-major order.
std::vector<std::vector<int>> coordinates(const Mesh* mesh);

/// The flat global indices of what a rank holds, in the order of its local tensor.
std::vector<std::int64_t> held(const Layout* layout, const Shape& sizes,
                               const std::vector<int>& coordinate);

/// Lay `global` out: partial values differ between ranks and change sign.
Locals encode(const std::vector<double>& global, const Layout* layout, const Shape& sizes);

/// The tensor that `locals` stand for. Throws std::runtime_error if replicas differ.
std::vector<double> decode(const Locals& locals, const Layout* layout, const Shape& sizes);

/// Run the steps. Throws std::runtime_error if one needs data that its group has not.
Locals run(const plan::Plan& plan, const Locals& locals);

/// All layouts of a tensor of `ndim` dims: every placement (P of `ops` only) and order of axes,
/// plain.
std::vector<const Layout*> all_layouts(const Mesh* mesh, int ndim,
                                       const std::vector<ReduceOp>& ops);

/// `layout` with every dim that is cut in this style.
const Layout* with_block(const Layout* layout, std::int64_t block);
const Layout* with_segments(const Layout* layout, int dim, std::vector<std::int64_t> segments);

}  // namespace hyper_parallel::test
