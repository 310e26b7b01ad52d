#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hyper_parallel/rules/rule.h"

/// The text of a call's arguments: operands and attributes.
namespace hyper_parallel::rules {

/// An operand in text, read but not yet placed: its layout may leave the mesh to another operand.
struct OperandText {
  std::string dtype = "f32";
  Shape sizes;
  std::string layout;  // "dp=2 tp=4: S(0) R", "S(0) R", or "": none is given

  friend bool operator==(const OperandText&, const OperandText&) = default;
};

/// The library's name of an element type: "f32" for "float32", "torch.float32", "float" and
/// itself. Other text comes back as it is.
std::string short_dtype(std::string_view name);

/// `f32[8, 16] on dp=2 tp=4: S(0) R`, `f32[8, 16] S(0) R` or `f32[8, 16]`; -1 is a size that is
/// known after the run only. Throws UsageError HP-S043.
OperandText parse_operand(std::string_view text);
std::string to_string(const OperandText& operand);

/// Operands of a call, lists flattened as in `Call`; nothing for an absent one.
struct OperandTexts {
  std::vector<std::optional<OperandText>> operands;
  std::vector<int> list_lengths;
};

/// `f32[8, 16]; -; {f32[8]; f32[4]}`: "-" is absent, { } holds a list. Throws UsageError HP-S043.
OperandTexts parse_operands(std::string_view text);

/// `dim=1 keepdim=True shape=[2, 3] equation='ij->i' other=None`. What is none of a number, True,
/// False, None, a list of integers or a quoted text is a text as it stands: `reduction=mean`.
/// Throws UsageError HP-S042.
std::map<std::string, Attr, std::less<>> parse_attrs(std::string_view text);

/// A value of an attribute, as `parse_attrs` reads it.
std::string to_string(const Attr& value);

}  // namespace hyper_parallel::rules
