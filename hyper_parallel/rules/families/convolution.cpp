// Convolutions, and what unfolds or reorders images: batch, channels and space. Where the space of
// a convolution is split, handler "halo" fetches the rows that a rank's piece of the result reads.
//
// convN(input [n, ci, ...] or [ci, ...], weight [co, ci / groups, ...], bias? [co]). Where groups
// is 1, co passes and ci is summed over, both not empty on any rank. Depthwise (ci = co = groups):
// the channels pass, with groups rewritten. Other groups keep their channels whole.

#include <algorithm>

#include "hyper_parallel/rules/build/images.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

// One group: a window sums over all input channels `ci`. Gives the factor of the output channels,
// which are dim `co_dim` of the weight.
int sum_channels(ConcreteRule& rule, int ci, std::size_t ci_dim, std::size_t co_dim) {
  TensorMap& weight = rule.inputs[1];
  const std::int64_t outputs = weight.sizes[co_dim];
  const int co = add_factor(rule, "co", outputs, {{weight, co_dim}});
  fill(rule, co);
  put(weight, ci_dim, ci);
  rename(rule, ci, "ci");
  sum_over(rule, ci);
  return co;
}

// Linear in input and weight; a bias [co] is a term of its own.
void set_linear(ConcreteRule& rule, const Call& call, int co) {
  rule.inputs[0].linear = rule.inputs[1].linear = true;
  if (call.inputs.size() <= 2 || !call.inputs[2].present) return;
  check_ndim(call, 2, 1);
  rule.inputs[2].linear = rule.inputs[2].addend = true;
  rule.inputs[2].term = 1;
  put(rule.inputs[2], 0, co);
}

// convolution transposed(input [n, ci, ...], weight [ci, co / groups, ...], bias? [co]).
ConcreteRule build_transposed(const Call& call) {
  const Shape& weight = call.inputs[1].meta.sizes;
  const std::size_t count = std::max<std::size_t>(weight.size(), 3) - 2;
  check_ndim(call, 1, count + 2);
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread_image(rule, call, count);
  const std::size_t c = factors.size() - count - 1;
  const Shape& input = call.inputs[0].meta.sizes;
  if (weight[0] != input[c]) throw_sizes(call, 1, 0, weight[0], input[c], "input");
  const std::int64_t groups = call.integer("groups", 1);
  TensorMap out = whole(input);
  for (std::size_t d = 0; d < c; ++d) put(out, d, factors[d]);
  int co = kNoFactor;
  if (groups == 1) {
    co = sum_channels(rule, factors[c], 0, 1);
  } else if (groups == input[c] && weight[1] == 1) {
    co = factors[c];
    put(rule.inputs[1], 0, co);
    rule.rewrites.push_back({Rewrite::Kind::local_size, "groups", 0, static_cast<int>(c)});
  } else {
    block(rule, factors[c]);
  }
  put(out, c, co);
  out.sizes[c] = weight[1] * groups;
  const auto stride = spatial(call, "stride", count, 1);
  const auto padding = spatial(call, "padding", count, 0);
  const auto dilation = spatial(call, "dilation", count, 1);
  const auto extra = spatial(call, "output_padding", count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t d = c + 1 + i;
    const Window window{.kernel = weight[2 + i],
                        .stride = stride[i],
                        .padding = padding[i],
                        .dilation = dilation[i],
                        .transposed = true};
    out.sizes[d] = (input[d] - 1) * stride[i] - 2 * padding[i] + window.extent() + extra[i];
    const bool sound = extra[i] >= 0 && extra[i] < std::max(stride[i], dilation[i]);
    put_space(rule, out, d, factors[d], window, sound);
  }
  set_linear(rule, call, co);
  rule.outputs.push_back(std::move(out));
  return rule;
}

