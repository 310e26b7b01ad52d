// Pooling and resampling: batch, channels and space. Where space is split, handler "halo" fetches
// the rows that a rank's piece of the result reads.

#include "hyper_parallel/rules/build/images.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

// pool N: the maximum of a window over N spatial dims. `average`: the mean. `indices`: and where in
// the input its maximum was.
ConcreteRule build_pool(const Call& call, Words words) {
  check_count(call, 1, 1);
  const auto count = number_of(words[0]);
  ConcreteRule rule = start(call);
  const std::vector<int> factors = spread_image(rule, call, count);
  const std::size_t lead = factors.size() - count;
  TensorMap out = whole(call.inputs[0].meta.sizes);
  for (std::size_t d = 0; d < lead; ++d) put(out, d, factors[d]);
  const auto kernel = spatial(call, "kernel_size", count, 1);
  auto stride = spatial(call, "stride", count, 0);
  if (call.integers("stride").empty()) stride = kernel;
  const auto padding = spatial(call, "padding", count, 0);
  const auto dilation = spatial(call, "dilation", count, 1);
  const bool ceil = call.boolean("ceil_mode", false);
  const bool average = has_word(words, "average");
  const bool places = has_word(words, "indices");
  for (std::size_t i = 0; i < count; ++i) {
    const Window window{
        .kernel = kernel[i], .stride = stride[i], .padding = padding[i], .dilation = dilation[i]};
    const std::int64_t size = out.sizes[lead + i];
    const std::int64_t room = size + 2 * padding[i] - window.extent();
    std::int64_t n = count_windows(ceil ? room + stride[i] - 1 : room, stride[i]);
    // The last window must start inside the input or the left padding.
    if (ceil && (n - 1) * stride[i] >= size + padding[i]) --n;
    out.sizes[lead + i] = n;
    // torch refuses wider padding. Averages of integers are cut to integers, so the handler cannot
    // scale them.
    const bool sound =
        2 * padding[i] <= kernel[i] && !(average && is_integral(call.inputs[0].meta.dtype));
    put_space(rule, out, lead + i, factors[lead + i], window, sound, places);
  }
  rule.inputs[0].linear = average;
  rule.outputs.push_back(std::move(out));
  if (places) rule.outputs.push_back(rule.outputs[0]);
  return rule;
}

// The mean over a whole dim is a sum: each rank has the mean of its part times the part's share.
void sum_space(ConcreteRule& rule, int factor) {
  sum_over(rule, factor);
  fill(rule, factor);
  run_by(rule, factor, "halo");
}

// resample N: attribute output_size for N spatial dims. Each result element is a weighted sum.
// `adaptive`: of windows side by side. `nearest`: is one of them. `max`: is a maximum, and the
// second result tells where it was.
ConcreteRule build_resample(const Call& call, Words words) {
  check_count(call, 1, 2);
  const auto count = number_of(words[0]);
  ConcreteRule rule = start(call);
  std::vector<int> lead = spread_image(rule, call, count);
  const std::vector<int> space(lead.end() - static_cast<std::ptrdiff_t>(count), lead.end());
  lead.resize(lead.size() - count);
  TensorMap out = whole(call.inputs[0].meta.sizes);
  for (std::size_t d = 0; d < lead.size(); ++d) put(out, d, lead[d]);
  const auto size = spatial(call, "output_size", count, 1);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t d = lead.size() + i;
    const std::int64_t before = out.sizes[d];
    if (size[i] >= 0) out.sizes[d] = size[i];  // None: as it is
    if (has_word(words, "adaptive") && !has_word(words, "max") && out.sizes[d] == 1) {
      sum_space(rule, space[i]);
      continue;
    }
    // Windows of one length side by side; of others a piece would need its own lengths. Repeats of
    // each index a power of two times, where the op's division of indices is exact.
    const std::int64_t each = out.sizes[d] > 0 ? before / out.sizes[d] : 0;
    const std::int64_t times = before > 0 ? out.sizes[d] / before : 0;
    const bool grows = has_word(words, "nearest");
    const bool even = grows ? times * before == out.sizes[d] && (times & (times - 1)) == 0
                            : has_word(words, "adaptive") && each * out.sizes[d] == before;
    const std::int64_t step = grows ? times : each;
    put_space(rule, out, d, space[i], {.kernel = step, .stride = step, .transposed = grows}, even,
              true);
  }
  rule.inputs[0].linear = !has_word(words, "max");
  // Random windows are drawn for each plane; places of maxima came from a pooling.
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    const Shape& sizes = call.inputs[i].meta.sizes;
    for (std::size_t d = 0; d < lead.size(); ++d) {
      const std::size_t at = has_word(words, "samples") ? d + 2 - lead.size() : d;
      if (at < sizes.size() && sizes[at] == out.sizes[d]) put(rule.inputs[i], at, lead[d]);
    }
  }
  rule.outputs.push_back(std::move(out));
  if (has_word(words, "max")) rule.outputs.push_back(rule.outputs[0]);
  return rule;
}

