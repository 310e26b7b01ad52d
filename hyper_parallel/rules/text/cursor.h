// Internal: reads the notation of rules from left to right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hyper_parallel/rules/rule.h"

namespace hyper_parallel::rules {

/// A place in a text. What it takes must stand there, if not stated otherwise after blanks; all
/// throw UsageError HP-S050, with the place, where it does not.
class Cursor {
 public:
  /// `form` is an example of what the text may be, for error texts.
  Cursor(std::string_view text, std::string_view form) : text_(text), form_(form) {}

  void skip();
  bool at_end();

  /// True if `token` comes next; `take` also steps over it, `expect` throws otherwise.
  bool peek(std::string_view token);
  bool take(std::string_view token);
  void expect(std::string_view token);

  /// The same without blanks before: marks follow their letter.
  bool take_here(char c);
  bool digit_here() const;

  /// Letters, digits and "_"; no blanks before.
  std::string name();

  std::int64_t number();  // no blanks before
  int small();            // the number of an operand, result, dim or term
  std::int64_t length();  // "?": -1, known after the run only
  Interval interval();    // `0 -> 4)`
  Window window_facts();  // `16 -> 8 kernel=3 stride=2)`
  ReduceOp reduce_op(const std::string& word, const std::string& wanted) const;
  Rewrite rewrite(std::string argument);  // `shape 0`, `length 0 1`, `lengths 1`

  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string_view text_;
  std::string_view form_;
  std::size_t at_ = 0;
};

}  // namespace hyper_parallel::rules
