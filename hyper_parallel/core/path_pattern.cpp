#include "hyper_parallel/core/path_pattern.h"

#include <algorithm>
#include <tuple>

#include "hyper_parallel/core/error.h"

namespace hyper_parallel {
namespace {

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t dot = path.find('.');
    out.push_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return out;
    path.remove_prefix(dot + 1);
  }
}

// One sign of a part: a letter, `?` or a whole set `[...]`.
std::size_t sign_length(std::string_view pattern) {
  if (pattern.front() != '[') return 1;
  const std::size_t end = pattern.find(']', pattern.substr(1).starts_with('!') ? 3 : 2);
  return end == std::string_view::npos ? 1 : end + 1;  // a "[" that is not closed is a letter
}

bool sign_matches(std::string_view sign, char letter) {
  if (sign.size() == 1) return sign[0] == '?' || sign[0] == letter;
  std::string_view set = sign.substr(1, sign.size() - 2);
  const bool other = set.front() == '!';
  if (other) set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      found |= set[i] <= letter && letter <= set[i + 2];
      i += 2;
    } else {
      found |= set[i] == letter;
    }
  }
  return found != other;
}

// Where each part or sign of a pattern stands for one of the names or letters, but stars stand for
// any number of them: only the last star must be tried again, so this takes m * n steps at most.
template <class IsStar, class Matches>
bool matches_in_order(std::size_t m, std::size_t n, IsStar is_star, Matches matches) {
  std::size_t p = 0;
  std::size_t star = m;   // the last star, m: none yet
  std::size_t taken = 0;  // what it starts with
  for (std::size_t i = 0; i < n;) {
    if (p < m && is_star(p)) {
      star = p++;
      taken = i;
    } else if (p < m && matches(p, i)) {
      ++p;
      ++i;
    } else if (star < m) {
      p = star + 1;
      i = ++taken;
    } else {
      return false;
    }
  }
  while (p < m && is_star(p)) ++p;
  return p == m;
}

bool part_matches(std::string_view pattern, std::string_view name) {
  std::vector<std::string_view> signs;
  while (!pattern.empty()) {
    const std::size_t length = sign_length(pattern);
    signs.push_back(pattern.substr(0, length));
    pattern.remove_prefix(length);
  }
  return matches_in_order(
      signs.size(), name.size(), [&](std::size_t p) { return signs[p] == "*"; },
      [&](std::size_t p, std::size_t i) { return sign_matches(signs[p], name[i]); });
}

// Larger is closer.
std::tuple<int, int, int> closeness(std::string_view pattern) {
  const auto plain =
      std::count_if(pattern.begin(), pattern.end(), [](char c) { return c != '*' && c != '?'; });
  int deep = 0;
  int wild = 0;
  for (const std::string_view part : parts_of(pattern)) {
    deep += part == "**";
    wild += part.find_first_of("*?[") != std::string_view::npos;
  }
  return {-deep, -wild, static_cast<int>(plain)};
}

}  // namespace

bool path_matches(std::string_view pattern, std::string_view name) {
  const std::vector<std::string_view> patterns = parts_of(pattern);
  const std::vector<std::string_view> names = parts_of(name);
  return matches_in_order(
      patterns.size(), names.size(), [&](std::size_t p) { return patterns[p] == "**"; },
      [&](std::size_t p, std::size_t i) { return part_matches(patterns[p], names[i]); });
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
