#pragma once

#include <span>
#include <string_view>

#include "hyper_parallel/rules/rule.h"

namespace hyper_parallel::rules {

/// A way to run an op where the op on local tensors alone would be wrong. The implementations are
/// in torch/; here are their names, what they do and what they move, so that the engine can price
/// them and the docs can list them.
struct HandlerInfo {
  std::string_view name;
  std::string_view doc;
  /// Bytes a rank moves in the forward when `factor` is cut over `ranks` ranks, by one axis or by
  /// several, and nothing else is cut. Null: nothing moves.
  double (*bytes)(const ConcreteRule& rule, const Call& call, int factor, int ranks) = nullptr;
  /// The result is P(sum) where a finished one would cost a reduction, which may move more than a
  /// gather of the operand: when strategies are compared, that reduction counts.
  bool puts_off = false;
  /// The handler itself counts an addend (see TensorMap::addend) once, so linear_addend does not
  /// run beside it.
  bool counts_addends = false;
  /// Stands for the handlers that the members of a list op ask for; it has no function of its own.
  bool of_members = false;
};

/// All handlers, sorted by name.
std::span<const HandlerInfo> handlers();

/// Throws InternalError if there is none of this name.
const HandlerInfo& find_handler(std::string_view name);

}  // namespace hyper_parallel::rules
