#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hyper_parallel/rules/rule.h"

namespace hyper_parallel::rules {

/// A rule in the letter notation of docs/notation.md, parsed but not yet met with sizes:
///
///     *... k, *n k, ?+n -> ... n
///     ... d~softmax@dim -> =
///     *v~embedding d, ... -> ... d
struct Notation {
  static constexpr std::int64_t kNoSize = -2;

  struct Letter {
    std::string name;
    bool blocked = false;
    bool finished = false;           // R where a sum is split
    std::optional<ReduceOp> reduce;  // P(reduce) where it is split and a result lacks it
    std::string handler;
    // Of one call:
    std::int64_t size = kNoSize;
    std::int64_t block = 1;
    bool nonempty = false;
    bool plain = false;
    std::optional<Window> window;
    std::optional<Interval> part;
  };
  struct Dim {
    enum class Kind : std::uint8_t { letters, ellipsis, whole };
    Kind kind = Kind::letters;
    std::vector<int> letters;  // major to minor
    std::string at;            // attribute that names the place of the dim
    std::int64_t at_default = 0;
    std::string size;  // kind whole: attribute that gives the size; empty: 1
    int most = -1;     // letter whose size the attribute may not exceed, -1: none
    // Of one call: the dim's length where the letters do not give it, or those of its parts.
    std::int64_t length = kNoSize;
    Shape parts;
    int joint = -1;  // letter that stands for all of the dim, -1: none
  };
  struct Tensor {
    std::vector<Dim> dims;
    bool linear = false;
    bool addend = false;
    bool shape_only = false;
    bool optional = false;
    bool broadcast = false;
    bool same = false;  // "=": as the first operand
    // Of one call:
    bool absent = false;
    std::optional<int> term;
  };
  std::vector<Letter> letters;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  ReduceOp reduce = ReduceOp::sum;
  PartialRule partial = PartialRule::linear;
  bool random = false;
  bool aliases = false;
  bool nonempty = false;
  bool filled = false;
  std::string handler;
  // Of one call:
  bool dynamic = false;
  std::vector<std::pair<int, int>> writes;
  std::vector<int> unwritten;
  std::vector<Rewrite> rewrites;
};

/// Throws UsageError HP-S050: text, place, what was expected.
Notation parse_notation(std::string_view text);

/// The same for the rule of one call, with sizes: see `parse_rule` in print.h.
Notation parse_sized(std::string_view text);

/// Meet the letters with the sizes and attributes of one call. Throws UsageError: HP-S001 number
/// of operands, HP-S002 sizes, HP-S003 number of dims, HP-S004 dim out of range.
ConcreteRule concretize(const Notation& notation, const Call& call);

/// The factor that a letter became in such a rule; kNoFactor for size 1, or if no operand has it.
int factor_of_letter(const ConcreteRule& rule, std::string_view letter);

}  // namespace hyper_parallel::rules
