#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hyper_parallel/core/mesh.h"
#include "hyper_parallel/core/placement.h"

/// Collectives for code on local tensors, along mesh axes. Python has the same names.
///
/// Inside `custom_shard` the mesh is known; elsewhere give `mesh`. All ranks along the axes must
/// call the same collectives in the same order. All are differentiable any number of times, and
/// gradients are the true transposes. With ranks 0 and 1, values a b c, gradients u v w:
///
///                   forward                      backward
///     all_reduce    P -> R                       P -> R
///                   [a] [b]     -> [a+b] [a+b]   [u] [v]     -> [u+v] [u+v]
///     all_gather    S -> R                       P -> S
///                   [a] [b]     -> [a b] [a b]   [u v] [w x] -> [u+w] [v+x]
///     reduce_scatter P -> S                      S -> R
///                   [a b] [c d] -> [a+c] [b+d]   [u] [v]     -> [u v] [u v]
///     all_to_all    S -> S                       S -> S
///                   [a b] [c d] -> [a c] [b d]   [u v] [w x] -> [u w] [v x]
///     broadcast     one -> R                     P -> one
///                   [a] [b]     -> [a] [a]       [u] [v]     -> [u+v] [0]
///     permute (0,1) S -> S, zeros elsewhere      S -> S
///                   [a] [b]     -> [0] [a]       [u] [v]     -> [v] [0]
namespace hyper_parallel {

/// Mesh axes, by name or number: one, or several as one group (the first is the major one).
struct Axes {
  Axes(const char* name) : names{name} {}
  Axes(std::string name) : names{std::move(name)} {}
  Axes(int number) : numbers{number} {}
  Axes(std::initializer_list<std::string> list) : names(list) {}
  Axes(std::initializer_list<int> list) : numbers(list) {}
  Axes(std::vector<std::string> list) : names(std::move(list)) {}
  Axes(std::vector<int> list) : numbers(std::move(list)) {}

  std::vector<std::string> names;
  std::vector<int> numbers;  // where there are no names
};

/// A collective under way.
class Pending {
 public:
  /// The result, the same at each call. All ranks must wait in the same order.
  const at::Tensor& wait();

  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();

 private:
  friend struct Starter;
  struct State;
  explicit Pending(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// One number a rank; none where ranks have equal parts.
using Lengths = std::optional<std::vector<std::int64_t>>;

/// Combine the tensors of all ranks, of one shape; all get the result.
///
/// Gradients flow through sum and avg. Booleans have max (or) and min (and).
/// Throws UsageError: no mesh, an unknown axis, a reduction that the type lacks, a DTensor.
/// UnsupportedError: another reduction than sum and avg of a tensor that requires grad.
/// Cost: one all-reduce; backward another one.
at::Tensor all_reduce(const at::Tensor& x, const Axes& axes, ReduceOp op = ReduceOp::sum,
                      const Mesh* mesh = nullptr);

/// Join the parts of all ranks along `dim` in rank order.
///
/// `sizes`: of the ranks' parts along `dim`; all as this rank's by default.
/// Cost: one all-gather; backward one reduce-scatter.
at::Tensor all_gather(const at::Tensor& x, const Axes& axes, std::int64_t dim = 0,
                      const Lengths& sizes = std::nullopt, const Mesh* mesh = nullptr);

/// Combine the tensors of all ranks by sum or avg; each gets its part of the result along `dim`.
///
/// `sizes`: of the ranks' parts; by default all are equal.
/// Throws UsageError: `dim` is not divisible by the ranks, or is not the sum of `sizes`.
/// Cost: one reduce-scatter; backward one all-gather.
at::Tensor reduce_scatter(const at::Tensor& x, const Axes& axes, std::int64_t dim = 0,
                          ReduceOp op = ReduceOp::sum, const Lengths& sizes = std::nullopt,
                          const Mesh* mesh = nullptr);

/// Send rows (dim 0) to the ranks, and join what they send, in rank order.
///
/// `send`: rows for each rank, which may depend on data; equal shares by default. `receive`: rows
/// from each; by default ranks tell each other.
/// Cost: one all-to-all; backward another one. Without `receive` one more of a number a rank, and a
/// wait on the host.
at::Tensor all_to_all(const at::Tensor& x, const Axes& axes, const Lengths& send = std::nullopt,
                      const Lengths& receive = std::nullopt, const Mesh* mesh = nullptr);

/// The tensor of the rank at place `source` along the axes. Same shape on all ranks.
/// Cost: one broadcast; backward one all-reduce.
at::Tensor broadcast(const at::Tensor& x, const Axes& axes, int source = 0,
                     const Mesh* mesh = nullptr);

/// Send `x`, of one shape on all ranks, from place to place; a place to which nothing comes gets
/// zeros. `pairs`: source and destination, each at most once.
/// Cost: one all-to-all in which a rank sends its tensor once; backward another one.
at::Tensor permute(const at::Tensor& x, const Axes& axes,
                   const std::vector<std::pair<int, int>>& pairs, const Mesh* mesh = nullptr);

/// The same, started: the result is there after `wait`.
struct Start {
  static Pending all_reduce(const at::Tensor& x, const Axes& axes, ReduceOp op = ReduceOp::sum,
                            const Mesh* mesh = nullptr);
  static Pending all_gather(const at::Tensor& x, const Axes& axes, std::int64_t dim = 0,
                            const Lengths& sizes = std::nullopt, const Mesh* mesh = nullptr);
  static Pending reduce_scatter(const at::Tensor& x, const Axes& axes, std::int64_t dim = 0,
                                ReduceOp op = ReduceOp::sum, const Lengths& sizes = std::nullopt,
                                const Mesh* mesh = nullptr);
  static Pending all_to_all(const at::Tensor& x, const Axes& axes,
                            const Lengths& send = std::nullopt,
                            const Lengths& receive = std::nullopt, const Mesh* mesh = nullptr);
  static Pending broadcast(const at::Tensor& x, const Axes& axes, int source = 0,
                           const Mesh* mesh = nullptr);
  static Pending permute(const at::Tensor& x, const Axes& axes,
                         const std::vector<std::pair<int, int>>& pairs, const Mesh* mesh = nullptr);
};

/// The calling rank's place along the axes, from 0.
int axis_rank(const Axes& axes, const Mesh* mesh = nullptr);

/// The number of ranks along the axes.
int axis_size(const Axes& axes, const Mesh* mesh = nullptr);

/// A reduction by its name, for `what`. Throws UsageError that lists them.
ReduceOp reduction(std::string_view what, std::string_view name);

}  // namespace hyper_parallel
