#include "hyper_parallel/core/path_pattern.h"

#include <algorithm>
#include <tuple>

#include "hyper_parallel/core/error.h"

namespace hyper_parallel {
namespace {

// The first part of `path`, which then holds the rest.
std::string_view take_part(std::string_view& path, bool& more) {
  const std::size_t dot = path.find('.');
  const std::string_view part = path.substr(0, dot);
  more = dot != std::string_view::npos;
  path.remove_prefix(more ? dot + 1 : path.size());
  return part;
}

// Match `letter` against the set that starts after "[" and move `set` behind its "]".
bool in_set(std::string_view& set, char letter) {
  const bool other = !set.empty() && set.front() == '!';
  if (other) set.remove_prefix(1);
  const std::size_t end = set.find(']', 1);
  bool found = false;
  for (std::size_t i = 0; i < end; ++i) {
    if (i + 2 < end && set[i + 1] == '-') {
      found |= set[i] <= letter && letter <= set[i + 2];
      i += 2;
    } else {
      found |= set[i] == letter;
    }
  }
  set.remove_prefix(end + 1);
  return found != other;
}

bool part_matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() == '*') {
    for (std::size_t skip = 0; skip <= name.size(); ++skip) {
      if (part_matches(pattern.substr(1), name.substr(skip))) return true;
    }
    return false;
  }
  if (name.empty()) return false;
  const char sign = pattern.front();
  pattern.remove_prefix(1);
  if (sign == '[' && pattern.find(']', 1) != std::string_view::npos) {
    return in_set(pattern, name.front()) && part_matches(pattern, name.substr(1));
  }
  return (sign == '?' || sign == name.front()) && part_matches(pattern, name.substr(1));
}

bool parts_match(std::string_view pattern, bool more_pattern, std::string_view name,
                 bool more_name) {
  if (!more_pattern) return !more_name;
  const std::string_view part = take_part(pattern, more_pattern);
  if (part == "**") {
    while (true) {
      if (parts_match(pattern, more_pattern, name, more_name)) return true;
      if (!more_name) return false;
      take_part(name, more_name);
    }
  }
  if (!more_name) return false;
  const std::string_view first = take_part(name, more_name);
  return part_matches(part, first) && parts_match(pattern, more_pattern, name, more_name);
}

// Larger is closer.
std::tuple<int, int, int> closeness(std::string_view pattern) {
  const auto plain =
      std::count_if(pattern.begin(), pattern.end(), [](char c) { return c != '*' && c != '?'; });
  int deep = 0;
  int wild = 0;
  for (bool more = true; more;) {
    const std::string_view part = take_part(pattern, more);
    deep += part == "**";
    wild += part.find_first_of("*?[") != std::string_view::npos;
  }
  return {-deep, -wild, static_cast<int>(plain)};
}

}  // namespace

bool path_matches(std::string_view pattern, std::string_view name) {
  return parts_match(pattern, true, name, true);
}

std::vector<int> closest_patterns(const std::vector<std::string>& patterns,
                                  const std::vector<std::string>& names, std::string_view what) {
  std::vector<int> chosen(names.size(), -1);
  for (int p = 0; p < static_cast<int>(patterns.size()); ++p) {
    const std::string& pattern = patterns[static_cast<std::size_t>(p)];
    bool used = false;
    for (std::size_t n = 0; n < names.size(); ++n) {
      if (!path_matches(pattern, names[n])) continue;
      used = true;
      if (chosen[n] < 0) {
        chosen[n] = p;
        continue;
      }
      const std::string& other = patterns[static_cast<std::size_t>(chosen[n])];
      if (closeness(pattern) == closeness(other)) {
        throw UsageError(Message("HP-P002", "sharding plan: two keys are equally close to " +
                                                std::string(what) + " \"" + names[n] + "\"")
                             .fact("keys", "\"" + other + "\", \"" + pattern + "\"")
                             .hint("name it whole, or make one key closer"));
      }
      if (closeness(pattern) > closeness(other)) chosen[n] = p;
    }
    if (!used) {
      Message message("HP-P001",
                      "sharding plan: \"" + pattern + "\" matches no " + std::string(what));
      const std::vector<std::string> near = near_names(pattern, names);
      if (!near.empty()) {
        message.fact("near", join(near));
      } else {
        const std::size_t shown = std::min<std::size_t>(names.size(), 20);
        message.fact("names", join({names.begin(), names.begin() + static_cast<long>(shown)}) +
                                  (shown < names.size() ? ", ..." : ""));
      }
      throw UsageError(message);
    }
  }
  return chosen;
}

}  // namespace hyper_parallel
