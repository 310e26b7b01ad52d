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
          "S(2) R R -> S(2)    d2 ~halo\n"
          "S(3) R R -> S(3)    d3 ~halo\n"
          "R S(0) S(0) -> S(1)    co\n"
          "P(sum) R P(sum) -> P(sum)\n"
          "R P(sum) P(sum) -> P(sum)\n"
          "P(avg) R P(avg) -> P(avg)\n"
          "R P(avg) P(avg) -> P(avg)");
    CHECK(result_sizes("aten::conv2d", {"f32[4, 3, 32, 32]", "f32[64, 3, 8, 8]", "f32[64]"},
                       conv(8, 0)) == "[4, 64, 4, 4]");
  }

  TEST_CASE("SplitSpaceNeedsTheRowsOfNeighbours") {
    const auto answered = [](const std::string& mesh, const std::string& x, const std::string& w,
                             const Attrs& attrs) {
      return forward("aten::conv1d", mesh, {x, w, "-"}, attrs);
    };
    CHECK(answered("x=2", "f32[4, 6, 9] S(2)", "f32[8, 6, 3] R", conv(1, 1)) ==
          "S(2), R, - -> S(2) ~halo");
    CHECK(answered("a=2 b=2", "f32[4, 6, 9] S(2) S(2)", "f32[8, 6, 3]", conv(1, 1)) ==
          "S(2) S(2), R R, - -> S(2) S(2) ~halo");
    // A window over all: the halo is as large as what a gather brings.
    CHECK(answered("x=2", "f32[4, 6, 8] S(2)", "f32[8, 6, 8] R", conv(1, 0)) == "R, R, - -> R");
    // One index reads one: no handler, and blocks pass.
    CHECK(answered("x=2", "f32[4, 6, 9] S(2; block=2)", "f32[8, 6, 1] R", conv(1, 0)) ==
          "S(2; block=2), R, - -> S(2; block=2)");
    CHECK(answered("x=4", "f32[4, 6, 5] S(2)", "f32[8, 6, 1] R", conv(1, 0)) == "R, R, - -> R");
    CHECK(answered("x=2", "f32[4, 6, 9] S(2; block=2)", "f32[8, 6, 3] R", conv(1, 1)) ==
          "S(2), R, - -> S(2) ~halo");
    // An addend that counts once is the same handler's affair.
    CHECK(forward("aten::conv1d", "a=2 b=2",
                  {"f32[4, 6, 9] S(1) S(2)", "f32[8, 6, 3] S(1) R", "f32[8] R R"},
                  conv(1, 1)) == "S(1) S(2), S(1) R, R R -> P(sum) S(2) ~halo");
    CHECK(backward("aten::conv1d", "x=2", {"f32[4, 6, 9] R", "f32[8, 6, 3] R", "-"}, {"S(2)"},
                   conv(1, 1)) == "S(2), R, - -> S(2) ~halo");
    CHECK(grad("aten::conv1d", "x=2", {"f32[4, 6, 9] S(2)", "f32[8, 6, 3] R", "f32[8] R"},
               conv(1, 1)) == "S(2), P(sum), P(sum)");
  }

  TEST_CASE("AHaloCostsTheRowsThatTheRankInTheMiddleLacks") {
    const auto bytes = [](const std::string& mesh, const std::string& x, std::int64_t stride,
                          std::int64_t padding) {
      const Call c = call("aten::conv2d", mesh, {x, "f32[4, 4, 3, 3]", "-"}, conv(stride, padding));
      return infer_forward(rule(c), c).bytes;
    };
    const double row = 2 * 4 * 8 * 4;
    CHECK(bytes("x=2", "f32[2, 4, 16, 8] S(2)", 1, 1) == row);
    CHECK(bytes("x=4", "f32[2, 4, 16, 8] S(2)", 1, 1) == 2 * row);
    CHECK(bytes("a=2 b=2", "f32[2, 4, 16, 8] S(2) S(2)", 1, 1) == 2 * row);
    CHECK(bytes("a=2 b=2", "f32[2, 4, 16, 8] S(0) S(2)", 1, 1) == row / 2);
    CHECK(bytes("x=2", "f32[2, 4, 16, 8] S(2)", 2, 1) == row);
    CHECK(bytes("x=2", "f32[2, 4, 18, 8] S(2)", 3, 0) == 0);
  }

  TEST_CASE("WindowsThatTheOpRefusesStayWhole") {
    const std::vector<std::string> x = {"f32[4, 6, 9] S(2)", "f32[8, 6, 3] R", "-"};
    CHECK(forward("aten::conv1d", "x=2", x, conv(1, -1)) == "R, R, - -> R");
    CHECK(forward("aten::conv1d", "x=2", {"f32[4, 6, 2] S(2)", x[1], "-"}, conv(1, 0)) ==
          "R, R, - -> R");
    const Attrs far = {{"kernel_size", Ints{3}}, {"padding", Ints{2}}, {"stride", Ints{1}}};
    CHECK(forward("aten::max_pool1d", "x=2", {"f32[4, 6, 9] S(2)"}, far) == "R -> R");
    const Attrs two = {{"kernel_size", Ints{3}}, {"padding", Ints{1}}, {"stride", Ints{1}}};
    CHECK(forward("aten::max_pool1d", "x=2", {"i64[4, 6, 9] S(2)"}, two) == "S(2) -> S(2) ~halo");
    CHECK(forward("aten::avg_pool1d", "x=2", {"i64[4, 6, 9] S(2)"}, two) == "R -> R");
  }

  TEST_CASE("PaddingByName") {
    Attrs same = {{"padding", std::string("same")}, {"dilation", Ints{2}}};
    CHECK(forward("aten::conv1d.padding", "x=2", {"f32[4, 6, 9] S(2)", "f32[8, 6, 4] R", "-"},
                  same) == "S(2), R, - -> S(2) ~halo");
    CHECK(result_sizes("aten::conv1d.padding", {"f32[4, 6, 9]", "f32[8, 6, 4]", "-"}, same) ==
          "[4, 8, 9]");
    CHECK(result_sizes("aten::conv1d.padding", {"f32[4, 6, 9]", "f32[8, 6, 4]", "-"},
                       {{"padding", std::string("valid")}}) == "[4, 8, 6]");
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
                  {{"output_size", Ints{1, 1}}}) == "S(2) -> P(sum) ~halo");
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

  TEST_CASE("Printed") {
    CHECK(printed("aten::conv2d", {"f32[8, 4, 16, 16]", "f32[6, 4, 3, 3]", "f32[6]"}) ==
          "*d0 ci d2~halo=16 d3~halo=16, *co ci _=3 _=3, +co -> d0 co d2 d3 {d0=8, ci=4 nonempty, "
          "d2=14 plain window(16 -> 14 kernel=3), d3=14 plain window(16 -> 14 kernel=3), co=6 "
          "nonempty}");
    CHECK(printed("aten::conv_transpose2d.input",
                  {"f32[8, 4, 16, 16]", "f32[4, 6, 3, 3]", "f32[6]"}) ==
          "*d0 ci d2~halo d3~halo, *ci co _=3 _=3, +co -> d0 co d2=18 d3=18 {d0=8, ci=4 nonempty, "
          "d2=16 plain window(16 -> 18 kernel=3 transposed), d3=16 plain window(16 -> 18 kernel=3 "
          "transposed), co=6 nonempty}");
    CHECK(printed("aten::im2col", {"f32[8, 4, 6, 6]"},
                  {{"kernel_size", Ints{2, 2}},
                   {"dilation", Ints{1, 1}},
                   {"padding", Ints{0, 0}},
                   {"stride", Ints{2, 2}}}) ==
          "*n c _=6 _=6 -> n (c w!) _=9 {n=8 nonempty, c=4 nonempty, w=4}");
    CHECK(printed("aten::col2im", {"f32[8, 16, 9]"},
                  {{"output_size", Ints{6, 6}},
                   {"kernel_size", Ints{2, 2}},
                   {"dilation", Ints{1, 1}},
                   {"padding", Ints{0, 0}},
                   {"stride", Ints{2, 2}}}) ==
          "*n (c w!) _=9 -> n c _=6 _=6 {n=8 nonempty, c=4 nonempty, w=4}");
    CHECK(printed("aten::pixel_unshuffle", {"f32[8, 4, 6, 6]"},
                  {{"downscale_factor", std::int64_t{2}}}) ==
          "*d0 c (h r!) (w r_2!) -> d0 (c r r_2) h w {d0=8 nonempty, c=4 nonempty, h=3 nonempty, "
          "w=3 nonempty, r=2, r_2=2}; any");
    CHECK(printed("aten::channel_shuffle", {"f32[8, 4, 6, 6]"}, {{"groups", std::int64_t{2}}}) ==
          "*d0 d1! d2 d3 -> d0 d1 d2 d3 {d0=8, d1=4, d2=6, d3=6}; any");
  }
}

}  // namespace hyper_parallel::rules::test
