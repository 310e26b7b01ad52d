// One price: what inference says is what the planner and the handlers will move.

#include "hyper_parallel/rules/cost.h"

#include <random>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/plan/redistribute.h"
#include "hyper_parallel/rules/engine/partial.h"
#include "hyper_parallel/rules/engine/weigh.h"
#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

struct Sample {
  const char* op;
  std::vector<std::string> operands;
  Attrs attrs = {};
};

const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = {
      {"aten::relu", {"f32[6, 8]"}},
      {"aten::relu_", {"!f32[6, 8]"}},
      {"aten::add.Tensor", {"f32[6, 8]", "f32[6, 8]"}},
      {"aten::add.Tensor", {"f32[7, 5]", "f32[5]"}},
      {"aten::mul.Tensor", {"f32[8, 6]", "f32[6]"}},
      {"aten::mm", {"f32[8, 6]", "f32[6, 10]"}},
      {"aten::mm", {"f32[3, 24]", "f32[24, 4]"}},
      {"aten::linear", {"f32[4, 6, 8]", "f32[12, 8]", "f32[12]"}},
      {"aten::bmm", {"f32[4, 5, 6]", "f32[4, 6, 7]"}},
      {"aten::sum.dim_IntList", {"f32[6, 8]"}, {{"dim", Ints{1}}}},
      {"aten::amax", {"f32[6, 8]"}, {{"dim", Ints{0}}}},
      {"aten::softmax.int", {"f32[6, 8]"}, {{"dim", std::int64_t{1}}}},
      {"aten::cumsum", {"f32[6, 8]"}, {{"dim", std::int64_t{0}}}},
      {"aten::sort", {"f32[6, 8]"}, {{"dim", std::int64_t{1}}}},
      {"aten::argmax", {"f32[6, 8]"}, {{"dim", std::int64_t{1}}}},
      {"aten::layer_norm", {"f32[6, 8]", "f32[8]", "f32[8]"}, {{"normalized_shape", Ints{8}}}},
      {"aten::view", {"f32[4, 6, 8]"}, {{"size", Ints{24, 8}}}},
      {"aten::view", {"f32[24, 8]"}, {{"size", Ints{4, 6, 8}}}},
      {"aten::reshape", {"f32[4, 12]"}, {{"shape", Ints{12, 4}}}},
      {"aten::transpose.int",
       {"f32[4, 6, 8]"},
       {{"dim0", std::int64_t{0}}, {"dim1", std::int64_t{2}}}},
      {"aten::cat", {"{f32[4, 6]; f32[2, 6]}"}, {{"dim", std::int64_t{0}}}},
      {"aten::embedding", {"f32[10, 8]", "i64[4, 6]"}},
      {"aten::index_select", {"f32[10, 8]", "i64[6]"}, {{"dim", std::int64_t{0}}}},
      {"aten::where.self", {"bool[6, 8]", "f32[6, 8]", "f32[8]"}},
      {"aten::conv2d", {"f32[4, 6, 12, 10]", "f32[8, 6, 3, 3]", "f32[8]"}},
      {"aten::addmm", {"f32[10]", "f32[8, 6]", "f32[6, 10]"}},
  };
  return all;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }

  /// Any layout: axes of one dim in any order, in blocks or segments, some partial.
  const Layout* layout(const Mesh* mesh, const TensorMeta& meta) {
    const int ndim = static_cast<int>(meta.sizes.size());
    std::vector<std::vector<int>> axes(static_cast<std::size_t>(ndim));
    std::vector<std::optional<ReduceOp>> partials(static_cast<std::size_t>(mesh->ndim()));
    for (int axis = 0; axis < mesh->ndim(); ++axis) {
      const int kind = below(8);
      if (kind == 0 && meta.dtype == DType::f32) {
        partials[static_cast<std::size_t>(axis)] = ReduceOp::sum;
      } else if (kind < 6 && ndim > 0) {
        auto& own = axes[static_cast<std::size_t>(below(ndim))];
        own.insert(own.begin() + below(static_cast<int>(own.size()) + 1), axis);
      }
    }
    std::vector<Split> splits;
    for (int dim = 0; dim < ndim; ++dim) {
      if (axes[static_cast<std::size_t>(dim)].empty()) continue;
      Split split{.dim = dim, .axes = axes[static_cast<std::size_t>(dim)]};
      const std::int64_t size = meta.sizes[static_cast<std::size_t>(dim)];
      const int style = below(6);
      if (style == 0) split.block = 2;
      if (style == 1 && size > 2) split.segments = {size - 2, 2};
      splits.push_back(std::move(split));
    }
    return Layout::get(mesh, std::move(splits), partials);
  }

 private:
  std::mt19937 engine_;
};

