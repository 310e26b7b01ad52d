// Inference by name: Paddle's words, gradients as ops.

#include "hyper_parallel/rules/query/infer.h"

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/query/paddle.h"
#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

std::string named(std::string_view op, const std::vector<std::string>& operands, Attrs attrs = {},
                  std::string_view mesh = "x=2") {
  return answer(infer_forward(query(call(op, mesh, operands, std::move(attrs)))));
}

// The layouts of the gradients, for all operands given and the gradients of the results as `grads`.
std::string gradients(std::string_view op, const std::vector<std::string>& operands,
                      const std::vector<std::string>& grads, Attrs attrs = {},
                      std::string_view mesh = "x=2") {
  const Query q = query(call(op, mesh, operands, std::move(attrs)));
  GradientCall given;
  for (const Operand& o : q.call.inputs) {
    given.inputs.push_back(o.present && o.layout == nullptr ? Layout::replicated(q.call.mesh)
                                                            : o.layout);
  }
  for (const std::string& text : grads) {
    given.out_grads.push_back(text == "-" ? nullptr : parse_layout(q.call.mesh, text));
  }
  std::vector<std::string> out;
  const Gradient made = infer_grad(q, given);
  for (const Layout* l : made.grads) out.push_back(l == nullptr ? "-" : l->to_string());
  return join(out) + (made.handler.empty() ? "" : " ~" + made.handler);
}

std::int64_t n(std::int64_t value) { return value; }

}  // namespace

TEST_SUITE("InferenceByName") {
  TEST_CASE("NamesAreLookedUpAsRowsThenAsPaddlesThenAsTorchs") {
    const std::vector<std::string> x = {"f32[8, 16] S(0)"};
    CHECK(query(call("aten::sum.dim_IntList", "x=2", x)).row == "aten::sum.dim_IntList");
    CHECK(query(call("sum", "x=2", x, {{"axis", Ints{1}}})).row == "aten::sum.dim_IntList");
    CHECK(query(call("paddle::sum", "x=2", x)).row == "aten::sum.dim_IntList");
    CHECK(query(call("gelu", "x=2", x)).row == "aten::gelu");
    CHECK(query(call("transpose", "x=2", x, {{"perm", Ints{1, 0}}})).row == "aten::permute");
    CHECK(query(call("masked_fill.Scalar", "x=2", {"f32[8] S(0)", "bool[8]"})).row ==
          "aten::masked_fill.Scalar");
    CHECK(query(call("kthvalue", "x=2", x, {{"k", n(1)}})).row == "aten::kthvalue");
    CHECK(is_known("topk"));
    CHECK_FALSE(is_known("aten::topkk"));
  }

  TEST_CASE("AliasesAreSortedAndNameRows") {
    const auto all = aliases();
    CHECK(std::is_sorted(all.begin(), all.end(),
                         [](const Alias& a, const Alias& b) { return a.name < b.name; }));
    CHECK(all.size() == 71);
    for (const Alias& alias : all) CHECK_MESSAGE(find_row(alias.op) != nullptr, alias.name);
  }

  TEST_CASE("UnknownNamesShowNearOnes") {
    CHECK(error([] { query(call("topkk", "x=2", {"f32[8] R"})); }) ==
          "[HP-S040] no rule for an op named \"topkk\"\n"
          "  near  topk, aten::topk, aten::copy\n"
          "  try   python -m hyper_parallel rules lists all names");
    CHECK(error([] {
            Call c = call("mm", "x=2", {"f32[8, 4]", "f32[4, 8]"});
            c.mesh = nullptr;
            query(std::move(c));
          }).starts_with("[HP-S041] mm: no operand has a layout"));
  }

  TEST_CASE("MeshAndListsMayBeLeftOut") {
    Call c = call("mm", "x=2", {"f32[8, 4] S(0)", "f32[4, 8]"});
    c.mesh = nullptr;
    c.list_lengths.clear();
    CHECK(answer(infer_forward(query(std::move(c)))) == "S(0), R -> S(0)");
  }
}