ConcreteRule build_convolution(const Call& call, Words words) {
  check_count(call, 2, 3);
  if (has_word(words, "transposed") || call.boolean("transposed", false)) {
    return build_transposed(call);
  }
  const Shape& weight = call.inputs[1].meta.sizes;
  const std::size_t count =
      words.empty() ? std::max<std::size_t>(weight.size(), 2) - 2 : number_of(words[0]);
  check_ndim(call, 1, count + 2);
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread_image(rule, call, count);
  const std::size_t c = factors.size() - count - 1;
  const Shape& input = call.inputs[0].meta.sizes;
  const std::int64_t groups = call.integer("groups", 1);
  if (weight[1] * groups != input[c]) {
    throw_sizes(call, 1, 1, weight[1], groups > 0 ? input[c] / groups : 0, "input a group");
  }
  TensorMap out = whole(input);
  for (std::size_t d = 0; d < c; ++d) put(out, d, factors[d]);
  const bool depthwise = groups > 1 && groups == input[c] && groups == weight[0];
  int co = kNoFactor;
  if (groups == 1) {
    co = sum_channels(rule, factors[c], 1, 0);
  } else if (depthwise) {
    co = factors[c];
    put(rule.inputs[1], 0, co);
    rule.rewrites.push_back({Rewrite::Kind::local_size, "groups", 0, static_cast<int>(c)});
  } else {
    block(rule, factors[c]);
  }
  put(out, c, co);
  out.sizes[c] = weight[0];
  const auto stride = spatial(call, "stride", count, 1);
  const auto dilation = spatial(call, "dilation", count, 1);
  const bool named = has_word(words, "named");  // padding is "same" or "valid"
  const bool same = named && is_text(call, "padding", "same");
  const auto padding =
      named ? std::vector<std::int64_t>(count, 0) : spatial(call, "padding", count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t d = c + 1 + i;
    Window window{.kernel = weight[2 + i],
                  .stride = stride[i],
                  .padding = padding[i],
                  .dilation = dilation[i]};
    // What the extent has more than the stride of 1 is padded, the odd one behind.
    if (same) window.padding = (window.extent() - 1) / 2;
    const std::int64_t room = same ? input[d] - 1 : input[d] + 2 * padding[i] - window.extent();
    out.sizes[d] = count_windows(room, stride[i]);
    put_space(rule, out, d, factors[d], window, !same || stride[i] == 1);
  }
  set_linear(rule, call, co);
  rule.outputs.push_back(std::move(out));
  return rule;
}

