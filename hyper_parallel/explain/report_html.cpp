#include <algorithm>
#include <map>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/explain/report.h"
#include "hyper_parallel/explain/sums.h"
#include "hyper_parallel/explain/text_table.h"

namespace hyper_parallel::explain {
namespace {

// Everything is in the page: it is read from a file, without a network.
constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --bar: #5b8def; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0 2rem; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .8rem; text-align: left;
  vertical-align: top; }
th { background: var(--soft); font-weight: 600; white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.name { white-space: nowrap; }
code { font: 13px/1.6 ui-monospace, monospace; white-space: nowrap; }
.wide { overflow-x: auto; }
.backward { background: var(--soft); }
.total { font-weight: 600; }
.bar { background: var(--bar); display: inline-block; height: .7em; min-width: 1px; }
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#x27;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string cell(std::string_view text) { return "<td>" + escaped(text) + "</td>"; }
std::string name_cell(std::string_view text) {
  return "<td class=\"name\">" + escaped(text) + "</td>";
}
std::string code_cell(std::string_view text) {
  return text.empty() ? "<td></td>" : "<td><code>" + escaped(text) + "</code></td>";
}
std::string number(std::int64_t value) {
  return "<td class=\"number\">" + with_commas(value) + "</td>";
}

std::string sums_table(std::span<const CommRow> rows) {
  std::string out =
      "<table>\n<tr><th>phase</th><th>collective</th><th>axes</th><th class=\"number\">count</th>"
      "<th class=\"number\">bytes a rank</th><th>share</th></tr>\n";
  const std::vector<Sum> all = sums(rows);
  const std::int64_t whole = std::max<std::int64_t>(all.back().bytes, 1);
  for (const Sum& sum : all) {
    const bool total = sum.phase == "total";
    const std::string share = std::to_string(sum.bytes * 160 / whole);
    out += total ? "<tr class=\"total\">" : "<tr>";
    out +=
        cell(sum.phase) + cell(sum.kind) + cell(sum.axes) + number(sum.count) + number(sum.bytes);
    out += total ? "<td></td>"
                 : "<td><span class=\"bar\" style=\"width: " + share + "px\"></span></td>";
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

std::string rows_table(std::span<const CommRow> rows) {
  std::string out =
      "<div class=\"wide\">\n<table>\n<tr><th class=\"number\">no.</th><th>phase</th>"
      "<th>collective</th><th>axes</th><th class=\"number\">ranks</th><th>tensor</th>"
      "<th class=\"number\">bytes a rank</th><th>op</th><th>why</th></tr>\n";
  std::map<int, std::int64_t> first_of;  // the first row of each joined collective
  std::int64_t at = 0;
  for (const CommRow& row : rows) {
    ++at;
    std::string why = row.op.empty() ? cause(row) : row.reason;
    if (row.joined != 0) {
      const auto [first, is_first] = first_of.emplace(row.joined, at);
      if (!is_first) why += "; went out with no. " + std::to_string(first->second);
    }
    out += "<tr class=\"" + std::string(row.phase()) + "\">" + number(at) + name_cell(row.phase()) +
           name_cell(row.kind) + name_cell(join(row.axes, " ")) + number(row.ranks) +
           code_cell(moved(row)) + number(row.bytes) + code_cell(row.op) + cell(why) + "</tr>\n";
  }
  return out + "</table>\n</div>\n";
}

}  // namespace

std::string html(std::span<const CommRow> rows, std::string_view title) {
  const std::string name = escaped(title);
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
      name + "</title>\n<style>" + std::string(kStyle) + "</style>\n<h1>" + name + "</h1>\n";
  out +=
      "<p>What one rank exchanged with others. Bytes are those that it sends, the largest over "
      "ranks; collectives that went out as one count once.</p>\n";
  out += sums_table(rows) + "<h2>Each collective</h2>\n";
  out += rows.empty() ? "<p>No collective was issued.</p>\n" : rows_table(rows);
  return out + "</html>\n";
}

}  // namespace hyper_parallel::explain
