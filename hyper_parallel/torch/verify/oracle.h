#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "hyper_parallel/core/layout.h"

/// What a layout means, written a second time and as plainly as possible: the verifier trusts
/// nothing of the planner, the collectives or the dispatch. All ranks of a mesh are in one list, in
/// the order of `Mesh::ranks`.
namespace hyper_parallel::torch_layer::oracle {

/// Relative and absolute bound of an error: |a - b| <= bound * (1 + |b|).
///
/// f64: 1e-10. Sums have fewer than 1000 terms of size 1, so rounding stays near 1e-13; the rest is
/// room for ops that magnify it (inverse functions, quotients of sums). f32: 1e-4 and the half
/// types 2e-2, for the few ops that have no f64 kernel.
double bound_of(at::ScalarType type);

/// The bound of the coarsest type among these: what an op computes in may be any of them.
double bound_of(const std::vector<at::Tensor>& operands, const std::vector<at::Tensor>& results);

/// The largest |a - b| / (1 + |b|) over all elements. Equal infinities and two nans count as equal;
/// other non-finite differences as infinity. Precondition: equal shapes.
double distance(const at::Tensor& a, const at::Tensor& b);

/// True if values of this type can be parts of P(op): sums and the like of bools, averages of
/// integers and orders of complex numbers are not what they seem.
bool can_part(at::ScalarType type, ReduceOp op = ReduceOp::sum);

/// True if `layout` has no partial placement, or one of kinds that values of this type can be.
bool can_part(at::ScalarType type, const Layout* layout);

/// Values for a tensor of this shape and type: normal and exact to 1/64; small whole numbers for
/// integers and for types of few digits.
at::Tensor random_like(const at::Tensor& t, at::Generator& random);

/// The whole value as the ranks hold it.
///
/// P(sum), P(avg): random parts of changing sign that differ on each rank. P(max), P(min): each
/// element on one rank drawn for it, beaten values elsewhere. P(prod): random factors. Parts have
/// few binary digits, so the parts of a value that has few add up to it without rounding: ops that
/// jump (eq, floor, sort) see the same value.
/// Precondition: partial axes are all of one kind, or of sum and avg.
std::vector<at::Tensor> cut(const at::Tensor& whole, const Layout* layout, at::Generator& random);

/// Compare what ranks hold with the whole value.
struct Match {
  double error = 0;     // the largest distance, over all replicas
  std::string problem;  // not empty: a shape or type that does not fit
  bool holds(double bound) const { return problem.empty() && error <= bound; }
};
Match compare(const std::vector<at::Tensor>& parts, const Layout* layout, const at::Tensor& whole);

/// The number by which a rank's cotangent of a value in `layout` is smaller than in the dual
/// layout: a P(avg) value is the mean of the ranks', so each has weight 1 / n.
double cotangent_scale(const Layout* layout);

/// True if gradients pass: no P(max), P(min), P(prod).
bool has_dual(const Layout* layout);

/// True if the order of reductions does not matter.
bool is_clear(const Layout* layout);

}  // namespace hyper_parallel::torch_layer::oracle
