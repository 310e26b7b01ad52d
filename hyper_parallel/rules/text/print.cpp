// The rule of one call as text, and back.

#include "hyper_parallel/rules/text/print.h"

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/text/notation.h"

namespace hyper_parallel::rules {
namespace {

bool among(const std::vector<int>& list, int factor) {
  return std::find(list.begin(), list.end(), factor) != list.end();
}

bool holds(const TensorMap& map, int factor) {
  return among(map.joint, factor) ||
         std::any_of(map.dims.begin(), map.dims.end(),
                     [&](const auto& dim) { return among(dim, factor); });
}

std::string length_text(std::int64_t length) { return length < 0 ? "?" : std::to_string(length); }

class Printer {
 public:
  explicit Printer(const ConcreteRule& rule) : rule_(rule) {}

  std::string run() {
    name_factors();
    op_ = common_op();
    shown_.assign(rule_.factors.size(), 0);
    std::string out = tensors(rule_.inputs, true) + (rule_.inputs.empty() ? "->" : " ->");
    if (!rule_.outputs.empty()) out += " " + tensors(rule_.outputs, false);
    if (!rule_.factors.empty()) out += " {" + sizes() + "}";
    const std::string words = join(options(), ", ");
    return words.empty() ? out : out + "; " + words;
  }

 private:
  // Rows of letters have one kind of sum, which is then an option of the whole.
  ReduceOp common_op() const {
    if (rule_.partial == PartialRule::one) return rule_.partial_op;
    for (const Factor& f : rule_.factors) {
      if (f.kind == FactorKind::reduce) return f.reduce;
    }
    return ReduceOp::sum;
  }

  void name_factors() {
    for (const Factor& f : rule_.factors) {
      const std::string base = f.name.empty() ? "f" : f.name;
      std::string name = base;
      for (int n = 2; std::find(names_.begin(), names_.end(), name) != names_.end(); ++n) {
        name = base + "_" + std::to_string(n);
      }
      names_.push_back(std::move(name));
    }
  }

  bool on_result(int factor) const {
    return std::any_of(rule_.outputs.begin(), rule_.outputs.end(),
                       [&](const TensorMap& map) { return map.present && holds(map, factor); });
  }

  // Marks follow the first letter of a factor.
  std::string letter(int factor) {
    const Factor& f = rule_.factors[at(factor)];
    std::string out = names_[at(factor)];
    if (shown_[at(factor)] != 0) return out;
    shown_[at(factor)] = 1;
    if (f.kind == FactorKind::blocked) out += "!";
    if (!f.handler.empty()) out += "~" + f.handler;
    const bool held = on_result(factor);
    if (f.kind == FactorKind::pass && !held) out += "/R";
    if (f.kind == FactorKind::reduce && (held || f.reduce != op_)) {
      out += "/" + std::string(hyper_parallel::to_string(f.reduce));
    }
    return out;
  }

  std::string dim(const TensorMap& map, std::size_t d) {
    const std::vector<int>& factors = map.dims[d];
    const std::int64_t size = map.sizes[d];
    if (factors.empty()) return size == 1 ? "_" : "_=" + length_text(size);
    std::vector<std::string> letters;
    std::int64_t known = 1;
    for (int f : factors) {
      letters.push_back(letter(f));
      known *= rule_.factors[at(f)].size;
    }
    std::string out = join(letters, " ");
    const bool joint = !map.joint.empty() && map.joint[d] != kNoFactor;
    if (joint) out += "|" + letter(map.joint[d]);
    if (joint || letters.size() > 1) out = "(" + out + ")";
    if (!map.segments.empty() && !map.segments[d].empty()) {
      out += "=";
      for (std::int64_t part : map.segments[d]) out += length_text(part) + "|";
      if (map.segments[d].size() > 1) out.pop_back();
    } else if (known != size) {
      out += "=" + length_text(size);
    }
    return out;
  }

  std::string marks(const TensorMap& map) const {
    std::string out;
    if (map.addend) {
      out = map.linear ? "+" : "+!";
      if (map.linear && shares_term(map)) out += std::to_string(map.term);
    } else if (map.linear) {
      out = map.term == 0 ? "*" : "*" + std::to_string(map.term) + " ";
    }
    return out + (map.shape_only ? "#" : "");
  }

  bool shares_term(const TensorMap& map) const {
    return std::count_if(rule_.inputs.begin(), rule_.inputs.end(), [&](const TensorMap& other) {
             return other.present && other.linear && other.term == map.term;
           }) > 1;
  }

  std::string tensors(const std::vector<TensorMap>& maps, bool inputs) {
    std::vector<std::string> out;
    for (const TensorMap& map : maps) {
      if (!map.present) {
        out.emplace_back("-");
        continue;
      }
      std::vector<std::string> dims;
      for (std::size_t d = 0; d < map.dims.size(); ++d) dims.push_back(dim(map, d));
      out.push_back((inputs ? marks(map) : "") + (dims.empty() ? "()" : join(dims, " ")));
    }
    return join(out, ", ");
  }

