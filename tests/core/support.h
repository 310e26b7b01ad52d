// What an action throws, as text.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "hyper_parallel/core/error.h"

namespace hyper_parallel::test {

/// Call `visit(class, error)` with what `action` throws; "" and null if it throws nothing.
template <class Action, class Visit>
std::string caught(Action action, Visit visit) {
  try {
    action();
  } catch (const UsageError& e) {
    return "UsageError " + visit(e);
  } catch (const UnsupportedError& e) {
    return "UnsupportedError " + visit(e);
  } catch (const CommError& e) {
    return "CommError " + visit(e);
  } catch (const InternalError& e) {
    return "InternalError " + visit(e);
  } catch (const std::exception& e) {
    return std::string("another exception: ") + e.what();
  }
  return "no error";
}

/// `UsageError HP-M001`.
template <class Action>
std::string code(Action action) {
  return caught(action, [](const Error& e) { return e.code(); });
}

/// `UsageError [HP-M001] a mesh needs ...`, the whole text.
template <class Action>
std::string failure(Action action) {
  return caught(action, [](const Error& e) { return std::string(e.what()); });
}

inline bool starts(std::string_view text, std::string_view begin) {
  return text.starts_with(begin);
}

}  // namespace hyper_parallel::test
