#include "hyper_parallel/explain/rules_page.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/explain/rule_samples.h"
#include "hyper_parallel/rules/handlers.h"
#include "hyper_parallel/rules/query/read_call.h"
#include "hyper_parallel/rules/text/print.h"

namespace hyper_parallel::explain {
namespace {

using rules::Query;
using rules::RowInfo;

constexpr std::string_view kHead = R"(# Rules

This page is made by `python -m hyper_parallel rules --markdown`. A rule is read as
[notation.md](notation.md) says; [inference.md](inference.md) shows how to ask it. A rule that
starts with a word is made by C++ code from sizes and attributes: the head of the family's file,
`hyper_parallel/rules/families/<family>.cpp`, says what its words mean. The third column has what
every rule, however made, is for one call: its letters with their sizes.
`python -m hyper_parallel rules topk` shows that call, and all its strategies.

Names in the last column are those of Paddle's ops. They go with Paddle's operands and attributes.

)";

constexpr std::string_view kHandlersHead = R"(## Handlers

Where a rule says `~name` the op runs by this handler instead of on local tensors alone.

| handler | does |
|---|---|
)";

bool serves(const RowInfo& row, std::string_view name) {
  return std::find(row.names.begin(), row.names.end(), name) != row.names.end();
}

// The row that serves a name: torch's, Paddle's, torch's without "aten::".
RowInfo row_of(std::string_view op) {
  const std::vector<RowInfo> all = rules::rows();
  const std::string_view paddle = op.starts_with("paddle::") ? op.substr(8) : op;
  const std::string torch = "aten::" + std::string(op);
  for (const RowInfo& row : all) {
    if (row.op == op) return row;
  }
  for (const RowInfo& row : all) {
    if (serves(row, paddle)) return row;
  }
  for (const RowInfo& row : all) {
    if (row.op == torch) return row;
  }
  const std::vector<std::string> near = near_names(op, rules::known_names());
  Message message("HP-S040", "no rule for an op named \"" + std::string(op) + "\"");
  if (!near.empty()) message.fact("near", join(near));
  throw UsageError(message);
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

// The call of a row that tables and the page show.
struct Sample {
  std::string operands;
  std::string attrs;
};

Sample sample_of(const RowInfo& row) {
  const std::string text = rule_sample(row.op, row.spec);
  if (text.empty()) {
    throw UsageError(Message("HP-S043", "no operands, and no sample call of " + row.op)
                         .fact("form", "f32[8, 16]; f32[16, 32]"));
  }
  const std::size_t bar = std::min(text.find('|'), text.size());
  return {trimmed(text.substr(0, bar)), trimmed(text.substr(std::min(bar + 1, text.size())))};
}

// The rule of a call: one line, of an op on lists one an element, its handler first.
std::vector<std::string> sized_rule(const Query& query) {
  std::istringstream text(rules::to_string(query.rule));
  std::vector<std::string> out;
  for (std::string line; std::getline(text, line);) out.push_back(line);
  return out;
}

std::string code(std::string_view text) {
  std::string out = "`";
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out + "`";
}

// A strategy with its gradients.
std::string shown(const rules::StrategyLine& line) {
  std::string text = rules::to_string(line);
  const std::string grads = rules::to_string(line.grads);
  if (grads.empty()) return text;
  text.resize(std::max<std::size_t>(text.size(), 44), ' ');
  return text + "  grad " + grads;
}

}  // namespace

std::string rules_listing() {
  std::string out;
  std::string family;
  for (const RowInfo& row : rules::rows()) {
    if (row.family != family) {
      family = row.family;
      out += (out.empty() ? "" : "\n\n") + family;
    }
    std::string op = row.op;
    op.resize(std::max<std::size_t>(op.size(), 44), ' ');
    out += "\n  " + op + " " + row.spec;
    if (!row.names.empty()) out += "    also " + join(row.names);
  }
  return out;
}

std::string rules_table(std::string_view op, std::string_view operands, std::string_view attrs) {
  const RowInfo row = row_of(op);
  std::string called(op);
  Sample call = {trimmed(operands), trimmed(attrs)};
  if (call.operands.empty()) {
    const Sample own = sample_of(row);
    const bool both = !own.attrs.empty() && !call.attrs.empty();
    called = row.op;
    call = {own.operands, own.attrs + (both ? " " : "") + call.attrs};
  }
  const Query query = rules::read_call(called, call.operands, call.attrs);
  std::string out = (op == row.op ? row.op : std::string(op) + ", by " + row.op) + "    " +
                    row.spec + "\nfamily " + row.family + "\ncall " + call.operands;
  if (!call.attrs.empty()) out += ", " + call.attrs;
  for (const std::string& line : sized_rule(query)) out += "\nrule " + line;
  out += "\n";
  std::set<std::string> handlers;
  for (const rules::StrategyLine& line : rules::strategies(query)) {
    out += "\n" + shown(line);
    if (!line.handler.empty()) handlers.insert(line.handler);
  }
  if (!handlers.empty()) out += "\n";
  for (const std::string& name : handlers) {
    out += "\n~" + name + ": " + std::string(rules::find_handler(name).doc);
  }
  return out;
}

std::string rules_markdown() {
  const std::vector<RowInfo> all = rules::rows();
  std::set<std::string> families;
  std::set<std::string> paddle;
  for (const RowInfo& row : all) {
    families.insert(row.family);
    paddle.insert(row.names.begin(), row.names.end());
  }
  std::string out(kHead);
  out += std::to_string(all.size()) + " rows in " + std::to_string(families.size()) +
         " families; " + std::to_string(paddle.size()) + " names of Paddle.\n";
  std::string family;
  for (const RowInfo& row : all) {
    if (row.family != family) {
      family = row.family;
      out += "\n## " + family + "\n\n| op | rule | of a call | Paddle |\n|---|---|---|---|\n";
    }
    const Sample call = sample_of(row);
    const auto sized = sized_rule(rules::read_call(row.op, call.operands, call.attrs));
    const bool by_handler = sized[0].starts_with("handler ") && sized.size() > 1;
    std::string names;
    for (const std::string& name : row.names) names += (names.empty() ? "" : " ") + code(name);
    out += "| " + code(row.op) + " | " + code(row.spec) + " | " + code(sized[by_handler ? 1 : 0]) +
           " | " + names + " |\n";
  }
  out += "\n" + std::string(kHandlersHead);
  for (const rules::HandlerInfo& handler : rules::handlers()) {
    out += "| `" + std::string(handler.name) + "` | " + std::string(handler.doc) + " |\n";
  }
  return out;
}

}  // namespace hyper_parallel::explain