Call random_call(const Sample& sample, const char* mesh, Random& random) {
  Call out = call(sample.op, mesh, sample.operands, sample.attrs);
  for (Operand& o : out.inputs) {
    if (o.present && random.below(6) != 0) o.layout = random.layout(out.mesh, o.meta);
  }
  return out;
}

std::string text_of(const Call& c) {
  std::string out = c.op;
  for (const Operand& o : c.inputs) {
    if (!o.present) continue;
    out += "  " +
           (o.layout ? to_string(o.meta, o.layout) : to_string(o.meta, Layout::replicated(c.mesh)));
  }
  return out;
}

/// Runs `check(call, rule, answer)` on random layouts of all samples.
template <class Check>
void for_random_calls(int rounds, Check check) {
  Random random(11);
  int refused = 0;
  int total = 0;
  for (const char* mesh : {"x=2", "x=3", "a=2 b=3", "a=2 b=2 c=2"}) {
    for (const Sample& sample : samples()) {
      for (int round = 0; round < rounds; ++round, ++total) {
        const Call c = random_call(sample, mesh, random);
        CAPTURE(mesh);
        CAPTURE(text_of(c));
        try {
          const ConcreteRule r = rule(c);
          check(c, r, infer_forward(r, c));
        } catch (const UnsupportedError&) {
          ++refused;  // what is written in place would have to move
        }
      }
    }
  }
  CHECK(refused < total / 20);
}

double planned(const Call& c, const Inference& answer) {
  double out = 0;
  for (const Change& change : answer.changes) {
    const auto& meta = c.inputs[static_cast<std::size_t>(change.input)].meta;
    const double bytes = plan::redistribute(change.from, change.to, meta)->bytes;
    CHECK(change.bytes == bytes);
    out += bytes;
  }
  return out;
}

double by_handlers(const Question& q, const Inference& answer) {
  const auto weighed = weigh(q, answer.choices);
  REQUIRE(weighed.has_value());
  return weighed->handler.bytes;
}

/// What forward inference may choose on each axis.
std::vector<std::vector<AxisChoice>> open_choices(const Question& q) {
  std::vector<std::vector<AxisChoice>> out;
  for (int axis = 0; axis < q.call.mesh->ndim(); ++axis) {
    std::vector<AxisChoice> own = partial_choices(q.rule, q.call, q.states, axis);
    for (const OperandState& state : q.states) {
      if (state.layout == nullptr || state.axes[at(axis)].kind != Has::Kind::factor) continue;
      AxisChoice choice;
      choice.kind = AxisChoice::Kind::factor;
      choice.factor = state.axes[at(axis)].factor;
      own.push_back(choice);
    }
    own.emplace_back();
    out.push_back(std::move(own));
  }
  return out;
}

double cheapest(const Question& q) {
  const auto open = open_choices(q);
  std::vector<std::size_t> next(open.size(), 0);
  std::vector<AxisChoice> choices(open.size());
  double best = std::numeric_limits<double>::infinity();
  while (true) {
    for (std::size_t a = 0; a < open.size(); ++a) choices[a] = open[a][next[a]];
    if (const auto weighed = weigh(q, choices)) best = std::min(best, weighed->total());
    std::size_t a = 0;
    while (a < open.size() && ++next[a] == open[a].size()) next[a++] = 0;
    if (a == open.size()) return best;
  }
}

}  // namespace