// max_pool2d_with_indices_backward(grad, self, indices): planes pass.
ConcreteRule build_pool_back(const Call& call, Words) {
  check_count(call, 3, 3);
  const Shape& sizes = call.inputs[1].meta.sizes;
  if (sizes.size() != 3) check_ndim(call, 1, 4);
  ConcreteRule rule = start(call);
  TensorMap out = whole(sizes);
  for (std::size_t d = 0; d + 2 < sizes.size(); ++d) {
    const int f = add_factor(rule, "d" + std::to_string(d), sizes[d], {{out, d}});
    if (f == kNoFactor) continue;
    fill(rule, f);
    for (std::size_t i = 0; i < 3; ++i) {
      check_ndim(call, i, sizes.size());
      const std::int64_t size = call.inputs[i].meta.sizes[d];
      if (size != sizes[d]) throw_sizes(call, i, d, size, sizes[d], "self");
      put(rule.inputs[i], d, f);
    }
  }
  rule.inputs[0].linear = true;
  rule.outputs.push_back(std::move(out));
  return rule;
}

constexpr Group kGroups[] = {
    {"pool 1", "max_pool1d"},
    {"pool 2", "max_pool2d"},
    {"pool 3", "max_pool3d"},
    {"pool 1 average", "avg_pool1d"},
    {"pool 2 average", "avg_pool2d"},
    {"pool 3 average", "avg_pool3d"},
    {"pool 2 indices", "max_pool2d_with_indices"},
    {"pool 3 indices", "max_pool3d_with_indices"},
    {"resample 1", "upsample_linear1d"},
    {"resample 1 nearest", "_upsample_nearest_exact1d upsample_nearest1d"},
    {"resample 1 adaptive", "adaptive_avg_pool1d"},
    {"resample 2",
     "_upsample_bicubic2d_aa _upsample_bilinear2d_aa max_unpool2d upsample_bicubic2d "
     "upsample_bilinear2d"},
    {"resample 2 nearest", "_upsample_nearest_exact2d upsample_nearest2d"},
    {"resample 2 adaptive", "_adaptive_avg_pool2d adaptive_avg_pool2d"},
    {"resample 2 adaptive max", "adaptive_max_pool2d"},
    {"resample 3", "max_unpool3d upsample_trilinear3d"},
    {"resample 3 nearest", "_upsample_nearest_exact3d upsample_nearest3d"},
    {"resample 3 adaptive", "adaptive_avg_pool3d"},
    {"resample 3 adaptive max", "adaptive_max_pool3d"},
    {"resample 2 max samples", "fractional_max_pool2d"},
    {"resample 3 max samples", "fractional_max_pool3d"},
};

constexpr Row kRows[] = {
    {"aten::grid_sampler_2d", "*n c h! w!, n a b e! -> n c a b"},
    {"aten::grid_sampler_3d", "*n c d! h! w!, n a b g e! -> n c a b g"},
    {"aten::max_pool2d_with_indices_backward", "pool_back"},
    {"hyper_parallel::roi_align", "*n! c h! w!, r! q!, ?b! -> r c _=pooled_height _=pooled_width"},
};

constexpr NamedBuilder kBuilders[] = {
    {"pool", build_pool},
    {"pool_back", build_pool_back},
    {"resample", build_resample},
};

}  // namespace

Family pooling_family() { return {"pooling", kRows, kGroups, kBuilders}; }

}  // namespace hyper_parallel::rules
