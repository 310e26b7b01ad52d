// Internal: ops of Paddle by our rows.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hyper_parallel/rules/rule.h"

namespace hyper_parallel::rules {

struct Alias;

/// For each of their dims the dims of ours that make it, major to minor; none: a dim of size 1.
using DimMap = std::vector<std::vector<int>>;

/// A call in their words on its way to a row of ours and back. Made with all that follows from the
/// alias; what differs beside names is then changed by `take`, `dims`, `result` and in `ours`.
class Adapter {
 public:
  Adapter(const Alias& alias, const Call& theirs);

  Call ours;
  const Call& theirs;

  /// Our operand i is their operand order[i], which may be absent; -1: we have it and they do not.
  void take(std::vector<int> order);

  /// Our operand `i` has other dims than theirs: these sizes, seen by them through `map`.
  void dims(std::size_t i, Shape sizes, DimMap map);

  /// Their result `i` is ours, seen through `map`.
  void result(std::size_t i, DimMap map);

  /// Their result is our result `of[i]`; -1 one that does not exist in this call.
  void results(std::vector<int> of) { results_ = std::move(of); }

  /// The rule for their call.
  ConcreteRule run();

  /// Attributes of theirs.
  std::vector<std::int64_t> list(std::string_view name) const { return theirs.integers(name); }
  const Shape& sizes(std::size_t operand) const { return theirs.inputs[operand].meta.sizes; }
  std::size_t ndim(std::size_t operand) const { return sizes(operand).size(); }

 private:
  TensorMap back(const TensorMap& map, const DimMap* dims, Shape sizes) const;

  std::vector<int> order_;
  std::vector<std::pair<std::size_t, DimMap>> operand_dims_;
  std::vector<std::pair<std::size_t, DimMap>> result_dims_;
  std::vector<int> results_;
};

/// One op of Paddle.
struct Alias {
  std::string_view name;
  std::string_view op;        // the row
  std::string_view operands;  // their names, for error texts: "x weight bias"
  std::string_view attrs;     // ours=theirs where the names differ: "dim=axis keepdim=keep_dim"
  ConcreteRule (*build)(Adapter& call) = nullptr;  // where more than names differs
};

/// All of them, sorted by name.
std::span<const Alias> aliases();

/// `name` with or without "paddle::"; null if there is none.
const Alias* find_alias(std::string_view name);

/// Make the rule of a call in Paddle's words. Throws UsageError as `concretize` of rule.h.
ConcreteRule concretize(const Alias& alias, const Call& call);

}  // namespace hyper_parallel::rules
