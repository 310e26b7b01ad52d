// The examples of docs/notation.md: a block that starts with "> " is a rule, its operands, perhaps
// one attribute, and the table that the engine prints.

#include <fstream>
#include <sstream>

#include "hyper_parallel/rules/text/notation.h"
#include "hyper_parallel/rules/text/print.h"
#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

struct Example {
  std::vector<std::string> head;  // lines after "> "
  std::string table;
};

std::vector<Example> examples() {
  std::ifstream file("docs/notation.md");
  REQUIRE(file);
  std::vector<Example> out;
  bool inside = false;
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("```")) {
      inside = false;
    } else if (line.starts_with("> ")) {
      if (!inside) out.emplace_back();
      inside = true;
      out.back().head.push_back(line.substr(2));
    } else if (inside) {
      out.back().table += line + "\n";
    }
  }
  return out;
}

// The rules of one call: `aten::mm   *m k, ...`, continued on indented lines.
std::vector<std::string> sized_rules() {
  std::ifstream file("docs/notation.md");
  std::vector<std::string> out;
  bool inside = false;
  std::string line;
  while (std::getline(file, line)) {
    const bool starts = line.starts_with("aten::");
    if (starts) out.push_back(line.substr(line.find(' ')));
    if (inside && line.starts_with(" ")) out.back() += " " + line;
    inside = starts || (inside && line.starts_with(" "));
  }
  return out;
}

std::string squeezed(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string word; in >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

Attrs attribute(const std::string& text) {
  const std::size_t equals = text.find('=');
  return {{text.substr(0, equals), std::int64_t{std::stoll(text.substr(equals + 1))}}};
}

std::vector<std::string> operands(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ';');) {
    out.push_back(item.substr(item.find_first_not_of(' ')));
  }
  return out;
}

}  // namespace

TEST_SUITE("NotationPage") {
  TEST_CASE("ItsExamplesAreWhatTheEnginePrints") {
    const auto all = examples();
    CHECK(all.size() >= 5);
    for (const Example& example : all) {
      REQUIRE(example.head.size() >= 2);
      CAPTURE(example.head[0]);
      const Attrs attrs = example.head.size() > 2 ? attribute(example.head[2]) : Attrs{};
      const ConcreteRule rule =
          concretize(parse_notation(example.head[0]),
                     call("example", "x=2", operands(example.head[1]), attrs));
      std::string table;
      for (const AxisChoice& c : strategies(rule)) table += to_string(rule, c) + "\n";
      CHECK(table == example.table);
    }
  }

  TEST_CASE("ItsRulesOfOneCallPrintAndReadBack") {
    const std::vector<std::string> rules = sized_rules();
    CHECK(rules.size() == 4);
    for (const std::string& text : rules) CHECK(to_string(parse_rule(text)) == squeezed(text));
  }
}

}  // namespace hyper_parallel::rules::test
