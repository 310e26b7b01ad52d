#include "hyper_parallel/rules/query/answer_text.h"

#include <array>
#include <cstdio>

#include "hyper_parallel/core/text.h"

namespace hyper_parallel::rules {
namespace {

std::string bytes_text(double bytes) {
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), "%.0f bytes", bytes);
  return out.data();
}

std::string head(const Query& query, const char* what, double bytes) {
  return query.row + what + " on " + query.call.mesh->to_string() + ": a rank moves " +
         bytes_text(bytes);
}

std::string line(const char* kind, std::size_t i, const Shape& sizes, DType dtype,
                 const Layout* layout) {
  return "\n  " + std::string(kind) + " " + std::to_string(i) + "  " +
         std::string(to_string(dtype)) + hyper_parallel::to_string(sizes) + " " +
         layout->to_string();
}

std::string operand_lines(const char* kind, const Query& query,
                          const std::vector<const Layout*>& layouts) {
  std::string out;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const Operand& operand = query.call.inputs[i];
    if (!operand.present || layouts[i] == nullptr) continue;
    out += line(kind, i, operand.meta.sizes, operand.meta.dtype, layouts[i]);
  }
  return out;
}

std::string result_lines(const char* kind, const Query& query,
                         const std::vector<const Layout*>& layouts) {
  std::string out;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const TensorMap& result = query.rule.outputs[i];
    if (!result.present || layouts[i] == nullptr) continue;
    out += line(kind, i, result.sizes, result_dtype(query), layouts[i]);
  }
  return out;
}

// Numbers of changed tensors count operands, then results, then the gradients of results.
std::string name_of(const Query& query, int tensor) {
  const auto operands = static_cast<int>(query.call.inputs.size());
  const auto results = static_cast<int>(query.rule.outputs.size());
  if (tensor < operands) return query.call.inputs[static_cast<std::size_t>(tensor)].name;
  const int result = tensor - operands;
  return result < results ? "output " + std::to_string(result)
                          : "out_grad " + std::to_string(result - results);
}

std::string tail(const Query& query, const std::vector<Change>& changes,
                 const std::string& handler) {
  std::string out;
  for (const Change& change : changes) out += "\n  change " + to_string(query, change);
  return handler.empty() ? out : out + "\n  handler " + handler;
}

}  // namespace

DType result_dtype(const Query& query) {
  const DType* first = nullptr;
  for (const Operand& operand : query.call.inputs) {
    if (!operand.present) continue;
    const DType dtype = operand.meta.dtype;
    const bool number = is_integral(dtype) && dtype != DType::boolean;
    if (!number && dtype != DType::other) return dtype;
    if (first == nullptr) first = &operand.meta.dtype;
  }
  return first == nullptr ? DType::f32 : *first;
}

std::string to_string(const Query& query, const Change& change) {
  return name_of(query, change.input) + ": " + change.from->to_string() + " -> " +
         change.to->to_string() + ", " + bytes_text(change.bytes) + ": " + change.reason;
}

std::string to_string(const Query& query, const Inference& made) {
  std::string out = head(query, "", made.bytes) + operand_lines("input", query, made.inputs) +
                    result_lines("output", query, made.outputs) +
                    tail(query, made.changes, made.handler);
  for (const Rewrite& rewrite : made.rewrites) {
    out += "\n  argument " + rewrite.argument + " is local";
  }
  return out;
}

std::string to_string(const Query& query, const Gradient& made) {
  return head(query, " gradient", made.bytes) + operand_lines("input", query, made.inputs) +
         result_lines("output", query, made.outputs) +
         result_lines("out_grad", query, made.out_grads) +
         operand_lines("grad", query, made.grads) + tail(query, made.changes, made.handler);
}

}  // namespace hyper_parallel::rules
