// Parsers of text get random bytes and damaged texts. Each gives a value that prints in one way and
// is read back as the same value, or a UsageError; an error of syntax has the place. `make
// fuzz-text SECONDS=60` goes on for a minute a form.

#include <doctest/doctest.h>

#include <cctype>
#include <cstdio>
#include <functional>

#include "hyper_parallel/core/path_pattern.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/explain/plan_text.h"
#include "hyper_parallel/rules/query/read_call.h"
#include "hyper_parallel/rules/text/notation.h"
#include "hyper_parallel/rules/text/print.h"
#include "hyper_parallel/rules/text/values.h"
#include "tests/core/support.h"
#include "tests/fuzz/fuzz.h"

namespace hyper_parallel::test {
namespace {

const std::vector<std::string> kMeshes = {"dp=2 tp=4", "x=1", "dp=2 tp=2 ranks=[0, 2, 1, 3]",
                                          "a-b.c_0=3"};
const std::vector<std::string> kMetas = {"f32[4096, 1024]", "bool[]", "bf16[8]", "other[1, 0, 3]"};
const std::vector<std::string> kLayouts = {"S(0) R",
                                           "P(sum) P(max)",
                                           "S(0, 1) S(0, 0)",
                                           "R S(0; block=64)",
                                           "S(1; segments=64|32|32) R",
                                           "S(0; block=4; segments=8|8) S(0)"};
const std::vector<std::string> kTokens = {
    "S(",     "R",   "P(", "sum", "avg", ")",  "(",  ",",   ";", "|", "=", "block=", "segments=",
    "ranks=", "on ", ": ", "[",   "]",   "dp", "tp", "f32", " ", "-", ".", "0",      "1"};

std::vector<std::string> with_meshes() {
  std::vector<std::string> out;
  for (const std::string& layout : kLayouts) out.push_back("dp=2 tp=4: " + layout);
  out.push_back("a=2 b=2 c=2: S(0, 1) S(0, 2) S(0, 0)");
  return out;
}

std::vector<std::string> described() {
  std::vector<std::string> out;
  for (const std::string& text : with_meshes()) out.push_back("f32[16, 128] on " + text);
  return out;
}

// "... at place 12", within the text.
bool has_place(const std::string& message, std::size_t size) {
  const std::string line = message.substr(0, message.find("\n  "));
  const std::size_t at = line.rfind(" at place ");
  if (at == std::string::npos) return false;
  return std::stoul(line.substr(at + 10)) <= size;
}

// `read` reads a text and prints what it has read.
void fuzz(const std::vector<std::string>& valid, const std::vector<std::string>& tokens,
          const std::function<std::string(const std::string&)>& read, bool places = true) {
  for (const std::string& text : valid) CHECK_NOTHROW(read(text));
  Random random(20261201);
  int values = 0;
  for (Rounds rounds(6000); rounds.more();) {
    const std::string text = damaged(random, valid, tokens);
    std::string wrong;
    try {
      const std::string printed = read(text);
      ++values;
      const std::string again = read(printed);
      if (again != printed) wrong = "printed " + printed + ", then " + again;
    } catch (const UsageError& e) {
      const bool syntax = e.code() == "HP-T001" || e.code() == "HP-S050";
      if (places && syntax && !has_place(e.what(), text.size()))
        wrong = std::string("no place: ") + e.what();
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    if (!wrong.empty()) FAIL_CHECK("text \"" << text << "\": " << wrong);
  }
  CHECK(values > 100);  // the texts are not all nonsense
}

// What a pattern means, by trying everything.
bool slow_part(std::string_view p, std::string_view n) {
  if (p.empty()) return n.empty();
  if (p[0] == '*') {
    return slow_part(p.substr(1), n) || (!n.empty() && slow_part(p, n.substr(1)));
  }
  if (n.empty()) return false;
  const std::size_t least = p.substr(1).starts_with('!') ? 3 : 2;
  const std::size_t end = p[0] == '[' ? p.find(']', least) : std::string_view::npos;
  if (end == std::string_view::npos) {
    return (p[0] == '?' || p[0] == n[0]) && slow_part(p.substr(1), n.substr(1));
  }
  bool in = false;
  for (std::size_t i = least - 1; i < end; ++i) {
    const bool range = i + 2 < end && p[i + 1] == '-';
    in |= range ? p[i] <= n[0] && n[0] <= p[i + 2] : p[i] == n[0];
    if (range) i += 2;
  }
  return in != (least == 3) && slow_part(p.substr(end + 1), n.substr(1));
}

bool slow_path(const std::vector<std::string>& p, const std::vector<std::string>& n,
               std::size_t i = 0, std::size_t j = 0) {
  if (i == p.size()) return j == n.size();
  if (p[i] == "**") return slow_path(p, n, i + 1, j) || (j < n.size() && slow_path(p, n, i, j + 1));
  return j < n.size() && slow_part(p[i], n[j]) && slow_path(p, n, i + 1, j + 1);
}

std::vector<std::string> parts(const std::string& text) {
  std::vector<std::string> out(1);
  for (char c : text) {
    if (c == '.') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

}  // namespace

TEST_SUITE("FuzzText") {
  TEST_CASE("mesh") {
    fuzz(kMeshes, kTokens, [](const std::string& text) { return parse_mesh(text)->to_string(); });
  }

  TEST_CASE("tensor") {
    fuzz(kMetas, kTokens, [](const std::string& text) { return to_string(parse_meta(text)); });
  }

  TEST_CASE("element type") {
    fuzz({"f32", "bool", "c128"}, {"f", "b", "32", "i", "64", "ool"},
         [](const std::string& text) { return std::string(to_string(parse_dtype(text))); });
  }

  TEST_CASE("kind of a partial value") {
    fuzz({"sum", "mean", "product"}, {"s", "um", "a", "vg", "max", "min", "prod"},
         [](const std::string& text) { return std::string(to_string(parse_reduce_op(text))); });
  }

  TEST_CASE("layout on a known mesh") {
    const Mesh* mesh = parse_mesh("dp=2 tp=4");
    fuzz(kLayouts, kTokens,
         [&](const std::string& text) { return parse_layout(mesh, text)->to_string(); });
  }

  TEST_CASE("layout with its mesh") {
    fuzz(with_meshes(), kTokens,
         [](const std::string& text) { return to_string_with_mesh(parse_layout(text)); });
  }

  TEST_CASE("tensor with its layout") {
    fuzz(described(), kTokens, [](const std::string& text) {
      const Described d = parse_described(text);
      // What can be read can be asked for its sizes.
      for (int rank : d.layout->mesh()->ranks()) {
        if (d.layout->max_dim() >= static_cast<int>(d.meta.sizes.size())) break;
        const auto at = *d.layout->mesh()->coordinate(rank);
        try {
          local_shape(d.layout, d.meta.sizes, at);
        } catch (const UsageError& e) {
          CHECK(e.code() == "HP-L006");
        }
        if (rank > 64) break;
      }
      return to_string(d.meta, d.layout);
    });
  }

  TEST_CASE("redistribution") {
    Random random(5);
    int plans = 0;
    for (Rounds rounds(3000); rounds.more();) {
      const std::string source = damaged(random, described(), kTokens);
      const bool whole = random.below(2) == 0;
      const std::string target = whole ? random.pick(kLayouts) : damaged(random, kLayouts, kTokens);
      if (std::getenv("HP_FUZZ_SHOW") != nullptr) {
        std::fprintf(stderr, "%s -> %s\n", source.c_str(), target.c_str());
      }
      try {
        const auto plan = explain::read_plan(source, target);
        explain::plan_text(*plan);
        explain::plan_json(*plan);
        ++plans;
      } catch (const UsageError&) {
      } catch (const UnsupportedError&) {
      } catch (const std::exception& e) {
        FAIL_CHECK(source << " -> " << target << ": " << e.what());
      }
    }
    CHECK(plans > 100);
  }

  TEST_CASE("rule") {
    fuzz({"m k, k n -> m n", "*... k, *n k, ?+n -> ... n",
          "... d~softmax@dim -> =", "*v~embedding d, ... -> ... d", "a (b c), b -> a b c",
          "... d!@dim=-1 -> ... _=k<d@dim=-1", "a b~argmax/R -> a; max, nonempty",
          "#a, ^b a -> (); handler sort"},
         {"a",  "b", "...", "->", ",", ";", "(", ")", "_",   "@dim", "=", "~x",
          "/R", "!", "*",   "+",  "#", "?", "^", "<", "sum", "any",  " "},
         [](const std::string& text) {
           rules::parse_notation(text);
           return std::string("a -> a");
         });
  }

  TEST_CASE("rule of one call") {
    fuzz(
        {"*m k, *k n -> m n {m=8, k=16, n=32}", "d0 d1~softmax -> d0 d1 {d0=8, d1=16}",
         "a b~argmax/R -> a {a=4, b=6 nonempty}; max", "a _=3 -> a _=3 {a=4}; any, view"},
        {"a",  "b", "->", ",", ";", "(",   ")",    "_=",       "{",      "}", "=", "~x",
         "/R", "!", "*",  "+", "#", "max", "view", "nonempty", "block=", " ", "8"},
        [](const std::string& text) { return rules::to_string(rules::parse_rule(text)); },
        false);  // a letter without a size, or a number without its tensor, has no one place
  }

  TEST_CASE("operand") {
    fuzz({"f32[8, 16] on dp=2 tp=4: S(0) R", "torch.float32[8] S(0; block=4)", "i64[]",
          "f32[-1, 2]"},
         kTokens, [](const std::string& text) {
           const rules::OperandText read = rules::parse_operand(text);
           if (read.layout.find("on") == 0) return std::string("i64[]");  // a mesh that is no mesh
           return rules::to_string(read);
         });
  }

  TEST_CASE("attributes") {
    fuzz(
        {"dim=1", "keepdim=True", "shape=[2, 3]", "equation='ij->i'", "other=None", "a=1.5 b=mean"},
        {"dim", "=", "[", "]", ",", "'", "\"", " ", "True", "None", "1", "-", ".", "e", "inf"},
        [](const std::string& text) {
          std::string out;
          for (const auto& [name, value] : rules::parse_attrs(text)) {
            const std::string shown = rules::to_string(value);
            const bool both = shown.find('\'') != shown.npos && shown.find('"') != shown.npos;
            if (!both || shown.find('\'') == 0) out += name + "=" + shown + " ";
          }
          return out;
        });
  }

  TEST_CASE("a call") {
    const std::vector<std::string> operands = {
        "f32[8, 16] on dp=2 tp=4: S(0; block=4) R; f32[16, 32]", "f32[8, 16]; -; {f32[8]; f32[4]}",
        "f32[8, 16]"};
    const std::vector<std::string> ops = {"aten::mm", "topk", "aten::cat", "sum", "aten::linear"};
    Random random(9);
    int calls = 0;
    for (Rounds rounds(3000); rounds.more();) {
      const std::string text = damaged(random, operands, {"{", "}", ";", "-", "(", ")", "f32[8]"});
      const std::string attrs = damaged(random, {"dim=1 k=2", ""}, {"dim=", "1", "[", "]", " "});
      try {
        rules::read_call(random.pick(ops), text, attrs);
        ++calls;
      } catch (const UsageError&) {
      } catch (const UnsupportedError&) {
      } catch (const std::exception& e) {
        FAIL_CHECK(text << " with " << attrs << ": " << e.what());
      }
    }
    CHECK(calls > 50);
    const rules::Query query = rules::read_call("aten::mm", operands.front());
    CHECK(query.call.inputs[0].layout->to_string() == "S(0; block=4) R");
    CHECK(query.call.inputs.size() == 2);
  }

  TEST_CASE("patterns match what trying everything says") {
    const std::vector<std::string> patterns = {"**.norm.weight",
                                               "layers.*.[qkv]_proj",
                                               "a?[!b-d]*",
                                               "**.a.**",
                                               "*a*a*b",
                                               "[!]x",
                                               "[]]",
                                               "[a"};
    const std::vector<std::string> tokens = {"*", "**", ".", "?", "[", "]",
                                             "!", "-",  "a", "b", "c"};
    const std::vector<std::string> names = {
        "layers.10.q_proj", "norm.weight", "x.norm.weight", "aab", "a.b.a", "ax]", "a", ""};
    Random random(7);
    for (Rounds rounds(20000); rounds.more();) {
      const std::string pattern = damaged(random, patterns, tokens).substr(0, 14);
      const std::string name =
          random.below(2) == 0 ? random.pick(names) : damaged(random, names, tokens).substr(0, 14);
      const bool want = slow_path(parts(pattern), parts(name));
      if (path_matches(pattern, name) != want) {
        FAIL_CHECK("\"" << pattern << "\" on \"" << name << "\" must be " << want);
      }
      try {
        closest_patterns({pattern, "**"}, {name, "other"}, "parameter");
      } catch (const UsageError&) {
      }
    }
  }

  TEST_CASE("patterns with many stars take no time") {
    std::string stars;
    std::string deep;
    for (int i = 0; i < 50; ++i) stars += "*a";
    for (int i = 0; i < 50; ++i) deep += "**.a.";
    const std::string letters(20000, 'a');
    CHECK_FALSE(path_matches(stars + "*b", letters));
    CHECK(path_matches(stars + "*", letters));
    std::string path;
    for (int i = 0; i < 3000; ++i) path += "a.";
    CHECK_FALSE(path_matches(deep + "b", path + "a"));
    CHECK(path_matches(deep + "b", path + "b"));
  }
}

}  // namespace hyper_parallel::test
