// Convolutions and pooling: batch and channels. Space must be whole (no halo yet).
//
// convN(input [n, ci, ...] or [ci, ...], weight [co, ci / groups, ...], bias? [co]). Where groups
// is 1, co passes and ci is summed over, both not empty on any rank. Depthwise (ci = co = groups):
// the channels pass, with groups rewritten. Other groups keep their channels whole.

#include <algorithm>

#include "hyper_parallel/rules/families.h"
#include "hyper_parallel/rules/make.h"

namespace hyper_parallel::rules {
namespace {

// Attribute `name` as one number a spatial dim.
std::vector<std::int64_t> spatial(const Call& call, std::string_view name, std::size_t count,
                                  std::int64_t otherwise) {
  std::vector<std::int64_t> out = call.integers(name);
  if (out.empty()) out.assign(count, otherwise);
  if (out.size() == 1) out.resize(count, out.front());
  if (out.size() == count) return out;
  throw UsageError(Message("HP-S005", call.op + ": argument \"" + std::string(name) +
                                          "\" needs one number a spatial dim")
                       .fact("needed", std::to_string(count))
                       .fact("given", std::to_string(out.size())));
}

// Batch and channel dims of a tensor with `count` spatial dims, as factors; the others whole.
std::vector<int> lead_factors(ConcreteRule& rule, const Call& call, std::size_t count) {
  const std::size_t ndim = call.inputs[0].meta.sizes.size();
  if (ndim != count + 1) check_ndim(call, 0, count + 2);
  std::vector<int> factors = spread(rule, 0);
  for (std::size_t d = ndim - count; d < ndim; ++d) block(rule, factors[d]);
  factors.resize(ndim - count);
  // Kernels refuse tensors without channels; a batch of none is fine.
  const int channels = factors.back();
  if (channels >= 0) rule.factors[static_cast<std::size_t>(channels)].nonempty = true;
  return factors;
}

ConcreteRule build_convolution(const Call& call, Words words) {
  check_count(call, 2, 3);
  const Shape& weight = call.inputs[1].meta.sizes;
  const std::size_t count = words.empty() ? std::max<std::size_t>(weight.size(), 2) - 2
                                          : static_cast<std::size_t>(words[0].front() - '0');
  check_ndim(call, 1, count + 2);
  ConcreteRule rule = start(call);
  std::vector<int> lead = lead_factors(rule, call, count);
  const std::size_t c = lead.size() - 1;
  const Shape& input = call.inputs[0].meta.sizes;
  const std::int64_t groups = call.integer("groups", 1);
  if (weight[1] * groups != input[c]) {
    throw_sizes(call, 1, 1, weight[1], groups > 0 ? input[c] / groups : 0, "input a group");
  }
  TensorMap out = whole(input);
  for (std::size_t d = 0; d < c; ++d) put(out, d, lead[d]);
  const bool depthwise = groups > 1 && groups == input[c] && groups == weight[0];
  int co = -1;
  if (groups == 1) {
    co = weight[0] == 1 ? -1 : add_factor(rule, "co", weight[0]);
    if (co >= 0) rule.factors.back().nonempty = true;
    put(rule.inputs[1], 1, lead[c]);
    if (lead[c] >= 0) {
      Factor& ci = rule.factors[static_cast<std::size_t>(lead[c])];
      ci.name = "ci";
      ci.kind = FactorKind::reduce;
    }
  } else if (depthwise) {
    co = lead[c];
    rule.rewrites.push_back({Rewrite::Kind::local_size, "groups", 0, static_cast<int>(c)});
  } else {
    block(rule, lead[c]);
  }
  put(rule.inputs[1], 0, co);
  put(out, c, co);
  out.sizes[c] = weight[0];
  const auto stride = spatial(call, "stride", count, 1);
  const auto padding = spatial(call, "padding", count, 0);
  const auto dilation = spatial(call, "dilation", count, 1);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t& size = out.sizes[c + 1 + i];
    const std::int64_t window = dilation[i] * (weight[2 + i] - 1) + 1;
    size = (size + 2 * padding[i] - window) / std::max<std::int64_t>(stride[i], 1) + 1;
  }
  rule.inputs[0].linear = rule.inputs[1].linear = true;
  if (call.inputs.size() > 2 && call.inputs[2].present) {
    check_ndim(call, 2, 1);
    rule.inputs[2].linear = rule.inputs[2].addend = true;
    rule.inputs[2].term = 1;
    put(rule.inputs[2], 0, co);
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

// conv_transposeN(input [n, ci, ...], weight [ci, co / groups, ...], bias? [co]): as convN, with
// the channels of the weight the other way round.
ConcreteRule build_transposed(const Call& call, Words words) {
  check_count(call, 2, 3);
  const auto count = static_cast<std::size_t>(words[0].front() - '0');
  check_ndim(call, 1, count + 2);
  ConcreteRule rule = start(call);
  const std::vector<int> lead = lead_factors(rule, call, count);
  const std::size_t c = lead.size() - 1;
  const Shape& input = call.inputs[0].meta.sizes;
  const Shape& weight = call.inputs[1].meta.sizes;
  const std::int64_t groups = call.integer("groups", 1);
  if (weight[0] != input[c]) throw_sizes(call, 1, 0, weight[0], input[c], "the input");
  TensorMap out = whole(input);
  for (std::size_t d = 0; d < c; ++d) put(out, d, lead[d]);
  int co = -1;
  put(rule.inputs[1], 0, lead[c]);
  if (groups == 1) {
    co = weight[1] == 1 ? -1 : add_factor(rule, "co", weight[1]);
    if (co >= 0) rule.factors.back().nonempty = true;
    put(rule.inputs[1], 1, co);
    if (lead[c] >= 0) {
      Factor& ci = rule.factors[static_cast<std::size_t>(lead[c])];
      ci.name = "ci";
      ci.kind = FactorKind::reduce;
    }
  } else if (groups == input[c] && weight[1] == 1) {
    co = lead[c];
    rule.rewrites.push_back({Rewrite::Kind::local_size, "groups", 0, static_cast<int>(c)});
  } else {
    block(rule, lead[c]);
  }
  put(out, c, co);
  out.sizes[c] = weight[1] * groups;
  const auto stride = spatial(call, "stride", count, 1);
  const auto padding = spatial(call, "padding", count, 0);
  const auto extra = spatial(call, "output_padding", count, 0);
  const auto dilation = spatial(call, "dilation", count, 1);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t& size = out.sizes[c + 1 + i];
    size =
        (size - 1) * stride[i] - 2 * padding[i] + dilation[i] * (weight[2 + i] - 1) + extra[i] + 1;
  }
  rule.inputs[0].linear = rule.inputs[1].linear = true;
  if (call.inputs.size() > 2 && call.inputs[2].present) {
    check_ndim(call, 2, 1);
    rule.inputs[2].linear = rule.inputs[2].addend = true;
    rule.inputs[2].term = 1;
    put(rule.inputs[2], 0, co);
  }
  rule.outputs.push_back(std::move(out));
  return rule;
}

// pool N: a window over N spatial dims.
ConcreteRule build_pool(const Call& call, Words words) {
  check_count(call, 1, 1);
  const auto count = static_cast<std::size_t>(words[0].front() - '0');
  ConcreteRule rule = start(call);
  const std::vector<int> lead = lead_factors(rule, call, count);
  TensorMap out = whole(call.inputs[0].meta.sizes);
  for (std::size_t d = 0; d < lead.size(); ++d) put(out, d, lead[d]);
  const auto window = spatial(call, "kernel_size", count, 1);
  auto stride = spatial(call, "stride", count, 0);
  if (call.integers("stride").empty()) stride = window;
  const auto padding = spatial(call, "padding", count, 0);
  const auto dilation = spatial(call, "dilation", count, 1);
  const bool ceil = call.boolean("ceil_mode", false);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t& size = out.sizes[lead.size() + i];
    const std::int64_t step = std::max<std::int64_t>(stride[i], 1);
    const std::int64_t room = size + 2 * padding[i] - dilation[i] * (window[i] - 1) - 1;
    std::int64_t n = (room + (ceil ? step - 1 : 0)) / step + 1;
    // The last window must start inside the input or the left padding.
    if (ceil && (n - 1) * step >= size + padding[i]) --n;
    size = n;
  }
  rule.inputs[0].linear = call.op.starts_with("aten::avg");
  rule.outputs.push_back(std::move(out));
  return rule;
}

// resample N: attribute output_size for N spatial dims. Each result element is a weighted sum.
ConcreteRule build_resample(const Call& call, Words words) {
  check_count(call, 1, 1);
  const auto count = static_cast<std::size_t>(words[0].front() - '0');
  ConcreteRule rule = start(call);
  const std::vector<int> lead = lead_factors(rule, call, count);
  TensorMap out = whole(call.inputs[0].meta.sizes);
  for (std::size_t d = 0; d < lead.size(); ++d) put(out, d, lead[d]);
  const auto size = spatial(call, "output_size", count, 1);
  for (std::size_t i = 0; i < count; ++i) {
    if (size[i] >= 0) out.sizes[lead.size() + i] = size[i];  // None: as it is
  }
  rule.inputs[0].linear = !has_word(words, "max");
  rule.outputs.push_back(std::move(out));
  return rule;
}

constexpr Group kGroups[] = {
    {"convolution 1", "conv1d"},
    {"convolution 2", "conv2d"},
    {"convolution 3", "conv3d"},
    {"convolution_transposed 1", "conv_transpose1d"},
    {"convolution_transposed 2", "conv_transpose2d.input"},
    {"convolution_transposed 3", "conv_transpose3d.input"},
    {"pool 1", "avg_pool1d max_pool1d"},
    {"pool 2", "avg_pool2d max_pool2d"},
    {"pool 3", "avg_pool3d max_pool3d"},
    {"resample 1", "adaptive_avg_pool1d upsample_linear1d upsample_nearest1d"},
    {"resample 2",
     "_adaptive_avg_pool2d adaptive_avg_pool2d upsample_bicubic2d upsample_bilinear2d "
     "upsample_nearest2d"},
    {"resample 3", "adaptive_avg_pool3d"},
};

constexpr NamedBuilder kBuilders[] = {{"convolution", build_convolution},
                                      {"convolution_transposed", build_transposed},
                                      {"pool", build_pool},
                                      {"resample", build_resample}};

}  // namespace

Family convolution_family() { return {"convolution", {}, kGroups, kBuilders}; }

}  // namespace hyper_parallel::rules