TEST_SUITE("rules: cost") {
  TEST_CASE("BytesAreThoseOfThePlannerAndTheHandlers") {
    const CostModel model;
    for_random_calls(12, [&](const Call& c, const ConcreteRule& r, const Inference& answer) {
      const double sum = planned(c, answer) + by_handlers(ask(r, c, model), answer);
      CHECK(answer.bytes == doctest::Approx(sum).epsilon(1e-12));
      for (std::size_t i = 0; i < c.inputs.size(); ++i) {
        const Operand& o = c.inputs[i];
        if (!o.present || o.layout == nullptr || answer.inputs[i] == o.layout) continue;
        CHECK(std::any_of(answer.changes.begin(), answer.changes.end(),
                          [&](const Change& change) { return at(change.input) == i; }));
      }
    });
  }

  TEST_CASE("NothingWantedIsTheSameQuestion") {
    for_random_calls(10, [](const Call& c, const ConcreteRule& r, const Inference& answer) {
      const std::vector<const Layout*> nothing(r.outputs.size(), nullptr);
      const Inference same = infer_forward(r, c, nothing);
      CHECK(same.inputs == answer.inputs);
      CHECK(same.outputs == answer.outputs);
      CHECK(same.handler == answer.handler);
      CHECK(same.bytes == answer.bytes);
    });
  }

  TEST_CASE("NoOpenSetIsCheaper") {
    const CostModel model;
    for_random_calls(10, [&](const Call& c, const ConcreteRule& r, const Inference& answer) {
      const Question q = ask(r, c, model);
      const auto own = weigh(q, answer.choices);
      REQUIRE(own.has_value());
      CHECK(own->total() <= cheapest(q) * (1 + 1e-9));
    });
  }

  TEST_CASE("WhatIsGivenAnywayCostsNoMoreWhenItIsWanted") {
    for_random_calls(5, [](const Call& c, const ConcreteRule& r, const Inference& answer) {
      if (std::any_of(answer.outputs.begin(), answer.outputs.end(),
                      [](const Layout* l) { return l->has_partial(); })) {
        return;
      }
      CHECK(infer_forward(r, c, answer.outputs).bytes <= answer.bytes * (1 + 1e-9));
    });
  }

  TEST_CASE("OrdersAndBlocksHaveAPrice") {
    // Blocks of 4 over two ranks, where the result needs the rows in blocks of 6.
    const Call c = call("aten::reshape", "mp=2", {"f32[4, 12] S(1)"}, {{"shape", Ints{12, 4}}});
    const Inference answer = infer_forward(rule(c), c);
    REQUIRE(answer.changes.size() == 1);
    CHECK(answer.changes[0].bytes > 0);
    CHECK(answer.bytes == planned(c, answer));
  }

  TEST_CASE("AHandlerIsPricedForTheLayoutsThatItGets") {
    // The handler gathers what other axes leave; over two axes that split the dim, all of it.
    const Attrs last = {{"axis", std::int64_t{-1}}, {"dim", std::int64_t{-1}}};
    const auto bytes = [&](const char* operand) {
      const Call c = call("aten::sort", "x=2 y=2", {operand}, last);
      return infer_forward(rule(c), c).bytes;
    };
    CHECK(bytes("f32[8, 4, 16] S(2) S(0)") == 8 * 4 * 16 * 4 / 4);
    CHECK(bytes("f32[8, 4, 16] S(2) R") == 8 * 4 * 16 * 4 / 2);
    const Call both = call("aten::sort", "x=2 y=2", {"f32[8, 4, 16] S(2) S(2)"}, last);
    CHECK(answer(infer_forward(rule(both), both)) == "R R -> R R, R R");
  }

  TEST_CASE("BytesBetweenHostsCostMore") {
    const CostModel h100(plan::topology("h100"));
    const Mesh* mesh = parse_mesh("dp=2 tp=8");
    const TensorMeta meta{{64, 64}, DType::f32};
    const Layout* whole = Layout::replicated(mesh);
    const Price far = h100.change(parse_layout(mesh, "S(0) R"), whole, meta);
    const Price near = h100.change(parse_layout(mesh, "R S(0)"), whole, meta);
    CHECK(far.bytes == 64 * 64 * 4 / 2);
    CHECK(far.cost == doctest::Approx(far.bytes * 9));
    CHECK(near.cost == near.bytes);
    CHECK(CostModel().change(parse_layout(mesh, "S(0) R"), whole, meta).cost == far.bytes);
    // Rows over both axes, rows over the near one: what must move for the sum moves nearby.
    const Call c =
        call("aten::add.Tensor", "dp=2 tp=8", {"f32[64, 64] S(0) S(0)", "f32[64, 64] S(1) S(0)"});
    const ConcreteRule r = rule(c);
    const Question q = ask(r, c, h100);
    const auto weighed = weigh(q, infer_forward(r, c, {}, h100).choices);
    REQUIRE(weighed.has_value());
    CHECK(weighed->total() <= cheapest(q));
    CHECK(weighed->total() >= infer_forward(r, c, {}, h100).bytes);
  }

  TEST_CASE("WhatThePlannerRefusesIsRefused") {
    const Mesh* mesh = parse_mesh("x=2");
    const Price price = CostModel().change(parse_layout(mesh, "R"), parse_layout(mesh, "P(max)"),
                                           {{4}, DType::f32});
    CHECK(std::isinf(price.bytes));
  }
}

}  // namespace hyper_parallel::rules::test
