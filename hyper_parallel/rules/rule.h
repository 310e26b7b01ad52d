#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hyper_parallel/core/layout.h"
#include "hyper_parallel/core/tensor_meta.h"
#include "hyper_parallel/rules/window.h"

namespace hyper_parallel::rules {

/// A non-tensor argument of an op.
using Attr = std::variant<std::monostate, bool, std::int64_t, double, std::string,
                          std::vector<std::int64_t>>;

/// One tensor argument, or one member of a tensor list. `layout` null with `present` true is a
/// plain tensor: the same value on every rank.
struct Operand {
  TensorMeta meta;
  const Layout* layout = nullptr;
  bool present = true;  // false: an optional tensor that was not given
  bool pinned = false;  // written in place: its layout must not change
  std::string name;     // the argument's name, "tensors[2]" for a list member
};

/// One call of an op, as the caller wrote it: global shapes, layouts, attributes by name.
/// Tensor lists are flattened in order; `list_lengths` has one entry a tensor argument: -1 for a
/// single tensor, else the length of the list.
struct Call {
  std::string op;
  const Mesh* mesh = nullptr;
  std::vector<Operand> inputs;
  std::vector<int> list_lengths;
  std::map<std::string, Attr, std::less<>> attrs;

  /// Read an attribute; a missing or None one gives `otherwise`. Throws UsageError if the type
  /// does not fit.
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  bool boolean(std::string_view name, bool otherwise) const;
  std::vector<std::int64_t> integers(std::string_view name) const;
  bool has(std::string_view name) const;
};

/// `aten::mm: operand "self"`, for error texts.
std::string operand_text(const Call& call, std::size_t input);

/// What a mesh axis may do with one independent way ("factor") to split an op.
enum class FactorKind : std::uint8_t {
  pass,     // tensors that hold the factor are split, the others whole
  reduce,   // as pass, and results without it are partial
  blocked,  // must not be split
};

/// An independent way to split an op.
struct Factor {
  std::string name;
  std::int64_t size = 1;
  FactorKind kind = FactorKind::pass;
  ReduceOp reduce = ReduceOp::sum;
  std::int64_t block = 1;  // chunk boundaries only at multiples of it
  std::string handler;     // not empty: where it is split the op is run by this handler
  bool nonempty = false;   // no rank may hold an empty piece (max over nothing fails)
  bool plain = false;  // tensors have unlike lengths of it (cat), so it has no blocks or segments
  std::optional<Window> window = {};  // the result reads the first operand through it
  // The result has these indices of it alone. It is split only where the operand comes cut in
  // segments of which none lies across the part's bounds: then a part of the whole is a part on
  // each rank (k of a fused q|k|v).
  std::optional<Interval> part = {};
};

/// Factors, operands, results, dims and axes are numbered by int; this is the place in a list.
inline std::size_t at(int number) { return static_cast<std::size_t>(number); }

/// The number of no factor: of a dim of size 1, say.
inline constexpr int kNoFactor = -1;

/// How the dims of one tensor of the op are made of factors: for each dim the factors, major to
/// minor; none for a dim that is whole in every strategy (a broadcast dim of size 1, say).
struct TensorMap {
  std::vector<std::vector<int>> dims;
  Shape sizes;                  // global; for results this is what the op returns
  std::vector<int> joint;       // beside dims, or empty: a factor that stands for all of the dim's
                                // factors together, where a cut is none of theirs; kNoFactor: none
  std::vector<Shape> segments;  // beside dims, or empty: a dim that is a row of parts of these
                                // sizes, each cut on its own by the dim's one factor (cat, split)
  bool linear = false;          // P passes through this operand, see `term`
  int term = 0;                 // the result is a sum of terms, each linear in each of its operands
  bool addend = false;      // where the axis splits a sum this operand must be P(sum), or is masked
  bool shape_only = false;  // its values do not matter: any layout will do, P too
  bool ignore_pin = false;  // listed as written by the schema, but not written in this call
  bool present = true;
};

/// A non-tensor argument that differs on each rank.
struct Rewrite {
  enum class Kind : std::uint8_t {
    local_shape,  // the local shape of result `tensor`
    local_size,   // the local length of dim `dim` of result `tensor`
    local_sizes,  // the list of the local lengths of dim `dim` of all results
  };
  Kind kind = Kind::local_shape;
  std::string argument;
  int tensor = 0;
  int dim = 0;
  friend bool operator==(const Rewrite&, const Rewrite&) = default;
};

/// Which kinds of partial pass. P passes when each term has exactly one operand that is P (of one
/// kind) and the others are R: `a * b` is one term, `a + b` are two. For avg, max and min a term
/// may also be R: a value that ranks share is its own average, maximum and minimum.
enum class PartialRule : std::uint8_t {
  linear,    // sum and avg
  monotone,  // max and min: unary increasing functions
  any,       // moves values only (view, transpose, cat): every kind
  one,       // `partial_op` alone: max over a dim of P(max)
};

struct Part;

/// A rule after letters met sizes and attributes: all that the engine needs.
struct ConcreteRule {
  std::vector<Factor> factors;
  std::vector<TensorMap> inputs;   // beside Call::inputs
  std::vector<TensorMap> outputs;  // tensor results, lists flattened
  std::vector<Rewrite> rewrites;
  PartialRule partial = PartialRule::linear;
  ReduceOp partial_op = ReduceOp::sum;
  std::string handler;   // not empty: always run by this handler, whatever is split
  bool random = false;   // draws random numbers for each element of the result
  bool aliases = false;  // results are views of the first operand
  bool dynamic = false;  // result shapes depend on values: every factor is blocked
  std::vector<std::pair<int, int>> writes;  // (input, output): one tensor, so one layout
  std::vector<Part> parts;  // not empty: independent calls in one (foreach, fused), see Part
};

/// One of the calls that a list op stands for: a rule over some operands and results of the whole.
struct Part {
  ConcreteRule rule;
  std::vector<int> inputs;
  std::vector<int> outputs;
};

/// True if both say the same of every call: names of factors, numbers of terms, and what an absent
/// tensor would be like do not count.
bool operator==(const ConcreteRule& a, const ConcreteRule& b);

/// One row: an op and its rule in the notation of docs/notation.md. `doc` is one line.
struct Row {
  const char* op;
  const char* spec;
};

/// What one mesh axis does in a strategy.
struct AxisChoice {
  enum class Kind : std::uint8_t { none, factor, partial };
  Kind kind = Kind::none;
  int factor = kNoFactor;        // kind factor
  std::vector<char> partial_in;  // kind partial: which operands stay partial
  ReduceOp op = ReduceOp::sum;   // kind partial
};

/// A change of one operand, with its reason and price.
struct Change {
  int input = 0;
  const Layout* from = nullptr;
  const Layout* to = nullptr;
  double bytes = 0;    // moved by a rank
  std::string reason;  // "axis tp splits the sum over k"
};

/// The answer to forward and reverse inference.
struct Inference {
  std::vector<const Layout*> inputs;  // required; null for absent operands
  std::vector<const Layout*> outputs;
  std::vector<Shape> output_sizes;  // global
  std::vector<AxisChoice> choices;  // one an axis
  std::vector<Rewrite> rewrites;
  std::string handler;  // empty: the op itself is run on local tensors
  std::vector<std::pair<int, Window>>
      windows;                  // dims of the first operand that are cut and read so
  std::vector<Change> changes;  // inputs that must be redistributed
  double bytes = 0;             // all changes and the handler
  bool random = false;
  bool aliases = false;
  bool dynamic = false;
  std::vector<Inference> parts;  // beside ConcreteRule::parts; handler is then "each", or
                                 // empty if no part has one
};

/// Look the row of `op` up ("aten::mm" or "aten::sum.dim_IntList"); null if there is none.
const Row* find_row(std::string_view op);

/// Give `op` a row of the program's own, which takes the place of a built-in one. Safe for threads;
/// rows found before stay valid. Throws UsageError if `spec` cannot be read.
void register_row(std::string_view op, std::string_view spec);

/// Take it away again; false if there was none.
bool unregister_row(std::string_view op);

/// The op names of all built-in rows, sorted.
std::vector<std::string> op_names();

/// The names of rows that the program registered, sorted.
std::vector<std::string> own_op_names();

/// Make the rule concrete for one call. Throws UsageError: wrong number of operands, sizes that do
/// not fit, attribute out of range (naming op, operand, dim).
ConcreteRule concretize(const Row& row, const Call& call);

class CostModel;

/// Forward inference: the cheapest strategy. Counted are what the planner moves to bring operands
/// where the strategy needs them, what its handlers move, and what it merely puts off (engine's
/// deferred.h). For each mesh axis these are tried:
///   - each factor that some operand already has split on that axis, and where one dim of a result
///     is made of several factors, the next major one: moving an axis there beats a gather,
///   - the partial kinds that come in and may pass,
///   - nothing on the axis (operands whole).
/// An op never invents a split: an axis that no operand uses stays unused. Where an operand that is
/// P meets one that is R in a sum, the P is reduced; R is never made P. Ties go to the strategy
/// that keeps the larger operand.
///
/// `wanted` names layouts that results shall have next (one a result, null or left out: any). Then
/// bringing the results there counts too, by the planner, and an axis may also split what it splits
/// for no operand yet. Ties go to results that need no change, then to fewer bytes before the op.
/// With nothing wanted the answer is the same as without `wanted`.
///
/// `Inference::bytes` is the sum over changes (the planner's bytes) and handlers.
/// Cost: some microseconds; with `wanted` an exact search over all sets of choices.
///
/// Throws UsageError HP-S033: more layouts than results. UnsupportedError: HP-S030 no strategy, as
/// when an operand that is written in place cannot keep its layout; HP-S034 none that leads to
/// `wanted`; HP-S035 `wanted` for an op on lists.
Inference infer_forward(const ConcreteRule& rule, const Call& call,
                        std::span<const Layout* const> wanted = {});
Inference infer_forward(const ConcreteRule& rule, const Call& call,
                        std::span<const Layout* const> wanted, const CostModel& model);

/// Reverse inference: layouts of the inputs that give `outputs`; dims and axes that the outputs do
/// not decide are left as the inputs have them.
Inference infer_backward(const ConcreteRule& rule, const Call& call,
                         std::span<const Layout* const> outputs);

/// The layouts of the cotangents of all inputs, given the layouts of the cotangents of the
/// outputs, under the strategy `forward`: S stays; an operand without the axis' factor gets
/// P(sum); where P passed forward the cotangent is R; an unused axis follows the output's.
std::vector<const Layout*> infer_cotangents(const ConcreteRule& rule, const Call& call,
                                            const Inference& forward,
                                            std::span<const Layout* const> out_grads);

/// All strategies of one mesh axis, as choices, none first.
std::vector<AxisChoice> strategies(const ConcreteRule& rule);

/// The layouts of a full set of choices (one an axis).
Inference apply(const ConcreteRule& rule, const Call& call, std::span<const AxisChoice> choices);

/// What a strategy makes of one tensor, on a mesh of one axis of two ranks.
struct StrategyTensor {
  bool present = true;
  const Layout* layout = nullptr;  // null: absent, or no layout says it (too many segments)
};

/// One line of the table of strategies.
struct StrategyLine {
  std::vector<StrategyTensor> inputs;
  std::vector<StrategyTensor> outputs;
  std::string factor;                 // that the axis is given to; empty: none
  std::string handler;                // empty: the op runs on the parts as it is
  std::vector<StrategyTensor> grads;  // beside inputs, for whole gradients of the results; empty:
                                      // not asked for, or the gradient takes another strategy
};
StrategyLine strategy_line(const ConcreteRule& rule, const AxisChoice& choice);

/// `S(0) -`: the layouts of tensors, "-" for an absent one.
std::string to_string(std::span<const StrategyTensor> tensors);

/// `S(0) R S(1) -> S(1)    n`.
std::string to_string(const StrategyLine& line);
std::string to_string(const ConcreteRule& rule, const AxisChoice& choice);

}  // namespace hyper_parallel::rules
