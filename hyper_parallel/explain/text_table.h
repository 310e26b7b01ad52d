#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace hyper_parallel::explain {

/// Lines of equally many cells as text in columns, two blanks apart. Columns that `right` names
/// stand to the right. No blanks at line ends, no newline at the end.
std::string aligned(const std::vector<std::vector<std::string>>& lines,
                    std::initializer_list<std::size_t> right = {});

/// `1,234,567`
std::string with_commas(std::int64_t number);

/// `12.3 us`, `4.0 ms` or `1.5 s`: a time.
std::string time_text(double seconds);

}  // namespace hyper_parallel::explain
