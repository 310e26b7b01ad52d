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
  double (*bytes)(const ConcreteRule& rule, const Call& call, int factor, int ranks);
  /// The result is P(sum), and a gather of the operand may well move less than reducing it: when
  /// strategies are compared, the reduction counts.
  bool puts_off = false;
  /// An addend that must count once (see TensorMap::addend) is its affair: linear_addend does not
  /// run beside it.
  bool counts_addends = false;
};

/// All handlers, sorted by name.
std::span<const HandlerInfo> handlers();

/// Throws InternalError if there is none of this name.
const HandlerInfo& find_handler(std::string_view name);

}  // namespace hyper_parallel::rules
