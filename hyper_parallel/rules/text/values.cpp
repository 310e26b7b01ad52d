#include "hyper_parallel/rules/text/values.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"

namespace hyper_parallel::rules {
namespace {

constexpr std::pair<std::string_view, std::string_view> kDTypeNames[] = {
    {"float64", "f64"}, {"double", "f64"}, {"float32", "f32"},   {"float", "f32"},
    {"float16", "f16"}, {"half", "f16"},   {"bfloat16", "bf16"}, {"int64", "i64"},
    {"long", "i64"},    {"int32", "i32"},  {"int", "i32"},       {"int16", "i16"},
    {"int8", "i8"},     {"uint8", "u8"},   {"complex64", "c64"}, {"complex128", "c128"},
};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

// The first separator outside parentheses: placements have options of their own, `S(0; block=4)`.
std::size_t find_outside(std::string_view text, char separator) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && depth > 0) --depth;
    if (text[i] == separator && depth == 0) return i;
  }
  return std::string_view::npos;
}

// The parts between separators, trimmed.
std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t end = find_outside(text, separator);
    out.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Integers with commas between them, and one after the last if you like.
std::optional<std::vector<std::int64_t>> integers_of(std::string_view text) {
  std::vector<std::int64_t> out;
  if (trimmed(text).empty()) return out;
  std::vector<std::string_view> parts = parts_of(text, ',');
  if (parts.size() > 1 && parts.back().empty()) parts.pop_back();
  for (const std::string_view part : parts) {
    const auto value = number_of<std::int64_t>(part);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

[[noreturn]] void no_tensor(std::string_view text) {
  throw UsageError(Message("HP-S043", "'" + std::string(text) + "' describes no tensor")
                       .fact("form", "f32[8, 16] on dp=2 tp=4: S(0) R"));
}

[[noreturn]] void no_attribute(std::string_view text) {
  throw UsageError(Message("HP-S042", "'" + std::string(text) + "' is no attribute")
                       .fact("form", "dim=1 keepdim=True shape=[2, 3] equation='ij->i'"));
}

std::optional<OperandText> operand_or_absent(std::string_view text) {
  if (text == "-") return std::nullopt;
  return parse_operand(text);
}

Attr value_of(std::string_view text) {
  if (text == "None") return std::monostate{};
  if (text == "True") return true;
  if (text == "False") return false;
  if (const auto value = number_of<std::int64_t>(text)) return *value;
  if (const auto value = number_of<double>(text); value && std::isfinite(*value)) return *value;
  const char first = text.front();
  if (first == '[') {
    const auto values = integers_of(text.substr(1, text.size() - 2));
    if (!values) no_attribute(text);
    return *values;
  }
  const bool quoted = (first == '\'' || first == '"') && text.size() > 1 && text.back() == first;
  return std::string(quoted ? text.substr(1, text.size() - 2) : text);
}

// Where a value that starts the text ends: a list at its bracket, a quoted text at its quote,
// others at a blank.
std::size_t length_of_value(std::string_view text) {
  const char first = text.empty() ? ' ' : text.front();
  const std::string_view closing = first == '['    ? "]"
                                   : first == '\'' ? "'"
                                   : first == '"'  ? "\""
                                                   : "";
  if (closing.empty()) return std::min(text.find_first_of(" \t\n"), text.size());
  const std::size_t end = text.find(closing, 1);
  return end == std::string_view::npos ? 0 : end + 1;
}

}  // namespace

std::string short_dtype(std::string_view name) {
  while (name.starts_with("torch.")) name.remove_prefix(6);
  for (const auto& [known, ours] : kDTypeNames) {
    if (known == name) return std::string(ours);
  }
  return std::string(name);
}

OperandText parse_operand(std::string_view text) {
  const std::string_view whole = trimmed(text);
  const std::size_t open = whole.find('[');
  const std::size_t close = whole.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    no_tensor(text);
  }
  const std::string_view kind = trimmed(whole.substr(0, open));
  const auto sizes = integers_of(whole.substr(open + 1, close - open - 1));
  if (kind.empty() || !sizes) no_tensor(text);
  std::string_view layout = trimmed(whole.substr(close + 1));
  if (layout == "on" || layout.starts_with("on ")) layout.remove_prefix(2);
  return {short_dtype(kind), *sizes, std::string(trimmed(layout))};
}

std::string to_string(const OperandText& operand) {
  return operand.dtype + hyper_parallel::to_string(operand.sizes) +
         (operand.layout.empty() ? "" : " " + operand.layout);
}

OperandTexts parse_operands(std::string_view text) {
  OperandTexts out;
  std::string_view rest = trimmed(text);
  while (!rest.empty()) {
    const bool is_list = rest.front() == '{';
    const std::size_t end = find_outside(rest, is_list ? '}' : ';');
    if (is_list && end == std::string_view::npos) no_tensor(rest);
    const std::string_view part = trimmed(rest.substr(is_list ? 1 : 0, is_list ? end - 1 : end));
    if (is_list) {
      int length = 0;
      for (const std::string_view each : parts_of(part, ';')) {
        if (each.empty()) continue;
        out.operands.push_back(operand_or_absent(each));
        ++length;
      }
      out.list_lengths.push_back(length);
    } else if (!part.empty()) {
      out.operands.push_back(operand_or_absent(part));
      out.list_lengths.push_back(-1);
    }
    rest = end == std::string_view::npos ? "" : trimmed(rest.substr(end + 1));
    if (is_list && rest.starts_with(";")) rest = trimmed(rest.substr(1));
  }
  return out;
}

std::map<std::string, Attr, std::less<>> parse_attrs(std::string_view text) {
  std::map<std::string, Attr, std::less<>> out;
  std::string_view rest = trimmed(text);
  while (!rest.empty()) {
    const std::size_t equals = rest.find('=');
    const std::string_view name = rest.substr(0, std::min(equals, rest.size()));
    const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    });
    if (equals == std::string_view::npos || !is_name) no_attribute(rest);
    rest.remove_prefix(equals + 1);
    const std::size_t length = length_of_value(rest);
    if (length == 0) no_attribute(std::string(name) + "=" + std::string(rest));
    out.insert_or_assign(std::string(name), value_of(rest.substr(0, length)));
    rest = trimmed(rest.substr(length));
  }
  return out;
}

std::string to_string(const Attr& value) {
  struct Text {
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(bool x) const { return x ? "True" : "False"; }
    std::string operator()(std::int64_t x) const { return std::to_string(x); }
    std::string operator()(double x) const {
      std::array<char, 32> out{};
      const auto end = std::to_chars(out.data(), out.data() + out.size(), x).ptr;
      const std::string text(out.data(), end);
      return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
    }
    std::string operator()(const std::string& x) const {
      return x.find('\'') == std::string::npos ? "'" + x + "'" : "\"" + x + "\"";
    }
    std::string operator()(const std::vector<std::int64_t>& x) const {
      return hyper_parallel::to_string(x);
    }
  };
  return std::visit(Text{}, value);
}

}  // namespace hyper_parallel::rules
