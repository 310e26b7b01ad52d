#include "tests/rules/support.h"

namespace hyper_parallel::rules::test {
namespace {

Attrs conv(std::int64_t stride, std::int64_t padding, std::int64_t groups = 1) {
  return {{"stride", Ints{stride}}, {"padding", Ints{padding}}, {"groups", groups}};
}

}  // namespace

TEST_SUITE("ConvolutionRules") {
  TEST_CASE("PatchEmbeddingTable") {
    CHECK(table("aten::conv2d", {"f32[4, 3, 32, 32]", "f32[64, 3, 8, 8]", "f32[64]"}, conv(8, 0)) ==
          "R R R -> R\n"
          "S(0) R R -> S(0)    d0\n"
          "S(1) S(1) P(sum) -> P(sum)    ci\n"
          "R S(0) S(0) -> S(1)    co\n"
          "P(sum) R P(sum) -> P(sum)\n"
          "R P(sum) P(sum) -> P(sum)\n"
          "P(avg) R P(avg) -> P(avg)\n"
          "R P(avg) P(avg) -> P(avg)");
    CHECK(result_sizes("aten::conv2d", {"f32[4, 3, 32, 32]", "f32[64, 3, 8, 8]", "f32[64]"},
                       conv(8, 0)) == "[4, 64, 4, 4]");
  }

  TEST_CASE("SpaceIsWhole") {
    CHECK(forward("aten::conv1d", "x=2", {"f32[4, 6, 9] S(2)", "f32[8, 6, 3] R", "-"},
                  conv(1, 1)) == "R, R, - -> R");
  }

  TEST_CASE("DepthwiseChannelsPassWithGroupsRewritten") {
    const std::vector<std::string> x = {"f32[4, 6, 9] S(1)", "f32[6, 1, 3] R", "f32[6] R"};
    CHECK(forward("aten::conv1d", "x=2", x, conv(1, 2, 6)) == "S(1), S(0), S(0) -> S(1)");
    const Call c = call("aten::conv1d", "x=2", x, conv(1, 2, 6));
    const ConcreteRule r = rule(c);
    REQUIRE(r.rewrites.size() == 1);
    CHECK(r.rewrites[0].argument == "groups");
    // Other groups keep their channels whole.
    CHECK(forward("aten::conv1d", "x=2", {"f32[4, 6, 9] S(1)", "f32[8, 3, 3] R", "-"},
                  conv(1, 1, 2)) == "R, R, - -> R");
  }

  TEST_CASE("NoRankIsLeftWithoutChannels") {
    CHECK(forward("aten::conv1d", "x=4", {"f32[4, 6, 9] R", "f32[6, 6, 3] S(0)", "-"},
                  conv(1, 1)) == "R, R, - -> R");
  }

  TEST_CASE("AnUnbatchedImage") {
    CHECK(result_sizes("aten::conv2d", {"f32[3, 8, 8]", "f32[5, 3, 3, 3]", "-"}, conv(1, 1)) ==
          "[5, 8, 8]");
  }

  TEST_CASE("Pooling") {
    const Attrs window = {{"kernel_size", Ints{3, 3}},
                          {"stride", Ints{2, 2}},
                          {"padding", Ints{1}},
                          {"ceil_mode", true}};
    CHECK(forward("aten::max_pool2d", "a=2 b=2", {"f32[4, 6, 7, 7] S(0) S(1)"}, window) ==
          "S(0) S(1) -> S(0) S(1)");
    CHECK(result_sizes("aten::max_pool2d", {"f32[4, 6, 7, 7]"}, window) == "[4, 6, 4, 4]");
    CHECK(forward("aten::avg_pool2d", "x=2", {"f32[4, 6, 8, 8] P(sum)"},
                  {{"kernel_size", Ints{2}}}) == "P(sum) -> P(sum)");
    CHECK(forward("aten::adaptive_avg_pool2d", "x=2", {"f32[4, 6, 8, 8] S(2)"},
                  {{"output_size", Ints{1, 1}}}) == "R -> R");
  }

  TEST_CASE("TransposedSwapsTheChannelsOfTheWeight") {
    Attrs attrs = conv(2, 1);
    attrs["transposed"] = true;
    attrs["output_padding"] = Ints{1};
    CHECK(result_sizes("aten::convolution", {"f32[3, 4, 5]", "f32[4, 6, 3]", "-"}, attrs) ==
          "[3, 6, 10]");
    CHECK(forward("aten::convolution", "x=2", {"f32[3, 4, 5] S(1)", "f32[4, 6, 3] S(0)", "-"},
                  attrs) == "S(1), S(0), - -> P(sum)");
    CHECK(forward("aten::convolution", "x=2", {"f32[3, 4, 5] R", "f32[4, 6, 3] S(1)", "-"},
                  attrs) == "R, S(1), - -> S(1)");
  }

  TEST_CASE("WindowsAndPixelsKeepChannels") {
    const Attrs window = {{"kernel_size", Ints{2, 2}}, {"stride", Ints{1, 1}}};
    CHECK(result_sizes("aten::im2col", {"f32[3, 4, 5, 6]"}, window) == "[3, 16, 20]");
    CHECK(forward("aten::im2col", "x=2", {"f32[3, 4, 5, 6] S(1)"}, window) == "S(1) -> S(1)");
    const Attrs two = {{"upscale_factor", std::int64_t{2}}};
    CHECK(result_sizes("aten::pixel_shuffle", {"f32[3, 8, 5, 6]"}, two) == "[3, 2, 10, 12]");
    CHECK(forward("aten::pixel_shuffle", "x=2", {"f32[3, 8, 5, 6] S(2)"}, two) ==
          "S(2) -> S(2; block=2)");
    CHECK(forward("aten::pixel_shuffle", "x=2", {"f32[3, 8, 4, 6] S(2)"}, two) == "S(2) -> S(2)");
  }
}

}  // namespace hyper_parallel::rules::test
