#include "hyper_parallel/rules/text/notation.h"

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/handlers.h"
#include "hyper_parallel/rules/text/cursor.h"

namespace hyper_parallel::rules {
namespace {

class Parser : private Cursor {
 public:
  Parser(std::string_view text, bool sized)
      : Cursor(text, sized ? "*m k, *k n -> m n {m=8, k=16, n=4}" : "*... k, *n k, ?+n -> ... n"),
        sized_(sized) {}

  Notation run() {
    if (!none("->")) {
      do out_.inputs.push_back(tensor(true));
      while (take(","));
    }
    expect("->");
    if (!none("{") && !none(";") && !none("")) {
      do out_.outputs.push_back(tensor(false));
      while (take(","));
    }
    if (sized_ && take("{")) sizes();
    if (take(";")) {
      do option();
      while (take(","));
    }
    if (!at_end()) fail("nothing more expected");
    for (const auto* tensors : {&out_.inputs, &out_.outputs}) {
      for (const Notation::Tensor& t : *tensors) check_twice(t);
    }
    return std::move(out_);
  }

 private:
  // A rule of one call may have no tensors on a side; `next` follows them, nothing at the end.
  bool none(std::string_view next) {
    if (!sized_) return false;
    return next.empty() ? at_end() : peek(next);
  }
  std::string handler() {
    std::string out = name();
    const auto known = handlers();
    if (std::none_of(known.begin(), known.end(), [&](const auto& h) { return h.name == out; })) {
      fail("the name of a handler expected, not \"" + out + "\"");
    }
    return out;
  }
  Notation::Tensor tensor(bool input) {
    Notation::Tensor out;
    while (input) {
      if (take("*")) {
        out.linear = true;
        out.term = term();
      } else if (take("+")) {
        out.linear = out.addend = true;
        if (sized_ && take_here('!')) out.linear = false;
        out.term = term();
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
    if (sized_ && !peek("->") && take("-")) {
      out.absent = true;
      return out;
    }
    while (!peek(",") && !peek("->") && !peek(";") && !(sized_ && peek("{"))) {
      if (at_end()) break;
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
        if (sized_ && take("|")) {
          skip();
          out.joint = letter();
        }
      } while (!take(")"));
    } else if (take_here('_')) {
      out.kind = Notation::Dim::Kind::whole;
      if (sized_) {
        out.length = take_here('=') ? length() : 1;
      } else {
        if (take_here('=')) out.size = name();
        if (take_here('<')) out.most = known_letter();
      }
    } else {
      out.letters.push_back(letter());
    }
    if (sized_ && take_here('=')) {
      out.length = length();
      while (take_here('|')) {
        if (out.parts.empty()) out.parts.push_back(out.length);
        if (digit_here()) {
          out.parts.push_back(length());
          out.length += out.parts.back();
        }
      }
    }
    if (take_here('@')) {
      out.at = name();
      if (take_here('=')) out.at_default = number();
    }
    return out;
  }

  // The number of a term, right after its mark.
  std::optional<int> term() {
    if (!sized_ || !digit_here()) return {};
    return small();
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
    if (sized_ && digit_here()) fail("a letter expected");
    const std::string id = name();
    auto it = find_letter(id);
    const auto index = static_cast<int>(it - out_.letters.begin());
    if (it == out_.letters.end()) {
      out_.letters.emplace_back().name = id;
      it = out_.letters.end() - 1;
    }
    if (take_here('!')) it->blocked = true;
    if (take_here('~')) it->handler = handler();
    if (take_here('/')) {
      const std::string kind = name();
      if (kind == "R") {
        it->finished = true;
      } else {
        it->reduce = reduce_op(kind, "R or a kind of partial");
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

  // The factors in order, each with its size and what else holds of it.
  void sizes() {
    std::vector<Notation::Letter> ordered;
    std::vector<int> places;  // beside `ordered`: the letter's number so far
    do {
      skip();
      const int l = letter();
      Notation::Letter& made = out_.letters[static_cast<std::size_t>(l)];
      if (std::find(places.begin(), places.end(), l) != places.end()) fail("each letter once");
      if (!take_here('=')) fail("\"=\" and a size expected");
      made.size = length();
      while (!peek(",") && !peek("}")) fact(made);
      places.push_back(l);
    } while (take(","));
    expect("}");
    if (places.size() != out_.letters.size()) fail("the size of each letter expected before");
    std::vector<int> now(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      now[static_cast<std::size_t>(places[i])] = static_cast<int>(i);
      ordered.push_back(std::move(out_.letters[static_cast<std::size_t>(places[i])]));
    }
    out_.letters = std::move(ordered);
    for (auto* tensors : {&out_.inputs, &out_.outputs}) {
      for (Notation::Tensor& t : *tensors) {
        for (Notation::Dim& d : t.dims) {
          for (int& l : d.letters) l = now[static_cast<std::size_t>(l)];
          if (d.joint >= 0) d.joint = now[static_cast<std::size_t>(d.joint)];
        }
      }
    }
  }

  void fact(Notation::Letter& letter) {
    skip();
    const std::string word = name();
    if (word == "nonempty") {
      letter.nonempty = true;
    } else if (word == "plain") {
      letter.plain = true;
    } else if (word == "block" && take_here('=')) {
      letter.block = length();
    } else if (word == "window" && take_here('(')) {
      letter.window = window_facts();
    } else if (word == "part" && take_here('(')) {
      letter.part = interval();
    } else {
      fail("nonempty, plain, block=, part( or window( expected before");
    }
  }

  // What only the rule of one call says.
  bool sized_option(const std::string& word) {
    if (!sized_) return false;
    skip();
    if (take(":=")) {
      out_.rewrites.push_back(rewrite(word));
    } else if (word == "dynamic") {
      out_.dynamic = true;
    } else if (word == "writes") {
      const int input = small();
      expect("->");
      skip();
      out_.writes.emplace_back(input, small());
    } else if (word == "unwritten") {
      out_.unwritten.push_back(small());
    } else {
      return false;
    }
    return true;
  }

  void option() {
    skip();
    const std::string word = name();
    if (sized_option(word)) return;
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
      out_.reduce = reduce_op(word, "an option");
    }
  }

  bool sized_;
  Notation out_;
};

}  // namespace

Notation parse_notation(std::string_view text) { return Parser(text, false).run(); }

Notation parse_sized(std::string_view text) { return Parser(text, true).run(); }

}  // namespace hyper_parallel::rules
