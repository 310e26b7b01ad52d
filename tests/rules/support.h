// Calls from text, answers as text.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hyper_parallel/rules/rule.h"
#include "tests/support/doctest.h"

namespace hyper_parallel::rules::test {

using Attrs = std::map<std::string, Attr, std::less<>>;
using Ints = std::vector<std::int64_t>;

/// Operands: `f32[8, 16] S(0) R`, `f32[8, 16]` (plain), `-` (absent); a leading `!` pins one. A
/// list argument is `{f32[8] S(0); f32[8] R}`.
Call call(std::string_view op, std::string_view mesh, const std::vector<std::string>& operands,
          Attrs attrs = {});

ConcreteRule rule(const Call& call);

/// The rule of a call without layouts, and its text: `*m k, *k n -> m n {m=8, k=16, n=32}`.
ConcreteRule rule_of(std::string_view op, const std::vector<std::string>& operands,
                     Attrs attrs = {});
std::string printed(std::string_view op, const std::vector<std::string>& operands,
                    Attrs attrs = {});

/// `S(0) R, R S(1) -> S(0) S(1)`, then ` ~handler` if there is one.
std::string answer(const Inference& inference);

/// Forward inference as an answer.
std::string forward(std::string_view op, std::string_view mesh,
                    const std::vector<std::string>& operands, Attrs attrs = {});

/// Reverse inference as an answer; `results` are layouts, `-` for one that says nothing.
std::string backward(std::string_view op, std::string_view mesh,
                     const std::vector<std::string>& operands,
                     const std::vector<std::string>& results, Attrs attrs = {});

/// The layouts of the cotangents of the inputs, for cotangents of the results dual to the results.
std::string grad(std::string_view op, std::string_view mesh,
                 const std::vector<std::string>& operands, Attrs attrs = {});

/// The table of strategies on one axis, one a line, for operands given as `f32[8, 16]`.
std::string table(std::string_view op, const std::vector<std::string>& operands, Attrs attrs = {});

/// The sizes of the results: `[8, 16] [8]`.
std::string result_sizes(std::string_view op, const std::vector<std::string>& operands,
                         Attrs attrs = {});

/// The text of the error that `action` throws; "no error" otherwise.
template <class Action>
std::string error(Action action) {
  try {
    action();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace hyper_parallel::rules::test
