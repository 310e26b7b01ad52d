#include "hyper_parallel/core/error.h"

#include <algorithm>
#include <atomic>
#include <numeric>

namespace hyper_parallel {

Message::Message(std::string_view code, std::string_view first_line)
    : code_(code), first_line_(first_line) {}

Message& Message::fact(std::string_view name, std::string_view value) {
  facts_.emplace_back(name, value);
  return *this;
}

Message& Message::hint(std::string_view text) { return fact("try", text); }

std::string Message::text() const {
  std::size_t width = 0;
  for (const auto& [name, value] : facts_) width = std::max(width, name.size());
  std::string out = "[" + code_ + "] " + first_line_;
  for (const auto& [name, value] : facts_) {
    out += "\n  " + name + std::string(width - name.size() + 2, ' ') + value;
  }
  return out;
}

namespace {

std::atomic<ErrorHook> error_hook{nullptr};

}  // namespace

void set_error_hook(ErrorHook hook) { error_hook.store(hook); }

void translate_error(const Error& error) {
  if (const ErrorHook hook = error_hook.load()) hook(error);
}

void check_internal(bool condition, std::string_view what) {
  if (!condition) {
    throw InternalError(Message("HP-X001", "internal: " + std::string(what))
                            .hint("this is a fault of the library: please report it"));
  }
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& known) {
  std::vector<std::pair<std::size_t, std::string>> scored;
  for (const std::string& candidate : known) {
    std::size_t score = edit_distance(name, candidate);
    // A name inside another is near, whatever the lengths are.
    if (candidate.find(name) != std::string::npos) score = std::min<std::size_t>(score, 1);
    if (score <= std::max<std::size_t>(2, name.size() / 3)) scored.emplace_back(score, candidate);
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (const auto& [score, candidate] : scored) {
    if (out.size() == 3) break;
    out.push_back(candidate);
  }
  return out;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

}  // namespace hyper_parallel
