#include "hyper_parallel/core/placement.h"

#include <array>

#include "hyper_parallel/core/error.h"

namespace hyper_parallel {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"sum", "avg", "max", "min", "prod"};

}  // namespace

std::string_view to_string(ReduceOp op) { return kNames[static_cast<std::size_t>(op)]; }

ReduceOp parse_reduce_op(std::string_view text) {
  if (text == "mean") return ReduceOp::avg;
  if (text == "product") return ReduceOp::prod;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<ReduceOp>(i);
  }
  throw UsageError(Message("HP-L001", "unknown partial kind \"" + std::string(text) + "\"")
                       .fact("kinds", "sum, avg, max, min, prod"));
}

std::string to_string(Placement p) {
  switch (p.kind()) {
    case Placement::Kind::replicate:
      return "R";
    case Placement::Kind::shard:
      return "S(" + std::to_string(p.dim()) + ")";
    case Placement::Kind::partial:
      return "P(" + std::string(to_string(p.op())) + ")";
  }
  return "?";
}

}  // namespace hyper_parallel
