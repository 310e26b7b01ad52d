#pragma once

#include <string>
#include <string_view>

namespace hyper_parallel::explain {

/// The sample call of a row, as text: operands, and attributes behind a bar: "f32[8, 16] | dim=1".
/// It is looked up by the op, else by the row's text, else by the text's first words; a rule in
/// letters gives its own. Sizes are such that what belongs together is seen: 8 rows, 16 columns.
/// Empty if there is none.
std::string rule_sample(std::string_view op, std::string_view spec);

}  // namespace hyper_parallel::explain
