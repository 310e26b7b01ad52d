#pragma once

#include <string>
#include <string_view>

/// Rules for readers: what `hyper_parallel rules` prints.
namespace hyper_parallel::explain {

/// The names of all rows with their rules, by family.
std::string rules_listing();

/// The strategies of one mesh axis in a call, by default the row's sample call.
///
/// `op`: a name; without operands Paddle's names stand for the rows that serve them.
/// `operands`: "f32[8, 16]; f32[16, 32]"; `attrs`: "dim=1 keepdim=True".
/// Throws UsageError: HP-S040 an unknown op, and what `rules::read_call` throws.
std::string rules_table(std::string_view op, std::string_view operands = "",
                        std::string_view attrs = "");

/// The page docs/rules.md: a table of each family, then the handlers.
std::string rules_markdown();

}  // namespace hyper_parallel::explain
