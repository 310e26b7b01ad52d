#include "hyper_parallel/rules/query/answer_text.h"

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/query/read_call.h"
#include "tests/support/doctest.h"

namespace hyper_parallel::rules {
namespace {

TEST_SUITE("AnswerText") {
  TEST_CASE("AnAnswerNamesTensorsChangesAndTheHandler") {
    const Query mm = read_call("mm", "f32[8, 16] on dp=2 tp=2: S(0) S(1); f32[16, 32] R R");
    CHECK(to_string(mm, infer_forward(mm)) ==
          "aten::mm on dp=2 tp=2: a rank moves 0 bytes\n"
          "  input 0  f32[8, 16] S(0) S(1)\n"
          "  input 1  f32[16, 32] R S(0)\n"
          "  output 0  f32[8, 32] S(0) P(sum)\n"
          "  change input 1: R R -> R S(0), 0 bytes: axis tp splits the sum over k");
    const Query topk = read_call("topk", "f32[8, 100] on tp=4: S(1)", "k=5 axis=-1");
    CHECK(to_string(topk, infer_forward(topk)) ==
          "aten::topk on tp=4: a rank moves 1440 bytes\n"
          "  input 0  f32[8, 100] S(1)\n"
          "  output 0  f32[8, 5] R\n"
          "  output 1  f32[8, 5] R\n"
          "  handler topk");
  }

  TEST_CASE("AGradientNamesTheGradientsToo") {
    const Query mm = read_call("mm", "f32[8, 16] on dp=2 tp=2: S(0) S(1); f32[16, 32] R R");
    GradientCall call;
    for (const Operand& operand : mm.call.inputs) call.inputs.push_back(operand.layout);
    call.out_grads = {parse_layout("dp=2 tp=2: S(0) R")};
    CHECK(to_string(mm, infer_grad(mm, call)) ==
          "aten::mm gradient on dp=2 tp=2: a rank moves 0 bytes\n"
          "  input 0  f32[8, 16] S(0) S(1)\n"
          "  input 1  f32[16, 32] R S(0)\n"
          "  out_grad 0  f32[8, 32] S(0) R\n"
          "  grad 0  f32[8, 16] S(0) S(1)\n"
          "  grad 1  f32[16, 32] P(sum) S(0)\n"
          "  change input 1: R R -> R S(0), 0 bytes: axis tp splits the sum over k");
  }

  TEST_CASE("ResultsHaveTheTypeOfTheFirstFloat") {
    CHECK(result_dtype(read_call("aten::where.self", "bool[8]; f64[8]; f64[8]")) == DType::boolean);
    CHECK(result_dtype(read_call("embedding", "i64[2, 8]; bf16[100, 16]")) == DType::bf16);
    CHECK(result_dtype(read_call("aten::bincount", "i32[8]")) == DType::i32);
  }
}

}  // namespace
}  // namespace hyper_parallel::rules
