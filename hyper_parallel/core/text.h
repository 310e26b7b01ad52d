#pragma once

#include <string>
#include <string_view>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/core/tensor_meta.h"

namespace hyper_parallel {

/// The one text form, used in logs, errors, reports, tests and the command line:
///
///     f32[4096, 1024] on dp=2 tp=4: S(0) R
///     `-- meta -----'    `- mesh -'  `- placements, one an axis (see Layout::to_string)
///
/// Each `to_string` is read back by the `parse_*` of the same thing. All parsers throw
/// UsageError (HP-T001) that shows the text and the place.

/// `f32[4096, 1024]`
std::string to_string(const TensorMeta& meta);
TensorMeta parse_meta(std::string_view text);

/// `dp=2 tp=4` or `dp=2 tp=4 ranks=[0, 2, ...]`
const Mesh* parse_mesh(std::string_view text);

/// `S(0) R`, for a known mesh.
const Layout* parse_layout(const Mesh* mesh, std::string_view text);

/// `dp=2 tp=4: S(0) R`
std::string to_string_with_mesh(const Layout* layout);
const Layout* parse_layout(std::string_view text);

/// A tensor with its layout: `f32[4096, 1024] on dp=2 tp=4: S(0) R`.
struct Described {
  TensorMeta meta;
  const Layout* layout;
};
std::string to_string(const TensorMeta& meta, const Layout* layout);
Described parse_described(std::string_view text);

/// `[4096, 1024]`
std::string to_string(const Shape& sizes);

}  // namespace hyper_parallel
