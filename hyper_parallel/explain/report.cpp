#include "hyper_parallel/explain/report.h"

#include <algorithm>
#include <set>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/explain/sums.h"
#include "hyper_parallel/explain/text_table.h"

namespace hyper_parallel::explain {

bool Selection::fits(const CommRow& row) const {
  return (!kind || row.kind == *kind) && (!phase || row.phase() == *phase) &&
         (!axes || row.axes == *axes) && (!op || row.op == *op);
}

std::vector<CommRow> select(std::span<const CommRow> rows, const Selection& selection) {
  std::vector<CommRow> out;
  for (const CommRow& row : rows) {
    if (selection.fits(row)) out.push_back(row);
  }
  return out;
}

std::int64_t count(std::span<const CommRow> rows) {
  std::int64_t alone = 0;
  std::set<int> together;
  for (const CommRow& row : rows) {
    if (row.joined == 0) {
      ++alone;
    } else {
      together.insert(row.joined);
    }
  }
  return alone + static_cast<std::int64_t>(together.size());
}

std::int64_t bytes(std::span<const CommRow> rows) {
  std::int64_t out = 0;
  for (const CommRow& row : rows) out += row.bytes;
  return out;
}

std::vector<Sum> sums(std::span<const CommRow> rows) {
  std::vector<Sum> out;
  for (const bool backward : {false, true}) {
    for (const CommRow& row : rows) {
      if (row.backward != backward) continue;
      const std::string axes = join(row.axes, " ");
      const bool known = std::any_of(out.begin(), out.end(), [&](const Sum& sum) {
        return sum.phase == row.phase() && sum.kind == row.kind && sum.axes == axes;
      });
      if (known) continue;
      const std::vector<CommRow> group =
          select(rows, {.kind = row.kind, .phase = std::string(row.phase()), .axes = row.axes});
      out.push_back({std::string(row.phase()), row.kind, axes, count(group), bytes(group)});
    }
  }
  out.push_back({"total", "", "", count(rows), bytes(rows)});
  return out;
}

std::string moved(const CommRow& row) {
  return row.from.empty() ? row.tensor : row.tensor + " " + row.from + " -> " + row.to;
}

std::string table(std::span<const CommRow> rows) {
  std::vector<std::vector<std::string>> lines = {
      {"phase", "collective", "axes", "count", "bytes a rank"}};
  for (const Sum& sum : sums(rows)) {
    lines.push_back(
        {sum.phase, sum.kind, sum.axes, std::to_string(sum.count), with_commas(sum.bytes)});
  }
  return aligned(lines, {3, 4});
}

std::string cause(const CommRow& row) {
  if (!row.op.empty()) return "for " + row.op + ": " + row.reason;
  if (!row.reason.empty()) return row.reason;
  return row.backward ? "for a gradient" : "asked for by the program";
}

std::string why(std::span<const CommRow> rows) {
  if (rows.empty()) return "no collective was issued";
  std::vector<std::vector<std::string>> lines;
  for (const CommRow& row : rows) {
    lines.push_back({std::string(row.phase()), row.kind + " over " + join(row.axes, " "),
                     moved(row), with_commas(row.bytes) + " bytes", cause(row)});
  }
  return aligned(lines, {3});
}

}  // namespace hyper_parallel::explain
