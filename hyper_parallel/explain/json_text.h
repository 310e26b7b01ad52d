#pragma once

#include <string>
#include <string_view>

namespace hyper_parallel::explain {

/// Text as JSON writes it, in quotes: `"a \"b\""`.
std::string quoted(std::string_view text);

}  // namespace hyper_parallel::explain
