#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Patterns for dotted names, as the keys of sharding plans are.
///
///     *  ?     letters within one part: `layers.*.q_proj.weight`
///     [qkv]    one of these letters; `[a-c]` a range, `[!a]` all others
///     **       any number of parts: `**.norm.weight`
namespace hyper_parallel {

/// True if `name` as a whole is what `pattern` says. A "[" that is not closed is a letter. Takes
/// time in the product of both lengths at most.
bool path_matches(std::string_view pattern, std::string_view name);

/// For each of `names` the index of the pattern that names it most closely, -1 for none. Fewer `**`
/// are closer, then fewer parts with wildcards, then more plain letters.
///
/// `what` is what the names are ("parameter"), for errors.
/// Throws UsageError: a pattern that matches nothing (near names are listed), or two that are
/// equally close.
std::vector<int> closest_patterns(const std::vector<std::string>& patterns,
                                  const std::vector<std::string>& names, std::string_view what);

}  // namespace hyper_parallel
