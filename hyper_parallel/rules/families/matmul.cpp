// Contractions.
//
// A letter on two operands and not on the result is summed over: where it is split the result is
// P(sum). An addend ('+') must then be P(sum) too, or handler linear_addend keeps it on one rank.

#include <algorithm>

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"
#include "hyper_parallel/rules/text/notation.h"

namespace hyper_parallel::rules {
namespace {

// addmv of no rows gives one row where the addend has one: torch forgets to broadcast.
constexpr Row kRows[] = {
    {"aten::_cdist_forward", "... p m!, ... r m! -> ... p r"},
    {"aten::_pdist_forward", "pdist"},
    {"aten::addbmm", "^+m n, *b m k, *b k n -> m n"},
    {"aten::addmm", "^+m n, *m k, *k n -> m n"},
    {"aten::addmv", "^+m, *m k, *k -> m; filled"},
    {"aten::addr", "^+m n, *m, *n -> m n"},
    {"aten::baddbmm", "^+b m n, *b m k, *b k n -> b m n"},
    {"aten::bilinear", "*... i, *... j, *o i j, ?+o -> ... o; filled"},
    {"aten::bmm", "*b m k, *b k n -> b m n"},
    {"aten::dot", "*k, *k -> ()"},
    {"aten::einsum", "einsum"},
    {"aten::ger", "*m, *n -> m n"},
    {"aten::inner", "inner"},
    {"aten::linear", "*... k, *n k, ?+n -> ... n"},
    {"aten::matmul", "matmul"},
    {"aten::mm", "*m k, *k n -> m n"},
    {"aten::mv", "*m k, *k -> m"},
    {"aten::outer", "*m, *n -> m n"},
    {"aten::vdot", "*k, *k -> ()"},
};

// torch.matmul by the numbers of dims.
ConcreteRule build_matmul(const Call& call, Words) {
  static const Notation kVectors = parse_notation("*k, *k -> ()");
  static const Notation kLeftVector = parse_notation("*k, *... k n -> ... n");
  static const Notation kRightVector = parse_notation("*... m k, *k -> ... m");
  static const Notation kMatrices = parse_notation("*... m k, *... k n -> ... m n");
  check_count(call, 2, 2);
  const std::size_t left = call.inputs[0].meta.sizes.size();
  const std::size_t right = call.inputs[1].meta.sizes.size();
  if (left == 0 || right == 0) check_ndim(call, left == 0 ? 0 : 1, 1);
  if (left == 1 && right == 1) return concretize(kVectors, call);
  if (left == 1) return concretize(kLeftVector, call);
  return concretize(right == 1 ? kRightVector : kMatrices, call);
}

// inner(a [..., k], b [..., k]) -> a's dims, b's dims; with a number: their product.
ConcreteRule build_inner(const Call& call, Words) {
  static const Notation kVector = parse_notation("*... k, *k -> ...");
  static const Notation kMatrix = parse_notation("*... k, *n k -> ... n");
  static const Notation kCube = parse_notation("*... k, *m n k -> ... m n");
  static const Notation kNumber = parse_notation("*..., *... -> ...");
  check_count(call, 2, 2);
  const std::size_t left = call.inputs[0].meta.sizes.size();
  const std::size_t right = call.inputs[1].meta.sizes.size();
  if (left == 0 || right == 0) return concretize(kNumber, call);
  if (right == 1) return concretize(kVector, call);
  if (right > 3) check_ndim(call, 1, 3);
  return concretize(right == 2 ? kMatrix : kCube, call);
}

// Operands are marked as broadcast: a dim of size 1 stretches in einsum.
std::string operand_text(std::string_view letters, bool input) {
  std::string out;
  bool repeated = false;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (letters[i] == ' ') continue;
    if (letters[i] == '.') {
      out += " ...";
      i += 2;
      continue;
    }
    out += std::string(" ") + letters[i];
    // A diagonal: the letter stands twice on one operand.
    repeated = letters.find(letters[i]) != letters.rfind(letters[i]);
    if (repeated) out += "!";
  }
  if (out.empty()) out = "()";
  return (input ? "^*" : "") + out;
}

ConcreteRule build_einsum(const Call& call, Words) {
  const auto it = call.attrs.find("equation");
  const auto* equation = it == call.attrs.end() ? nullptr : std::get_if<std::string>(&it->second);
  if (equation == nullptr) {
    throw UsageError(Message("HP-S005", call.op + ": argument \"equation\" is not a string"));
  }
  std::string_view text = *equation;
  const std::size_t arrow = text.find("->");
  const std::string_view left = text.substr(0, arrow);
  std::string rule;
  std::size_t begin = 0;
  while (begin <= left.size()) {
    const std::size_t end = std::min(left.find(',', begin), left.size());
    rule += (rule.empty() ? "" : ", ") + operand_text(left.substr(begin, end - begin), true);
    begin = end + 1;
  }
  std::string right;
  if (arrow != std::string_view::npos) {
    right = text.substr(arrow + 2);
  } else {
    // Implicit result: letters that stand once, in alphabetical order, after the ellipsis.
    if (left.find('.') != std::string_view::npos) right = "...";
    std::string once;
    for (char c : left) {
      if (std::isalpha(static_cast<unsigned char>(c)) != 0 && left.find(c) == left.rfind(c)) {
        once += c;
      }
    }
    std::sort(once.begin(), once.end());
    right += once;
  }
  return concretize(parse_notation(rule + " -> " + operand_text(right, false)), call);
}

// pdist(self [n, m]): one distance for each pair of rows.
ConcreteRule build_pdist(const Call& call, Words) {
  check_count(call, 1, 1);
  check_ndim(call, 0, 2);
  ConcreteRule rule = start(call);
  const std::int64_t n = call.inputs[0].meta.sizes[0];
  rule.outputs.push_back(whole({n * (n - 1) / 2}));
  return rule;
}

constexpr NamedBuilder kBuilders[] = {{"einsum", build_einsum},
                                      {"inner", build_inner},
                                      {"matmul", build_matmul},
                                      {"pdist", build_pdist}};

}  // namespace

Family matmul_family() { return {"matmul", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
