#include "hyper_parallel/rules/text/cursor.h"

#include <charconv>

#include "hyper_parallel/core/error.h"

namespace hyper_parallel::rules {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

constexpr std::int64_t kMost = 1 << 20;                   // operands, results, dims, terms
constexpr std::int64_t kLongest = std::int64_t{1} << 50;  // of one dim

}  // namespace

void Cursor::skip() {
  while (at_ < text_.size() && text_[at_] == ' ') ++at_;
}

bool Cursor::at_end() {
  skip();
  return at_ == text_.size();
}

bool Cursor::peek(std::string_view token) {
  skip();
  return text_.substr(at_, token.size()) == token;
}

bool Cursor::take(std::string_view token) {
  if (!peek(token)) return false;
  at_ += token.size();
  return true;
}

void Cursor::expect(std::string_view token) {
  if (!take(token)) fail("\"" + std::string(token) + "\" expected");
}

bool Cursor::take_here(char c) {
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

bool Cursor::digit_here() const { return at_ < text_.size() && is_digit(text_[at_]); }

std::string Cursor::name() {
  const std::size_t begin = at_;
  while (at_ < text_.size() && is_name(text_[at_])) ++at_;
  if (at_ == begin) fail("a name expected");
  return std::string(text_.substr(begin, at_ - begin));
}

std::int64_t Cursor::number() {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error != std::errc()) fail("a number expected");
  at_ = static_cast<std::size_t>(end - text_.data());
  return value;
}

int Cursor::small() {
  skip();
  const std::int64_t value = number();
  if (value < 0 || value > kMost) fail("a small number expected");
  return static_cast<int>(value);
}

std::int64_t Cursor::length() {
  if (take_here('?')) return -1;
  const std::int64_t value = number();
  if (value < 0 || value > kLongest) fail("a length expected");
  return value;
}

Interval Cursor::interval() {
  skip();
  const std::int64_t begin = length();
  expect("->");
  skip();
  const std::int64_t end = length();
  expect(")");
  return {begin, end};
}

Window Cursor::window_facts() {
  Window out;
  skip();
  out.operand = length();
  expect("->");
  skip();
  out.result = length();
  while (!take(")")) {
    skip();
    const std::string word = name();
    if (word == "transposed") {
      out.transposed = true;
      continue;
    }
    std::int64_t* const field = word == "kernel"     ? &out.kernel
                                : word == "stride"   ? &out.stride
                                : word == "padding"  ? &out.padding
                                : word == "dilation" ? &out.dilation
                                                     : nullptr;
    if (field == nullptr || !take_here('=')) {
      fail("kernel=, stride=, padding=, dilation= or transposed expected before");
    }
    *field = length();
  }
  return out;
}

ReduceOp Cursor::reduce_op(const std::string& word, const std::string& wanted) const {
  try {
    return parse_reduce_op(word);
  } catch (const UsageError&) {
    fail(wanted + " expected, not \"" + word + "\"");
  }
}

Rewrite Cursor::rewrite(std::string argument) {
  Rewrite out{.argument = std::move(argument)};
  skip();
  const std::string kind = name();
  if (kind == "shape") {
    out.kind = Rewrite::Kind::local_shape;
    out.tensor = small();
  } else if (kind == "length") {
    out.kind = Rewrite::Kind::local_size;
    out.tensor = small();
    out.dim = small();
  } else if (kind == "lengths") {
    out.kind = Rewrite::Kind::local_sizes;
    out.dim = small();
  } else {
    fail("shape, length or lengths expected before");
  }
  return out;
}

void Cursor::fail(const std::string& what) const {
  throw UsageError(Message("HP-S050", "rule notation: " + what + " at place " + std::to_string(at_))
                       .fact("text", text_)
                       .fact("form", form_)
                       .hint("docs/notation.md has the grammar"));
}

}  // namespace hyper_parallel::rules
