#include "hyper_parallel/rules/query/read_call.h"

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "tests/support/doctest.h"

namespace hyper_parallel::rules {
namespace {

TEST_SUITE("ReadCall") {
  TEST_CASE("ACallInTextIsInferredAsOneInValues") {
    const Query query =
        read_call("aten::mm", "f32[8, 16] on dp=2 tp=2: S(0) S(1); f32[16, 32] R S(0)");
    const Inference made = infer_forward(query);
    CHECK(made.changes.empty());
    CHECK(made.outputs.at(0) == parse_layout("dp=2 tp=2: S(0) P(sum)"));
  }

  TEST_CASE("TheMeshMayStandInAnyOperand") {
    const Query query = read_call("aten::mm", "f32[8, 16] S(0); f32[16, 32] on x=2: R");
    CHECK(query.call.inputs[0].layout == parse_layout("x=2: S(0)"));
  }

  TEST_CASE("WithoutALayoutAllIsWholeOnTwoRanks") {
    const Query query = read_call("topk", "f32[8, 16]", "axis=1 k=2");
    CHECK(query.row == "aten::topk");
    CHECK(query.call.mesh == Mesh::get({2}, {"x"}));
    CHECK(query.call.inputs[0].layout->is_replicated());
  }

  TEST_CASE("WhatDoesNotReadIsRefused") {
    CHECK_THROWS_AS(read_call("aten::mm", "f32[8, 16]"), UsageError);
    CHECK_THROWS_AS(read_call("aten::mm", "f32[8, 16]; what"), UsageError);
    CHECK_THROWS_AS(read_call("aten::mm", "f32[8, 16] R; f32[16, 4] R"), UsageError);
    CHECK_THROWS_AS(read_call("aten::mm", "x[8, 16]; f32[16, 4]"), UsageError);
    CHECK_THROWS_AS(read_call("no_such", "f32[8]"), UsageError);
    CHECK_THROWS_AS(read_call("aten::sum", "f32[8]", "dim"), UsageError);
  }
}

}  // namespace
}  // namespace hyper_parallel::rules
