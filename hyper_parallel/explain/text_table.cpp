#include "hyper_parallel/explain/text_table.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace hyper_parallel::explain {
namespace {

// Characters, not bytes: names of functions may be in any script.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; }));
}

}  // namespace

std::string aligned(const std::vector<std::vector<std::string>>& lines,
                    std::initializer_list<std::size_t> right) {
  std::vector<std::size_t> widths;
  for (const auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], width_of(line[i]));
  }
  std::string out;
  for (const auto& line : lines) {
    if (!out.empty()) out += '\n';
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string blanks(widths[i] - width_of(line[i]), ' ');
      const bool to_right = std::find(right.begin(), right.end(), i) != right.end();
      if (i > 0) text += "  ";
      text += to_right ? blanks + line[i] : line[i] + blanks;
    }
    out += text.substr(0, text.find_last_not_of(' ') + 1);
  }
  return out;
}

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string time_text(double seconds) {
  const char* unit = seconds >= 1 ? "s" : seconds >= 1e-3 ? "ms" : "us";
  const double scale = seconds >= 1 ? 1 : seconds >= 1e-3 ? 1e3 : 1e6;
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.1f %s", seconds * scale, unit);
  return out.data();
}

}  // namespace hyper_parallel::explain
