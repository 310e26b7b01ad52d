#include "hyper_parallel/rules/text/notation.h"

#include <algorithm>
#include <charconv>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/handlers.h"

namespace hyper_parallel::rules {
namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Notation run() {
    do out_.inputs.push_back(tensor(true));
    while (take(","));
    expect("->");
    do out_.outputs.push_back(tensor(false));
    while (take(","));
    if (take(";")) {
      do option();
      while (take(","));
    }
    skip();
    if (at_ != text_.size()) fail("nothing more expected");
    for (const auto* tensors : {&out_.inputs, &out_.outputs}) {
      for (const Notation::Tensor& t : *tensors) check_twice(t);
    }
    return std::move(out_);
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool peek(std::string_view token) {
    skip();
    return text_.substr(at_, token.size()) == token;
  }
  bool take(std::string_view token) {
    if (!peek(token)) return false;
    at_ += token.size();
    return true;
  }
  // Marks follow their letter without a space.
  bool take_here(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail("\"" + std::string(token) + "\" expected");
  }
  std::string name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == begin) fail("a name expected");
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string handler() {
    std::string out = name();
    const auto known = handlers();
    if (std::none_of(known.begin(), known.end(), [&](const auto& h) { return h.name == out; })) {
      fail("the name of a handler expected, not \"" + out + "\"");
    }
    return out;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError(
        Message("HP-S050", "rule notation: " + what + " at place " + std::to_string(at_))
            .fact("text", text_)
            .fact("form", "*... k, *n k, ?+n -> ... n")
            .hint("docs/notation.md has the grammar"));
  }

  Notation::Tensor tensor(bool input) {
    Notation::Tensor out;
    while (input) {
      if (take("*")) {
        out.linear = true;
      } else if (take("+")) {
        out.linear = out.addend = true;
      } else if (take("#")) {
        out.shape_only = true;
      } else if (take("?")) {
        out.optional = true;
      } else if (take("^")) {
        out.broadcast = true;
      } else {
        break;
      }
    }
    if (!input && take("=")) {
      out.same = true;
      return out;
    }
    if (take("()")) return out;
    while (!peek(",") && !peek("->") && !peek(";")) {
      skip();
      if (at_ == text_.size()) break;
      out.dims.push_back(dim());
    }
    if (out.dims.empty()) fail("dims expected, or () for none");
    const auto dots = std::count_if(out.dims.begin(), out.dims.end(), [](const auto& d) {
      return d.kind == Notation::Dim::Kind::ellipsis;
    });
    if (dots > 1) fail("at most one ... a tensor");
    return out;
  }

  Notation::Dim dim() {
    Notation::Dim out;
    if (take("...")) {
      out.kind = Notation::Dim::Kind::ellipsis;
      return out;
    }
    if (take("(")) {
      do {
        skip();
        out.letters.push_back(letter());
      } while (!take(")"));
    } else if (text_[at_] == '_') {
      ++at_;
      out.kind = Notation::Dim::Kind::whole;
      if (take_here('=')) out.size = name();
      if (take_here('<')) out.most = known_letter();
    } else {
      out.letters.push_back(letter());
    }
    if (take_here('@')) {
      out.at = name();
      if (take_here('=')) out.at_default = number();
    }
    return out;
  }

  std::int64_t number() {
    std::int64_t value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number expected");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  auto find_letter(const std::string& id) {
    return std::find_if(out_.letters.begin(), out_.letters.end(),
                        [&](const Notation::Letter& l) { return l.name == id; });
  }

  int known_letter() {
    const auto it = find_letter(name());
    if (it == out_.letters.end()) fail("a letter of an operand expected");
    return static_cast<int>(it - out_.letters.begin());
  }

  int letter() {
    const std::string id = name();
    auto it = find_letter(id);
    const auto index = static_cast<int>(it - out_.letters.begin());
    if (it == out_.letters.end()) {
      out_.letters.emplace_back().name = id;
      it = out_.letters.end() - 1;
    }
    if (take_here('!')) it->blocked = true;
    if (take_here('~')) {
      it->handler = handler();
      if (take_here('/')) {
        expect("R");
        it->finished = true;
      }
    }
    return index;
  }

  // A mesh axis cannot cut two dims of a tensor, so a letter on two of them is never split.
  void check_twice(const Notation::Tensor& tensor) const {
    std::vector<char> seen(out_.letters.size(), 0);
    for (const Notation::Dim& d : tensor.dims) {
      for (int l : d.letters) {
        const auto index = static_cast<std::size_t>(l);
        const Notation::Letter& letter = out_.letters[index];
        if (seen[index] != 0 && !letter.blocked) {
          fail("\"" + letter.name + "!\" for a letter on two dims of a tensor expected");
        }
        seen[index] = 1;
      }
    }
  }

  void option() {
    skip();
    const std::string word = name();
    if (word == "any") {
      out_.partial = PartialRule::any;
    } else if (word == "monotone") {
      out_.partial = PartialRule::monotone;
    } else if (word == "same") {
      out_.partial = PartialRule::one;
    } else if (word == "random") {
      out_.random = true;
    } else if (word == "view") {
      out_.aliases = true;
    } else if (word == "nonempty") {
      out_.nonempty = true;
    } else if (word == "filled") {
      out_.filled = true;
    } else if (word == "handler") {
      skip();
      out_.handler = handler();
    } else {
      try {
        out_.reduce = parse_reduce_op(word);
      } catch (const UsageError&) {
        fail("an option expected, not \"" + word + "\"");
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Notation out_;
};

}  // namespace

Notation parse_notation(std::string_view text) { return Parser(text).run(); }

}  // namespace hyper_parallel::rules
