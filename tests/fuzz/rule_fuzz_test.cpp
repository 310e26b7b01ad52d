// Rules meet calls that nobody should make: any number of operands, sizes and attributes. A rule in
// letters and every built-in row answer, or refuse with a UsageError or an UnsupportedError.
// HP_FUZZ_SHOW=1 prints each call before it is made, to find one that crashes.

#include <doctest/doctest.h>

#include <cstdio>

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/text/notation.h"
#include "hyper_parallel/rules/text/print.h"
#include "tests/core/support.h"
#include "tests/fuzz/fuzz.h"

namespace hyper_parallel::rules::test {
namespace {

using hyper_parallel::test::damaged;
using hyper_parallel::test::Random;
using hyper_parallel::test::Rounds;

const std::vector<std::string> kAttributes = {
    "dim",        "dims",        "size",        "keepdim",   "offset",      "dim0",
    "dim1",       "start",       "end",         "step",      "k",           "split_size",
    "repeats",    "output_size", "groups",      "stride",    "padding",     "dilation",
    "source",     "destination", "split_sizes", "reduction", "kernel_size", "transposed",
    "num_groups", "start_dim",   "end_dim",     "is_causal", "enable_gqa",  "normalized_shape",
    "length",     "chunks",      "index",       "pad",       "shifts",      "training",
    "bins",       "input_sizes", "num_classes", "dimension", "accumulate",  "largest"};

Shape some_sizes(Random& random) {
  static const std::vector<std::int64_t> kSizes = {0, 1, 1, 2, 3, 4, 4, 6, 6, 8, 12};
  Shape out(random.below(5));
  for (auto& size : out) size = random.pick(kSizes);
  return out;
}

const Layout* some_layout(Random& random, const Mesh* mesh, std::size_t ndim) {
  const Layout* out = Layout::replicated(mesh);
  for (int axis = 0; axis < mesh->ndim(); ++axis) {
    const std::size_t kind = random.below(3);
    if (kind == 1)
      out = out->with(axis, Placement::partial(static_cast<ReduceOp>(random.below(5))));
    if (kind == 2 && ndim > 0) {
      out = out->with(axis, Placement::shard(static_cast<int>(random.below(ndim))));
    }
  }
  return out;
}

std::int64_t some_number(Random& random) {
  static const std::vector<std::int64_t> kNumbers = {-7, -2, -1, 0, 0,   1,         1,
                                                     2,  3,  4,  6, 100, INT64_MAX, INT64_MIN};
  return random.pick(kNumbers);
}

Attr some_value(Random& random) {
  switch (random.below(6)) {
    case 0:
      return std::monostate{};
    case 1:
      return random.below(2) == 0;
    case 2: {
      std::vector<std::int64_t> list(random.below(4));
      for (auto& value : list) value = some_number(random);
      return list;
    }
    case 3:
      return std::string("mean");
    default:
      return some_number(random);
  }
}

Call some_call(Random& random, const std::string& op, std::size_t operands, bool may_lack) {
  static const std::vector<const Mesh*> kMeshes = {parse_mesh("x=2"), parse_mesh("x=2 y=3")};
  static const std::vector<DType> kTypes = {DType::f32, DType::i64, DType::boolean, DType::c64};
  Call out;
  out.op = op;
  out.mesh = random.pick(kMeshes);
  const Shape first = some_sizes(random);
  for (std::size_t i = 0; i < operands; ++i) {
    Operand operand;
    operand.meta = {random.below(2) == 0 ? first : some_sizes(random), random.pick(kTypes)};
    operand.present = !may_lack || random.below(10) != 0;
    operand.pinned = random.below(12) == 0;
    if (random.below(4) != 0) {
      operand.layout = some_layout(random, out.mesh, operand.meta.sizes.size());
    }
    out.inputs.push_back(operand);
    out.list_lengths.push_back(-1);
  }
  if (random.below(4) == 0 && operands > 0) out.list_lengths = {static_cast<int>(operands)};
  for (std::size_t n = random.below(8); n > 0; --n) {
    out.attrs[random.pick(kAttributes)] = some_value(random);
  }
  return out;
}

std::string show(const Call& call) {
  std::string out = call.op + " on " + call.mesh->to_string() + ":";
  for (const Operand& o : call.inputs) {
    out += o.present ? " " + hyper_parallel::to_string(o.meta) : std::string(" -");
    if (o.layout != nullptr) out += " " + o.layout->to_string();
    out += o.pinned ? "!," : ",";
  }
  for (const auto& [name, value] : call.attrs) {
    out += " " + name + "=";
    if (const auto* i = std::get_if<std::int64_t>(&value)) out += std::to_string(*i);
    if (const auto* b = std::get_if<bool>(&value)) out += *b ? "true" : "false";
    if (const auto* l = std::get_if<std::vector<std::int64_t>>(&value)) {
      out += hyper_parallel::to_string(Shape(*l));
    }
    if (std::holds_alternative<std::string>(value)) out += "\"mean\"";
  }
  return out;
}

// Asks all that can be asked; empty, or what must not happen. `answers` counts rules that were
// made.
template <class Make>
std::string ask(const Call& call, const std::string& rule, Make make, int& answers) {
  if (std::getenv("HP_FUZZ_SHOW") != nullptr) {
    std::fprintf(stderr, "%s: %s\n", rule.c_str(), show(call).c_str());
  }
  try {
    const ConcreteRule made = make();
    ++answers;
    for (const AxisChoice& choice : strategies(made)) to_string(made, choice);
    const std::string text = to_string(made);
    if (made.parts.empty() && !(parse_rule(text) == made)) return "not read back: " + text;
    const Inference inference = infer_forward(made, call);
    for (const Layout* layout : inference.outputs) {
      if (layout != nullptr && layout->mesh() != call.mesh) return "a layout on another mesh";
    }
    std::vector<const Layout*> cotangents;
    for (const Layout* layout : inference.outputs) {
      cotangents.push_back(layout == nullptr ? nullptr : layout->reduced());
    }
    infer_cotangents(made, call, inference, cotangents);
    infer_backward(made, call, inference.outputs);
  } catch (const UsageError&) {
  } catch (const UnsupportedError&) {
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_SUITE("FuzzRules") {
  TEST_CASE("letters") {
    const std::vector<std::string> valid = {"m k, k n -> m n",
                                            "*... k, *n k, ?+n -> ... n",
                                            "... d~softmax@dim -> =",
                                            "a (b c), b -> a b c",
                                            "... d!@dim=-1 -> ... _=k<d@dim=-1",
                                            "a b~argmax/R -> a; max, nonempty",
                                            "#a, ^b a -> (); handler sort",
                                            "... a@dim b@dim1 -> ... b@dim a@dim1",
                                            "^... a, ... a -> ... a; any",
                                            "... a@dim -> ..."};
    const std::vector<std::string> tokens = {"a", "b", "c ", "...",  "->", ",", ";",
                                             "(", ")", "_",  "@dim", "=",  "!", "*",
                                             "+", "#", "?",  "^",    " "};
    Random random(11);
    int answers = 0;
    for (Rounds rounds(20000); rounds.more();) {
      const std::string text = damaged(random, valid, tokens);
      Notation notation;
      try {
        notation = parse_notation(text);
      } catch (const UsageError&) {
        continue;
      }
      const std::size_t operands = notation.inputs.size() - random.below(2);
      const Call call = some_call(random, "example", operands, true);
      const std::string wrong =
          ask(call, text, [&] { return concretize(notation, call); }, answers);
      if (!wrong.empty()) FAIL_CHECK(text << ": " << show(call) << ": " << wrong);
    }
    CHECK(answers > 500);
  }

  TEST_CASE("every row") {
    const std::vector<std::string> ops = op_names();
    Random random(12);
    int answers = 0;
    for (Rounds rounds(40000); rounds.more();) {
      const std::string& op = random.pick(ops);
      // Their tensors stand in lists of equal length, which callers see to.
      if (op.find("_foreach_") != op.npos || op.find("_fused_") != op.npos) continue;
      const Call call = some_call(random, op, 1 + random.below(4), false);
      const std::string wrong =
          ask(call, find_row(op)->spec, [&] { return concretize(*find_row(op), call); }, answers);
      if (!wrong.empty()) FAIL_CHECK(show(call) << ": " << wrong);
    }
    CHECK(answers > 500);
  }

  TEST_CASE("rows of a program") {
    std::vector<std::string> specs;
    for (const std::string& op : op_names()) specs.emplace_back(find_row(op)->spec);
    Random random(13);
    for (int round = 0; round < 2000; ++round) {
      const std::string spec = damaged(random, specs, {" ", "max", "dim", "...", "a", "->"});
      try {
        register_row("fuzz::op", spec);
        unregister_row("fuzz::op");
      } catch (const UsageError& e) {
        const bool known = e.code() == "HP-S050" || e.code() == "HP-S046";
        CHECK_MESSAGE(known, spec << ": " << e.what());
      }
    }
    CHECK(own_op_names().empty());
  }
}

}  // namespace hyper_parallel::rules::test