TEST_SUITE("PaddlesWords") {
  TEST_CASE("OperandsInAnotherOrder") {
    CHECK(named("embedding", {"i64[4, 6] S(0)", "f32[10, 8] R"}) == "S(0), R -> S(0)");
    CHECK(named("batch_norm", {"f32[8, 4] S(1)", "f32[4]", "f32[4]", "f32[4]", "f32[4]"}) ==
          "S(1), S(0), S(0), S(0), S(0) -> S(1), S(0), S(0), S(0), S(0), R");
    CHECK(named("batch_norm", {"f32[8, 4] S(0)", "f32[4]", "f32[4]", "f32[4]", "f32[4]"}) ==
          "S(0), R, R, R, R -> S(0), R, R, R, R, R ~batch_norm");
    CHECK(named("batch_norm", {"f32[8, 4] S(0)", "f32[4]", "f32[4]", "f32[4]", "f32[4]"},
                {{"is_test", true}}) == "S(0), R, R, R, R -> S(0), R, R, R, R, R");
  }

  TEST_CASE("DimsInAnotherOrder") {
    const Attrs last = {{"data_format", std::string("NHWC")}};
    CHECK(named("conv2d", {"f32[8, 6, 6, 4] S(3)", "f32[2, 4, 3, 3]"}, last) ==
          "S(3), S(1) -> P(sum)");
    CHECK(named("conv2d", {"f32[8, 6, 6, 4] R", "f32[2, 4, 3, 3] S(0)"}, last) ==
          "R, S(0) -> S(3)");
    CHECK(named("conv2d", {"f32[8, 6, 6, 4] S(1)", "f32[2, 4, 3, 3]"}, last) ==
          "S(1), R -> S(1) ~halo");
    CHECK(named("matmul", {"f32[8, 16] R", "f32[4, 16] S(0)"}, {{"trans_y", true}}) ==
          "R, S(0) -> S(1)");
    CHECK(named("flash_attention",
                {"f32[2, 6, 4, 8] S(2)", "f32[2, 6, 4, 8] R", "f32[2, 6, 4, 8] R"}) ==
          "S(2), S(2), S(2) -> S(2), S(1), S(1), R");
  }

  TEST_CASE("FlatWeights") {
    CHECK(named("layer_norm", {"f32[4, 6, 8] S(0)", "f32[48]", "f32[48]"},
                {{"begin_norm_axis", n(1)}}) == "S(0), R, R -> S(0), S(0), S(0)");
    CHECK(error([] {
            named("layer_norm", {"f32[4, 6, 8] S(0)", "f32[47]"}, {{"begin_norm_axis", n(1)}});
          }).starts_with("[HP-S002] layer_norm: operand \"arg1\": dim 0 has size 47"));
  }

  TEST_CASE("SeveralAxesAtOnce") {
    CHECK(named("slice", {"f32[8, 6, 4] S(2)"},
                {{"axes", Ints{0, 1}},
                 {"starts", Ints{1, 0}},
                 {"ends", Ints{2, 3}},
                 {"decrease_axis", Ints{0}}}) == "S(2) -> S(1)");
    CHECK(named("unsqueeze", {"f32[8, 6] S(1)"}, {{"axis", Ints{0, -1}}}) == "S(1) -> S(2)");
    CHECK(named("pad", {"f32[8, 6] S(0)"}, {{"paddings", Ints{0, 0, 1, 1}}}) == "S(0) -> S(0)");
    CHECK(named("tile", {"f32[8, 6] S(1)"}, {{"repeat_times", Ints{2}}}) ==
          "S(1) -> S(1; segments=6|6)");
  }

  TEST_CASE("RowsOfOpsThatTorchLacks") {
    CHECK(named("hyper_parallel::label_smooth", {"f32[8, 6] S(1)"}) ==
          "S(1) -> S(1) ~label_smooth");
    CHECK(named("hyper_parallel::label_smooth", {"f32[8, 6] S(1)", "f32[6]"}) ==
          "S(1), S(0) -> S(1)");
    CHECK(named("hyper_parallel::label_smooth", {"f32[8, 6] P(sum)"}) == "R -> R");
    CHECK(named("hyper_parallel::roi_align", {"f32[2, 4, 8, 8] S(2)", "f32[6, 4] R", "i64[2] R"},
                {{"pooled_height", n(3)}, {"pooled_width", n(3)}}) == "R, R, R -> R");
    CHECK(named("hyper_parallel::roi_align", {"f32[2, 4, 8, 8] P(sum)", "f32[6, 4] R", "i64[2] R"},
                {{"pooled_height", n(3)}, {"pooled_width", n(3)}}) == "P(sum), R, R -> P(sum)");
    CHECK(named("hyper_parallel::rope", {"f32[2, 8, 4, 6] S(1)", "f32[2, 8, 4, 6] R", "-",
                                         "f32[1, 8, 1, 6]", "f32[1, 8, 1, 6]"}) ==
          "S(1), S(1), -, S(1), S(1) -> S(1), S(1), R");
    CHECK(named("hyper_parallel::scatter_nd_add",
                {"f32[8, 6] R", "i64[4, 1] S(0)", "f32[4, 6] S(0)"}) ==
          "R, S(0), S(0) -> P(sum) ~linear_addend");
    CHECK(named("hyper_parallel::gather_nd", {"f32[8, 6, 4] S(2)", "i64[5, 2] R"}) ==
          "S(2), R -> S(1)");
    CHECK(
        named("hyper_parallel::cross_entropy_with_softmax", {"f32[64, 512] S(1)", "i64[64, 1]"}) ==
        "S(1), R -> S(1), R ~softmax_cross_entropy");
    CHECK(named("hyper_parallel::squared_l2_norm", {"f32[8, 6] S(1)"}) == "S(1) -> P(sum)");
    CHECK(named("hyper_parallel::unique", {"i64[8] S(0)"}) == "R -> R, R, R, R");
    CHECK(named("hyper_parallel::group_norm", {"f32[8, 4, 6] S(1)", "f32[4]"},
                {{"num_groups", n(2)}}) == "R, R -> R, R, R");
    CHECK(error([] {
            named("hyper_parallel::group_norm", {"f32[8, 4, 6] R"}, {{"num_groups", n(3)}});
          }).starts_with("[HP-S005] hyper_parallel::group_norm: num_groups does not divide"));
  }

  TEST_CASE("TransposedConvolutions") {
    const std::string op = "aten::conv_transpose2d.input";
    CHECK(named(op, {"f32[8, 4, 6, 6] S(0)", "f32[4, 2, 3, 3]"}) == "S(0), R -> S(0)");
    CHECK(named(op, {"f32[8, 4, 6, 6] S(1)", "f32[4, 2, 3, 3]"}) == "S(1), S(0) -> P(sum)");
    CHECK(named(op, {"f32[8, 4, 6, 6] R", "f32[4, 2, 3, 3] S(1)"}) == "R, S(1) -> S(1)");
    CHECK(named(op, {"f32[8, 4, 6, 6] S(2)", "f32[4, 2, 3, 3]"}) == "S(2), R -> S(2) ~halo");
    CHECK(result_sizes(op, {"f32[8, 4, 6, 5]", "f32[4, 2, 3, 3]"},
                       {{"stride", Ints{2, 1}}, {"output_padding", Ints{1, 0}}}) ==
          "[8, 2, 14, 7]");
    const Query grouped =
        query(call(op, "x=2", {"f32[8, 4, 6, 6] S(1)", "f32[4, 1, 3, 3]"}, {{"groups", n(4)}}));
    CHECK(answer(infer_forward(grouped)) == "S(1), S(0) -> S(1)");
    CHECK(grouped.rule.rewrites.size() == 1);
  }
}

