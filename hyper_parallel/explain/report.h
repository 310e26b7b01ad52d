#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hyper_parallel/explain/comm_row.h"

/// What a record of collectives says: sums, reasons, a page, a file for other programs.
namespace hyper_parallel::explain {

/// Which rows are meant: those that fit all that is given.
struct Selection {
  std::optional<std::string> kind = std::nullopt;   // "all_reduce"
  std::optional<std::string> phase = std::nullopt;  // "forward" or "backward"
  std::optional<std::vector<std::string>> axes = std::nullopt;
  std::optional<std::string> op = std::nullopt;  // "aten::linear"

  bool fits(const CommRow& row) const;
};

/// The rows that fit, in order.
std::vector<CommRow> select(std::span<const CommRow> rows, const Selection& selection);

/// The number of collectives; those that went out as one count once.
std::int64_t count(std::span<const CommRow> rows);

/// The bytes that one rank sends.
std::int64_t bytes(std::span<const CommRow> rows);

/// Counts and bytes by phase, kind and axes, forward first, then the total; no newline at the end.
///
///     phase    collective  axes  count  bytes a rank
///     forward  all_gather  tp        1            48
///     total                          1            48
std::string table(std::span<const CommRow> rows);

/// One line a collective, in order: phase, kind, axes, tensor with its layouts, bytes, the op and
/// the argument that asked. "no collective was issued" if there is none.
std::string why(std::span<const CommRow> rows);

/// An HTML page that needs nothing else: the sums, and every collective with its cause.
std::string html(std::span<const CommRow> rows, std::string_view title);

/// The rows as JSON, one a line. Fields have the names of Python's `CommRow`:
///
///     {"report": "hyper_parallel.comm", "version": 1, "rows": [
///       {"kind": "all_gather", "axes": ["tp"], "bytes": 48, "phase": "forward", ...}
///     ]}
std::string json(std::span<const CommRow> rows);

}  // namespace hyper_parallel::explain
