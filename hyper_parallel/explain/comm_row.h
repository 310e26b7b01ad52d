#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hyper_parallel {

/// One collective that a rank took part in: a line of a report.
struct CommRow {
  std::string kind;               // "all_reduce", "all_gather", ...
  std::vector<std::string> axes;  // mesh axes of the group, major to minor
  std::int64_t bytes = 0;         // that one rank sends, the largest over ranks
  bool backward = false;
  std::string op;      // the op that asked, such as "aten::linear"; "" outside of ops
  std::string reason;  // the argument, and what the op needs
  std::string tensor;  // the whole tensor, such as "f32[4, 8]"
  std::string from;    // its placements before and after, such as "S(0) R"; "" for local code
  std::string to;
  int ranks = 1;   // of the group
  int joined = 0;  // rows of one number, if not 0, went out as one collective

  /// "forward" or "backward".
  std::string_view phase() const { return backward ? "backward" : "forward"; }
  friend bool operator==(const CommRow&, const CommRow&) = default;
};

}  // namespace hyper_parallel
