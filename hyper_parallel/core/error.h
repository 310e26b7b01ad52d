#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hyper_parallel {

/// The text of an error: a code, one whole and searchable first line, facts, the way out.
///
///     [HP-L012] redistribute: cannot turn S(0) into P(sum) on mesh axis "tp"
///       tensor  f32[4096, 1024] on dp=2 tp=4
///       try     redistribute to R R first
///
/// Every code has a section in docs/errors.md.
class Message {
 public:
  Message(std::string_view code, std::string_view first_line);

  /// Add one line "name  value".
  Message& fact(std::string_view name, std::string_view value);

  /// Add the way out, at most one or two calls.
  Message& hint(std::string_view text);

  const std::string& code() const { return code_; }
  std::string text() const;

 private:
  std::string code_;
  std::string first_line_;
  std::vector<std::pair<std::string, std::string>> facts_;
};

/// Base of the four classes. `what()` is the whole text, `code()` the stable code.
class Error : public std::runtime_error {
 public:
  explicit Error(const Message& message)
      : std::runtime_error(message.text()), code_(message.code()) {}
  const std::string& code() const { return code_; }

 private:
  std::string code_;
};

/// The caller's mistake. Python: a `ValueError`.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// No rule, step or strategy for a valid request. Python: a `NotImplementedError`.
class UnsupportedError : public Error {
 public:
  using Error::Error;
};

/// A rank or a link failed, or ranks disagree. Python: a `RuntimeError`.
class CommError : public Error {
 public:
  using Error::Error;
};

/// Our mistake: please report it. Python: a `RuntimeError`.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// Where errors leave the library through a host that knows other exceptions (Python, under torch's
/// own bindings), this hook gives them the host's form. It is called with the error that is being
/// thrown and may throw in its place; null, the default, leaves it alone.
using ErrorHook = void (*)(const Error& error);
void set_error_hook(ErrorHook hook);

/// Call `f`; errors of this library that leave it go through the hook.
void translate_error(const Error& error);
template <class F>
decltype(auto) at_border(F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    translate_error(error);
    throw;
  }
}

/// Throw `InternalError` naming `what` unless `condition` holds.
void check_internal(bool condition, std::string_view what);

/// The names among `known` that are closest to `name` (edit distance), best first, at most three.
std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& known);

/// "a, b, c".
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");

}  // namespace hyper_parallel