// im2col [n, c, h, w] -> [n, (c window), places], and col2im back.
ConcreteRule build_columns(const Call& call, Words words) {
  check_count(call, 1, 1);
  const bool back = has_word(words, "back");
  const Shape& input = call.inputs[0].meta.sizes;
  const std::size_t ndim = input.size();
  const std::size_t wanted = back ? 3 : 4;
  if (ndim + 1 != wanted) check_ndim(call, 0, wanted);
  const std::size_t c = ndim + 1 == wanted ? 0 : 1;  // without a batch: 0
  const auto kernel = spatial(call, "kernel_size", 2, 1);
  const auto stride = spatial(call, "stride", 2, 1);
  const auto padding = spatial(call, "padding", 2, 0);
  const auto dilation = spatial(call, "dilation", 2, 1);
  const std::int64_t window = std::max<std::int64_t>(kernel[0] * kernel[1], 1);
  ConcreteRule rule = start(call);
  rule.inputs[0].linear = true;
  TensorMap out = whole(Shape(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(c)));
  if (c == 1) fill(rule, add_factor(rule, "n", input[0], {{rule.inputs[0], 0}, {out, 0}}));
  const std::int64_t channels = back ? input[c] / window : input[c];
  add_dim(out, back ? channels : channels * window);
  if (channels > 1) fill(rule, add_factor(rule, "c", channels, {{rule.inputs[0], c}, {out, c}}));
  add_factor(rule, "w", window, {{back ? rule.inputs[0] : out, c}}, FactorKind::blocked);
  std::int64_t places = 1;
  for (std::size_t i = 0; i < 2 && !back; ++i) {
    const std::int64_t room = input[c + 1 + i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1;
    places *= room / std::max<std::int64_t>(stride[i], 1) + 1;
  }
  for (std::int64_t size : back ? call.integers("output_size") : Shape{places}) {
    add_dim(out, size);
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

// pixel_shuffle [..., (c r r), h, w] -> [..., c, (h r), (w r)], and pixel_unshuffle (`back`).
ConcreteRule build_pixels(const Call& call, Words words) {
  check_count(call, 1, 1);
  const bool back = has_word(words, "back");
  const Shape& input = call.inputs[0].meta.sizes;
  if (input.size() < 3) check_ndim(call, 0, 3);
  const std::int64_t r =
      std::max<std::int64_t>(call.integer(back ? "downscale_factor" : "upscale_factor", 1), 1);
  ConcreteRule rule = start(call);
  rule.inputs[0].linear = true;
  rule.partial = PartialRule::any;
  TensorMap out = whole(input);
  TensorMap& few = back ? out : rule.inputs[0];   // (c r r) h w
  TensorMap& many = back ? rule.inputs[0] : out;  // c (h r) (w r)
  const std::size_t c = input.size() - 3;
  const Shape plane = {back ? input[c] : input[c] / (r * r), back ? input[c + 1] / r : input[c + 1],
                       back ? input[c + 2] / r : input[c + 2]};
  for (std::size_t d = 0; d < input.size(); ++d) {
    const std::int64_t size = d < c ? input[d] : plane[d - c];
    if (size <= 1) continue;
    const std::string name = d < c ? "d" + std::to_string(d) : std::string(1, "chw"[d - c]);
    fill(rule, add_factor(rule, name, size, {{few, d}, {many, d}}));
  }
  for (std::size_t d = c + 1; d < c + 3; ++d) {
    add_factor(rule, "r", r, {{few, c}, {many, d}}, FactorKind::blocked);
  }
  out.sizes[c] = back ? plane[0] * r * r : plane[0];
  for (std::size_t d = 1; d < 3; ++d) out.sizes[c + d] = back ? plane[d] : plane[d] * r;
  rule.outputs.push_back(std::move(out));
  return rule;
}

// channel_shuffle [n, (g c), ...] -> [n, (c g), ...]
ConcreteRule build_shuffle(const Call& call, Words) {
  check_count(call, 1, 1);
  const Shape& input = call.inputs[0].meta.sizes;
  if (input.size() < 3) check_ndim(call, 0, 3);
  ConcreteRule rule = start(call);
  rule.inputs[0].linear = true;
  rule.partial = PartialRule::any;
  const std::vector<int> factors = spread(rule, 0);
  TensorMap out = whole(input);
  out.dims = rule.inputs[0].dims;
  block(rule, factors[1]);
  rule.outputs.push_back(std::move(out));
  return rule;
}

constexpr Group kGroups[] = {
    {"convolution 1", "conv1d"},
    {"convolution 2", "conv2d"},
    {"convolution 3", "conv3d"},
    {"convolution 1 named", "conv1d.padding"},
    {"convolution 2 named", "conv2d.padding"},
    {"convolution 3 named", "conv3d.padding"},
    {"convolution", "convolution"},
    {"convolution transposed", "conv_transpose1d conv_transpose2d.input conv_transpose3d.input"},
    {"channel_shuffle", "channel_shuffle"},
    {"columns", "im2col"},
    {"columns back", "col2im"},
    {"pixels", "pixel_shuffle"},
    {"pixels back", "pixel_unshuffle"},
};

constexpr NamedBuilder kBuilders[] = {
    {"channel_shuffle", build_shuffle},
    {"columns", build_columns},
    {"convolution", build_convolution},
    {"pixels", build_pixels},
};

}  // namespace

Family convolution_family() { return {"convolution", {}, kGroups, kBuilders}; }

}  // namespace hyper_parallel::rules
