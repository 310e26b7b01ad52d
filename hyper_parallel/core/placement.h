#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hyper_parallel {

/// How the values that ranks hold combine into the true one.
enum class ReduceOp : std::uint8_t { sum, avg, max, min, prod };

/// Write `op` as "sum", "avg", "max", "min" or "prod".
std::string_view to_string(ReduceOp op);

/// Read "sum", "avg", "max", "min" or "prod" ("mean" and "product" are taken as avg and prod).
/// Throws UsageError, which lists the kinds.
ReduceOp parse_reduce_op(std::string_view text);

/// How one tensor lies along one mesh axis.
///
///   R      every rank holds the whole tensor
///   S(d)   rank i holds chunk i of dim d; chunks are ceil(size / ranks) long, so the
///          last ones may be shorter or empty
///   P(op)  every rank holds a whole-shaped value; `op` over the ranks gives the tensor
///
/// A plain value. The order of several axes on one dim, blocks and segments belong to the
/// layout, not to the placement.
class Placement {
 public:
  enum class Kind : std::uint8_t { replicate, shard, partial };

  static constexpr Placement replicate() { return {Kind::replicate, -1, ReduceOp::sum}; }
  static constexpr Placement shard(int dim) { return {Kind::shard, dim, ReduceOp::sum}; }
  static constexpr Placement partial(ReduceOp op = ReduceOp::sum) {
    return {Kind::partial, -1, op};
  }

  constexpr Kind kind() const { return kind_; }
  constexpr bool is_replicate() const { return kind_ == Kind::replicate; }
  constexpr bool is_shard() const { return kind_ == Kind::shard; }
  constexpr bool is_shard(int dim) const { return kind_ == Kind::shard && dim_ == dim; }
  constexpr bool is_partial() const { return kind_ == Kind::partial; }
  constexpr bool is_partial(ReduceOp op) const { return kind_ == Kind::partial && op_ == op; }

  /// The split dim; negative dims count from the end until a layout for a tensor is made.
  /// Meaningful for shard only.
  constexpr int dim() const { return dim_; }

  /// The combining op. Meaningful for partial only.
  constexpr ReduceOp op() const { return op_; }

  friend constexpr bool operator==(const Placement&, const Placement&) = default;

 private:
  constexpr Placement(Kind kind, int dim, ReduceOp op) : dim_(dim), kind_(kind), op_(op) {}

  int dim_;
  Kind kind_;
  ReduceOp op_;
};

/// Write `p` as `R`, `S(1)` or `P(sum)`.
std::string to_string(Placement p);

}  // namespace hyper_parallel