  static std::string window_text(const Window& w) {
    std::string out = "window(" + std::to_string(w.operand) + " -> " + std::to_string(w.result);
    const auto add = [&](const char* name, std::int64_t value, std::int64_t usual) {
      if (value != usual) out += std::string(" ") + name + "=" + std::to_string(value);
    };
    add("kernel", w.kernel, 1);
    add("stride", w.stride, 1);
    add("padding", w.padding, 0);
    add("dilation", w.dilation, 1);
    return out + (w.transposed ? " transposed)" : ")");
  }

  bool filled() const {
    return !rule_.factors.empty() && std::all_of(rule_.factors.begin(), rule_.factors.end(),
                                                 [](const Factor& f) { return f.nonempty; });
  }

  std::string sizes() {
    std::vector<std::string> out;
    const bool all = filled();
    for (int i = 0; i < static_cast<int>(rule_.factors.size()); ++i) {
      const Factor& f = rule_.factors[at(i)];
      std::string text = letter(i) + "=" + length_text(f.size);
      if (f.block != 1) text += " block=" + std::to_string(f.block);
      if (f.nonempty && !all) text += " nonempty";
      if (f.plain) text += " plain";
      if (f.part) {
        text +=
            " part(" + std::to_string(f.part->begin) + " -> " + std::to_string(f.part->end) + ")";
      }
      if (f.window) text += " " + window_text(*f.window);
      out.push_back(std::move(text));
    }
    return join(out, ", ");
  }

  std::vector<std::string> options() const {
    std::vector<std::string> out;
    if (op_ != ReduceOp::sum) out.emplace_back(hyper_parallel::to_string(op_));
    if (rule_.partial == PartialRule::any) out.emplace_back("any");
    if (rule_.partial == PartialRule::monotone) out.emplace_back("monotone");
    if (rule_.partial == PartialRule::one) out.emplace_back("same");
    if (filled()) out.emplace_back("filled");
    if (rule_.random) out.emplace_back("random");
    if (rule_.aliases) out.emplace_back("view");
    if (rule_.dynamic) out.emplace_back("dynamic");
    if (!rule_.handler.empty()) out.push_back("handler " + rule_.handler);
    for (const auto& [input, output] : rule_.writes) {
      out.push_back("writes " + std::to_string(input) + "->" + std::to_string(output));
    }
    for (std::size_t i = 0; i < rule_.inputs.size(); ++i) {
      if (rule_.inputs[i].ignore_pin) out.push_back("unwritten " + std::to_string(i));
    }
    for (const Rewrite& r : rule_.rewrites) {
      std::string text = r.argument + ":=";
      switch (r.kind) {
        case Rewrite::Kind::local_shape:
          text += "shape " + std::to_string(r.tensor);
          break;
        case Rewrite::Kind::local_size:
          text += "length " + std::to_string(r.tensor) + " " + std::to_string(r.dim);
          break;
        case Rewrite::Kind::local_sizes:
          text += "lengths " + std::to_string(r.dim);
          break;
      }
      out.push_back(std::move(text));
    }
    return out;
  }

  const ConcreteRule& rule_;
  std::vector<std::string> names_;  // beside factors
  std::vector<char> shown_;         // beside factors: its marks stand somewhere
  ReduceOp op_ = ReduceOp::sum;
};

std::string numbers(const std::vector<int>& list) {
  std::vector<std::string> out;
  for (int i : list) out.push_back(std::to_string(i));
  return join(out, " ");
}

// One line a part: `[0 2 -> 0] *d0 d1, *1 d0 d1 -> d0 d1 {d0=8, d1=16}`.
std::string parts_text(const ConcreteRule& rule) {
  std::vector<std::string> lines;
  for (const Part& part : rule.parts) {
    lines.push_back("[" + numbers(part.inputs) + " ->" + (part.outputs.empty() ? "" : " ") +
                    numbers(part.outputs) + "] " + to_string(part.rule));
  }
  return (rule.handler.empty() ? "" : "handler " + rule.handler + "\n") + join(lines, "\n");
}

[[noreturn]] void throw_bad(std::string_view text, const std::string& what) {
  throw UsageError(Message("HP-S050", "rule notation: " + what).fact("text", text));
}

// The tensors of a text with sizes.
class Reader {
 public:
  Reader(std::string_view text, const Notation& notation) : text_(text), notation_(notation) {}