TEST_SUITE("GradientsAsOps") {
  TEST_CASE("ALetterThatAGradientLacksIsSummedOver") {
    CHECK(gradients("aten::mm", {"f32[8, 16] S(0)", "f32[16, 4] R"}, {"S(0)"}) == "S(0), P(sum)");
    CHECK(gradients("aten::mm", {"f32[8, 16] S(1)", "f32[16, 4] S(0)"}, {"R"}) == "S(1), S(0)");
    CHECK(gradients("aten::mul.Tensor", {"f32[8, 16] S(0)", "f32[16] R"}, {"S(0)"}) ==
          "S(0), P(sum)");
    CHECK(gradients("aten::expand", {"f32[1, 16] R"}, {"S(0)"}, {{"size", Ints{8, 16}}}) ==
          "P(sum)");
  }

  TEST_CASE("AnAddendOfASplitSumHasAWholeGradient") {
    const std::vector<std::string> by_sum = {"f32[8, 16] S(1)", "f32[4, 16] S(1)", "f32[4] R"};
    CHECK(gradients("aten::linear", by_sum, {"R"}) == "S(1), S(1), R");
    const std::vector<std::string> by_row = {"f32[8, 16] S(0)", "f32[4, 16] R", "f32[4] R"};
    CHECK(gradients("aten::linear", by_row, {"S(0)"}) == "S(0), P(sum), P(sum)");
  }

  TEST_CASE("PartialGradientsPassTogether") {
    CHECK(gradients("aten::relu", {"f32[8] R"}, {"P(sum)"}) == "P(sum)");
    const Attrs dim = {{"dim", n(0)}};
    CHECK(gradients("aten::unbind.int", {"f32[2, 4] R"}, {"P(sum)", "P(sum)"}, dim) == "P(sum)");
    CHECK(gradients("aten::unbind.int", {"f32[2, 4] R"}, {"P(sum)", "R"}, dim) == "R");
    // Reduced while it is small.
    CHECK(gradients("aten::topk", {"f32[8, 4] R"}, {"P(sum)", "-"}, {{"k", n(2)}}) == "R");
    CHECK(gradients("aten::relu", {"f32[8] R"}, {"P(max)"}) == "R");
  }

  TEST_CASE("HandlersGoWithTheirLetters") {
    CHECK(gradients("aten::softmax.int", {"f32[64, 512] S(1)"}, {"S(1)"}, {{"dim", n(1)}}) ==
          "S(1) ~softmax");
    CHECK(gradients("aten::amax", {"f32[8, 4] S(1)"}, {"R"}, {{"dim", Ints{1}}}) == "R");
  }

  TEST_CASE("WhatOnlyItsShapeIsNeededOfDecidesNothing") {
    CHECK(gradients("aten::sum.dim_IntList", {"f32[8, 4] S(0)"}, {"R"}, {{"dim", Ints{1}}}) == "R");
    CHECK(gradients("aten::index_select", {"f32[8, 4] R", "i64[6] S(0)"}, {"S(0)"},
                    {{"dim", n(0)}}) == "P(sum), -");
  }

  TEST_CASE("ListOpsHaveNone") {
    CHECK(error([] {
            gradients("aten::_foreach_abs", {"{f32[8] R}"}, {"R"});
          }).starts_with("[HP-S036] aten::_foreach_abs"));
  }
}

}  // namespace hyper_parallel::rules::test
