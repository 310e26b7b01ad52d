// Which partial values pass. The traps are those of research/spmd_systems.md, section 2.4.

#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

std::string unary(std::string_view op, std::string_view kind, Attrs attrs = {}) {
  return forward(op, "x=2", {"f32[8, 16] " + std::string(kind)}, std::move(attrs));
}
std::string binary(std::string_view op, const std::string& a, const std::string& b) {
  return forward(op, "x=2", {"f32[8, 16] " + a, "f32[8, 16] " + b});
}

}  // namespace

TEST_SUITE("PartialValues") {
  TEST_CASE("LinearOpsPassSums") {
    CHECK(unary("aten::neg", "P(sum)") == "P(sum) -> P(sum)");
    CHECK(unary("aten::mul.Scalar", "P(sum)") == "P(sum) -> P(sum)");
    CHECK(unary("aten::div.Scalar", "P(avg)") == "P(avg) -> P(avg)");
    CHECK(unary("aten::sum", "P(sum)") == "P(sum) -> P(sum)");
    CHECK(unary("aten::mean", "P(sum)") == "P(sum) -> P(sum)");
    CHECK(unary("aten::neg", "P(max)") == "R -> R");
  }

  TEST_CASE("NonlinearOpsDoNot") {
    for (const char* op : {"aten::abs", "aten::relu", "aten::exp", "aten::pow.Tensor_Scalar",
                           "aten::gelu", "aten::add.Scalar", "aten::sub.Scalar",
                           "aten::rsub.Scalar", "aten::floor", "aten::isnan"}) {
      CAPTURE(op);
      CHECK(unary(op, "P(sum)") == "R -> R");
    }
  }

  TEST_CASE("IncreasingOpsPassMaxAndMin") {
    for (const char* op : {"aten::relu", "aten::exp", "aten::tanh", "aten::sigmoid", "aten::floor",
                           "aten::clamp", "aten::sign"}) {
      CAPTURE(op);
      CHECK(unary(op, "P(max)") == "P(max) -> P(max)");
      CHECK(unary(op, "P(min)") == "P(min) -> P(min)");
    }
    // One rank's part may lie outside the domain.
    CHECK(unary("aten::log", "P(max)") == "R -> R");
    CHECK(unary("aten::sqrt", "P(max)") == "R -> R");
    CHECK(unary("aten::leaky_relu", "P(max)") == "R -> R");  // the slope may be negative
  }

  TEST_CASE("SumsNeedAllOperandsPartial") {
    CHECK(binary("aten::add.Tensor", "P(sum)", "P(sum)") == "P(sum), P(sum) -> P(sum)");
    CHECK(binary("aten::sub.Tensor", "P(sum)", "P(sum)") == "P(sum), P(sum) -> P(sum)");
    CHECK(binary("aten::add.Tensor", "P(sum)", "R") == "R, R -> R");
    CHECK(binary("aten::add.Tensor", "P(sum)", "S(0)") == "S(0), S(0) -> S(0)");
    CHECK(binary("aten::add.Tensor", "P(sum)", "P(max)") == "R, R -> R");
    // What all ranks share is its own average.
    CHECK(binary("aten::add.Tensor", "P(avg)", "R") == "P(avg), R -> P(avg)");
  }

  TEST_CASE("AWholeValueIsAddedInPlaceToASum") {
    const auto write = [](const char* op, const char* self, const char* other) {
      return forward(op, "x=2",
                     {"!f32[8, 16] " + std::string(self), "f32[8, 16] " + std::string(other)});
    };
    CHECK(write("aten::add_.Tensor", "P(sum)", "R") == "P(sum), P(sum) -> P(sum)");
    CHECK(write("aten::sub_.Tensor", "P(sum)", "R") == "P(sum), P(sum) -> P(sum)");
    CHECK(write("aten::add_.Tensor", "P(sum)", "P(sum)") == "P(sum), P(sum) -> P(sum)");
    CHECK(write("aten::mul_.Tensor", "P(sum)", "R") == "P(sum), R -> P(sum)");
    CHECK(write("aten::add_.Tensor", "R", "P(sum)") == "R, R -> R");
  }

  TEST_CASE("ProductsNeedOne") {
    CHECK(binary("aten::mul.Tensor", "P(sum)", "R") == "P(sum), R -> P(sum)");
    CHECK(binary("aten::mul.Tensor", "P(sum)", "P(sum)") == "P(sum), R -> P(sum)");
    CHECK(binary("aten::div.Tensor", "P(sum)", "R") == "P(sum), R -> P(sum)");
    CHECK(binary("aten::div.Tensor", "R", "P(sum)") == "R, R -> R");
    CHECK(forward("aten::div.Tensor_mode", "x=2", {"f32[8] P(sum)", "f32[8] R"},
                  {{"rounding_mode", std::string("floor")}}) == "R, R -> R");
    CHECK(forward("aten::div.Tensor_mode", "x=2", {"f32[8] P(sum)", "f32[8] R"}) ==
          "P(sum), R -> P(sum)");
    CHECK(binary("aten::eq.Tensor", "P(sum)", "R") == "R, R -> R");
    CHECK(binary("aten::maximum", "P(max)", "R") == "P(max), R -> P(max)");
  }

  TEST_CASE("SumsOfProducts") {
    const auto addcmul = [](const std::string& a, const std::string& b, const std::string& c) {
      return forward("aten::addcmul", "x=2", {"f32[8] " + a, "f32[8] " + b, "f32[8] " + c});
    };
    CHECK(addcmul("P(sum)", "P(sum)", "R") == "P(sum), P(sum), R -> P(sum)");
    CHECK(addcmul("P(sum)", "R", "P(sum)") == "P(sum), R, P(sum) -> P(sum)");
    CHECK(addcmul("P(sum)", "R", "R") == "R, R, R -> R");
    CHECK(forward("aten::addcdiv", "x=2", {"f32[8] P(sum)", "f32[8] R", "f32[8] P(sum)"}) ==
          "R, R, R -> R");
    CHECK(forward("aten::lerp.Scalar", "x=2", {"f32[8] P(sum)", "f32[8] P(sum)"}) ==
          "P(sum), P(sum) -> P(sum)");
    // A bias that is not partial is kept on one rank.
    CHECK(forward("aten::linear", "x=2", {"f32[8, 16] P(sum)", "f32[4, 16] R", "f32[4] R"}) ==
          "P(sum), R, R -> P(sum) ~linear_addend");
  }

  TEST_CASE("MovesPassEveryKind") {
    for (const char* kind : {"P(sum)", "P(avg)", "P(max)", "P(min)", "P(prod)"}) {
      CAPTURE(kind);
      const std::string same = std::string(kind) + " -> " + kind;
      CHECK(unary("aten::view", kind, {{"size", Ints{128}}}) == same);
      CHECK(unary("aten::t", kind) == same);
      CHECK(unary("aten::clone", kind) == same);
    }
    CHECK(forward("aten::where.self", "x=2", {"bool[8] R", "f32[8] P(max)", "f32[8] P(max)"}) ==
          "R, P(max), P(max) -> P(max)");
    CHECK(forward("aten::masked_fill.Scalar", "x=2", {"f32[8] P(sum)", "bool[8] R"},
                  {{"value", 0.0}}) == "P(sum), R -> P(sum)");
    CHECK(forward("aten::masked_fill.Scalar", "x=2", {"f32[8] P(sum)", "bool[8] R"},
                  {{"value", 1.0}}) == "R, R -> R");
  }

  TEST_CASE("ReductionsPassTheirOwnKind") {
    CHECK(unary("aten::amax", "P(max)") == "P(max) -> P(max)");
    CHECK(unary("aten::amax", "P(min)") == "R -> R");
    CHECK(unary("aten::amax", "P(sum)") == "R -> R");
    CHECK(unary("aten::prod", "P(prod)") == "P(prod) -> P(prod)");
    CHECK(unary("aten::linalg_vector_norm", "P(sum)") == "R -> R");
  }

  TEST_CASE("CastsAreLinearUnlessTheyRound") {
    CHECK(unary("aten::to.dtype", "P(sum)", {{"dtype", std::string("bf16")}}) ==
          "P(sum) -> P(sum)");
    CHECK(unary("aten::to.dtype", "P(sum)", {{"dtype", std::string("i64")}}) == "R -> R");
    CHECK(unary("aten::to.dtype", "P(sum)", {{"dtype", std::int64_t{11}}}) == "R -> R");  // bool
    CHECK(forward("aten::type_as", "x=2", {"f32[8] P(sum)", "bool[3] S(0)"}) == "R, S(0) -> R");
  }

  TEST_CASE("ASumIsNotPutOffToMoveMore") {
    // Passing P on would keep an activation partial and gather the weight.
    CHECK(forward("aten::linear", "x=2", {"f32[8, 16] P(sum)", "f32[64, 16] S(0)", "-"}) ==
          "R, S(0), - -> S(1)");
  }
}

}  // namespace hyper_parallel::rules::test
