// Internal to the engine: what operands have, what a choice needs, and the layouts that follow.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hyper_parallel/rules/engine/cut.h"

namespace hyper_parallel::rules {

/// What one operand has on one mesh axis, in the words of the rule.
struct Has {
  enum class Kind : std::uint8_t {
    whole,
    factor,   // cut along `factor`
    partial,  // P(op)
    foreign,  // cut in a way that no factor of the rule means
  };
  Kind kind = Kind::whole;
  int factor = -1;
  ReduceOp op = ReduceOp::sum;
  bool recut = false;  // kind factor: along it, but with other boundaries
};

/// One operand as the search sees it: what each axis does to it.
struct OperandState {
  const Layout* layout = nullptr;  // null: absent. A plain tensor is replicated
  std::vector<Has> axes;
  std::vector<std::pair<int, FactorSplit>> cuts;
  double bytes = 0;  // of the whole tensor

  /// Bytes a rank would hold if `axis` were R.
  double bytes_without(int axis) const;
};

/// Read all operands. Throws UsageError: another mesh, a split dim that the tensor lacks, segments
/// that do not sum to the dim.
std::vector<OperandState> read_operands(const ConcreteRule& rule, const Call& call);

/// What `choice` asks of operand `input` on one axis.
struct Need {
  enum class Kind : std::uint8_t { whole, factor, partial, own };
  Kind kind = Kind::whole;
  int factor = -1;
  ReduceOp op = ReduceOp::sum;
  bool masked = false;  // the addend must be kept on one rank
};
Need need(const ConcreteRule& rule, int input, const Has& has, const AxisChoice& choice);

/// The layouts that a full set of choices gives.
struct Assembled {
  std::vector<const Layout*> inputs;
  std::vector<const Layout*> outputs;
  std::string handler;
};

/// For each factor the cuts (order of axes, block, segments) that may serve for these choices, the
/// mesh's order and what the first operand has in front; none for a factor that is whole. `wanted`
/// are factors with the cuts that wanted results have.
std::vector<std::vector<FactorSplit>> ways_to_cut(
    const ConcreteRule& rule, const Call& call, const std::vector<OperandState>& states,
    std::span<const AxisChoice> choices,
    const std::vector<std::pair<int, FactorSplit>>& wanted = {});

/// Layouts for one cut a factor. Nothing if there are none, an operand that is written in place
/// would change, some rank would get nothing where that is not allowed, or two handlers meet;
/// `why` then says which.
std::optional<Assembled> assemble(const ConcreteRule& rule, const Call& call,
                                  const std::vector<OperandState>& states,
                                  std::span<const AxisChoice> choices,
                                  const std::vector<FactorSplit>& cuts, std::string* why = nullptr);

/// True if `map` has a dim made of `factor`, or that it stands for. `factor` is one of the rule.
bool holds(const TensorMap& map, int factor);

/// The call that a part of a list op stands for.
Call part_call(const Call& call, const Part& part);

}  // namespace hyper_parallel::rules
