#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hyper_parallel/rules/cost.h"
#include "hyper_parallel/rules/rule.h"

/// Inference by name, on layouts alone: no tensors, no ranks.
namespace hyper_parallel::rules {

/// A call that has met its rule. The operands of `rule` are those of `call`, whatever words it
/// used.
struct Query {
  Call call;
  std::string row;   // the row that serves it: "aten::topk"
  std::string spec;  // the row's text
  ConcreteRule rule;
};

/// The space of rows of functions that are no ops of torch: "function::Swish" serves "Swish".
inline constexpr std::string_view kFunctions = "function::";

/// Find the rule of `call.op` and meet it with the call. Names are looked up in this order:
///   - rows: "aten::mm", "hyper_parallel::label_smooth", those of the program
///   - functions of the program: "Swish"
///   - Paddle's ops, with Paddle's order of operands and names of attributes: "topk",
///   "paddle::topk"
///   - torch's names without "aten::", and without the overload if there is one row only: "mm"
/// `call.mesh` null: that of the first operand with a layout. `call.list_lengths` empty: no lists.
/// Throws UsageError: HP-S040 unknown op (with near names), HP-S041 no operand has a layout, and
/// what `concretize` throws.
Query query(Call call);

/// True if `query` knows the name.
bool is_known(std::string_view op);

/// Every name that `query` knows, sorted; torch's only with "aten::".
std::vector<std::string> known_names();

/// One row, for lists and documents.
struct RowInfo {
  std::string family;              // "matmul"
  std::string op;                  // "aten::mm"
  std::string spec;                // "*m k, *k n -> m n"
  std::vector<std::string> names;  // of Paddle's ops that it serves
};

/// All rows, by family and op.
std::vector<RowInfo> rows();

/// One of the independent calls of an op on lists (`query.rule.parts`).
Query part_query(const Query& query, std::size_t part);

/// Forward inference, see rule.h. `wanted`: where the results shall lie next, null for any.
Inference infer_forward(const Query& query, std::span<const Layout* const> wanted = {},
                        const CostModel& model = CostModel());

/// Reverse inference. `outputs` has one layout a result, null for one that says nothing. Where no
/// strategy gives what is wanted on an axis, inputs and results are whole there: what is wanted is
/// then a local step away.
Inference infer_backward(const Query& query, std::span<const Layout* const> outputs);

/// What is known of the tensors of a gradient, each list empty or with one entry a tensor of the
/// op. A null layout: the tensor is not among the operands of the gradient.
struct GradientCall {
  std::vector<const Layout*> inputs;     // forward operands
  std::vector<const Layout*> outputs;    // saved results
  std::vector<const Layout*> out_grads;  // gradients of the results
};

/// The answer to gradient inference. Layouts are those of whole gradients: R means that every rank
/// has it all (unlike those of `infer_cotangents`, where that is P(sum)).
struct Gradient {
  std::vector<const Layout*> inputs;     // required; null: not given, or only its shape matters
  std::vector<const Layout*> outputs;    // required, likewise
  std::vector<const Layout*> out_grads;  // required, null where none was given
  std::vector<const Layout*> grads;      // of the inputs; null: no gradient (integers, absent)
  std::vector<Change> changes;           // `input` counts inputs, then outputs, then out_grads
  std::string handler;
  double bytes = 0;  // all changes and the handler
};

/// Gradient inference: the cheapest way to compute the gradients of all floating-point inputs on
/// parts. `wanted` (empty, or one an operand, null: any) names the layouts that the gradients shall
/// have next, as in `infer_forward`. Throws UnsupportedError HP-S036: an op on lists.
Gradient infer_grad(const Query& query, const GradientCall& given,
                    std::span<const Layout* const> wanted = {});

/// The rule of the gradient as an op of its own: operands inputs, outputs, out_grads; results the
/// gradients of all inputs.
///
///     forward    *m k, *k n -> m n
///     gradient   m k, k n, #m n, *m n -> m k, k n
///
/// A letter that a gradient lacks is summed over, so splitting it gives P(sum).
ConcreteRule gradient_rule(const Query& query);

/// All strategies of one mesh axis, none first, with the gradients that they give. Of an op on
/// lists: those of its first part.
std::vector<StrategyLine> strategies(const Query& query);

}  // namespace hyper_parallel::rules
