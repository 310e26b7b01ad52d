#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "hyper_parallel/core/mesh.h"

/// The differentiable exchange under everything that ranks send each other: redistribution, halos,
/// the collectives of local code, the borders of plain code.
namespace hyper_parallel::torch_layer {

/// An exchange of one tensor that is under way, below autograd.
class Flight {
 public:
  virtual ~Flight() = default;
  /// The result. Once, and in the same order on all ranks.
  virtual at::Tensor land() = 0;
};

/// A map of one tensor a rank to one tensor a rank, by communication. Immutable; of the rank that
/// made it. All ranks of its group must run the same exchanges in the same order.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  virtual ~Exchange() = default;

  /// What reports call it: "all_reduce", "halo", ...
  virtual std::string_view kind() const = 0;
  virtual const Mesh* mesh() const = 0;
  /// Of the mesh, the ranks along which take part.
  virtual const std::vector<int>& axes() const = 0;
  /// What one rank sends or receives where this rank gives `x`; the largest over ranks where they
  /// can know it.
  virtual double bytes(const at::Tensor& x) const = 0;

  /// The transposed linear map: <y, A x> summed over ranks is <A' y, x>. The transpose of the
  /// transpose is this map again.
  /// Throws UnsupportedError if the map is not linear.
  virtual std::shared_ptr<const Exchange> transposed() const = 0;

  /// Issue it. No autograd: call it below.
  virtual std::unique_ptr<Flight> issue(const at::Tensor& x) const = 0;

  /// True if the result is `x` itself: it then becomes a view of `x`, and `issue` is not called.
  virtual bool keeps(const at::Tensor&) const { return false; }

  /// `issue`, waited for.
  virtual at::Tensor execute(const at::Tensor& x) const { return issue(x)->land(); }
};

/// Exchanges are shared: by the graph, and by what is under way.
using ExchangePtr = std::shared_ptr<const Exchange>;

/// How a run joins the graph.
struct ExchangeOptions {
  /// A tensor that requires grad where any rank's does: the result then requires grad on all ranks
  /// or on none, and backward passes run the transpose on all (torch/local/region.h).
  at::Tensor anchor = {};
  /// The dtype in which the cotangent is sent and reduced, if not its own.
  std::optional<at::ScalarType> backward_dtype = std::nullopt;
};

/// Run `exchange` on `x`, differentiable any number of times: the backward pass runs the transpose,
/// in the same way. An undefined gradient counts as zeros, so that no rank skips what others wait
/// in. Tangents of forward mode take the same way. Backward collectives have the cause that is
/// current now.
/// Throws UnsupportedError: `x` requires grad and the map is not linear.
at::Tensor run(const ExchangePtr& exchange, const at::Tensor& x,
               const ExchangeOptions& options = {});

/// `run` in two halves, so that a rank can work while data travels. The graph has the place of the
/// start.
class PendingExchange {
 public:
  PendingExchange(const ExchangePtr& exchange, const at::Tensor& x,
                  const ExchangeOptions& options = {});
  PendingExchange(PendingExchange&&) noexcept;
  PendingExchange& operator=(PendingExchange&&) noexcept;
  ~PendingExchange();

  /// The result, the same at each call. All ranks must wait in the same order.
  const at::Tensor& wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hyper_parallel::torch_layer