  ConcreteRule run() {
    factors();
    for (const Notation::Tensor& t : notation_.inputs) rule_.inputs.push_back(tensor(t));
    for (const Notation::Tensor& t : notation_.outputs) rule_.outputs.push_back(tensor(t));
    set_terms();
    for (int i : notation_.unwritten) input(i).ignore_pin = true;
    for (const auto& [i, o] : notation_.writes) {
      input(i);
      output(o);
    }
    for (const Rewrite& r : notation_.rewrites) output(r.tensor);
    rule_.writes = notation_.writes;
    rule_.rewrites = notation_.rewrites;
    rule_.partial = notation_.partial;
    rule_.partial_op = notation_.reduce;
    rule_.random = notation_.random;
    rule_.aliases = notation_.aliases;
    rule_.dynamic = notation_.dynamic;
    rule_.handler = notation_.handler;
    return std::move(rule_);
  }

 private:
  TensorMap& input(int i) {
    if (at(i) >= rule_.inputs.size()) throw_bad(text_, "no operand " + std::to_string(i));
    return rule_.inputs[at(i)];
  }

  void output(int i) const {
    if (at(i) >= rule_.outputs.size()) throw_bad(text_, "no result " + std::to_string(i));
  }

  void factors() {
    for (int l = 0; l < static_cast<int>(notation_.letters.size()); ++l) {
      const Notation::Letter& letter = notation_.letters[at(l)];
      if (letter.size == Notation::kNoSize) throw_bad(text_, "\"" + letter.name + "\" has no size");
      Factor f;
      f.name = letter.name;
      f.size = letter.size;
      f.block = letter.block;
      f.handler = letter.handler;
      f.nonempty = letter.nonempty || notation_.filled;
      f.plain = letter.plain;
      f.window = letter.window;
      f.part = letter.part;
      f.reduce = letter.reduce.value_or(notation_.reduce);
      const bool reduced = letter.reduce || (!letter.finished && !on_result(l));
      if (reduced) f.kind = FactorKind::reduce;
      f.nonempty |= notation_.nonempty && reduced;
      if (letter.blocked) f.kind = FactorKind::blocked;
      rule_.factors.push_back(std::move(f));
    }
  }

  bool on_result(int letter) const {
    for (const Notation::Tensor& t : notation_.outputs) {
      for (const Notation::Dim& d : t.dims) {
        if (d.joint == letter) return true;
        if (std::find(d.letters.begin(), d.letters.end(), letter) != d.letters.end()) return true;
      }
    }
    return false;
  }

  TensorMap tensor(const Notation::Tensor& t) const {
    if (t.same || t.optional || t.broadcast) {
      throw_bad(text_, "\"=\", \"?\" and \"^\" stand in rows only");
    }
    TensorMap map;
    map.present = !t.absent;
    map.linear = t.linear;
    map.addend = t.addend;
    map.shape_only = t.shape_only;
    for (const Notation::Dim& d : t.dims) {
      if (d.kind == Notation::Dim::Kind::ellipsis || !d.at.empty()) {
        throw_bad(text_, "\"...\" and \"@\" stand in rows only");
      }
      map.dims.push_back(d.letters);
      map.sizes.push_back(d.length == Notation::kNoSize ? length(d) : d.length);
      if (d.joint >= 0) {
        map.joint.resize(t.dims.size(), kNoFactor);
        map.joint[map.dims.size() - 1] = d.joint;
      }
      if (d.parts.empty()) continue;
      map.segments.resize(t.dims.size());
      map.segments[map.dims.size() - 1] = d.parts;
    }
    return map;
  }

  std::int64_t length(const Notation::Dim& dim) const {
    std::int64_t out = 1;
    for (int l : dim.letters) {
      if (__builtin_mul_overflow(out, rule_.factors[at(l)].size, &out)) {
        throw_bad(text_, "a dim is too long");
      }
    }
    return out;
  }

  // An addend without a number is a term of its own.
  void set_terms() {
    int next = 0;
    for (std::size_t i = 0; i < rule_.inputs.size(); ++i) {
      TensorMap& map = rule_.inputs[i];
      const std::optional<int> given = notation_.inputs[i].term;
      if (!map.linear || (map.addend && !given)) continue;
      map.term = given.value_or(0);
      next = std::max(next, map.term + 1);
    }
    for (std::size_t i = 0; i < rule_.inputs.size(); ++i) {
      TensorMap& map = rule_.inputs[i];
      if (map.linear && map.addend && !notation_.inputs[i].term) map.term = next++;
    }
  }

  std::string_view text_;
  const Notation& notation_;
  ConcreteRule rule_;
};

}  // namespace

std::string to_string(const ConcreteRule& rule) {
  return rule.parts.empty() ? Printer(rule).run() : parts_text(rule);
}

ConcreteRule parse_rule(std::string_view text) { return Reader(text, parse_sized(text)).run(); }

}  // namespace hyper_parallel::rules
