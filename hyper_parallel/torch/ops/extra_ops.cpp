// Ops that rule libraries of other frameworks know and torch lacks, made of torch's:
// differentiable, and with rows of their own in hyper_parallel/rules. Their C++ and Python names
// are those of the dispatcher: torch.ops.hyper_parallel.label_smooth.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace hyper_parallel::torch_layer {
namespace {

using std::optional;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// (1 - epsilon) label + epsilon prior; without a prior all classes are alike.
// C. Szegedy et al., Rethinking the Inception Architecture (2016), section 7.
at::Tensor label_smooth(const at::Tensor& label, const optional<at::Tensor>& prior,
                        double epsilon) {
  const at::Tensor kept = label * (1 - epsilon);
  if (prior) return kept + *prior * epsilon;
  return kept + epsilon / static_cast<double>(label.size(-1));
}

// One number a channel, against [n, c, ...].
at::Tensor by_channel(const at::Tensor& t, std::int64_t ndim) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(ndim), 1);
  sizes[1] = t.size(0);
  return t.reshape(sizes);
}

at::Tensor scaled(at::Tensor y, const optional<at::Tensor>& weight,
                  const optional<at::Tensor>& bias) {
  const std::int64_t ndim = y.dim();
  if (weight) y = y * by_channel(*weight, ndim);
  if (bias) y = y + by_channel(*bias, ndim);
  return y;
}

// The result, the new running statistics, and what the input was normalised by: mean and
// 1 / deviation. As in torch the running variance is the unbiased one.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm(
    const at::Tensor& input, const optional<at::Tensor>& weight, const optional<at::Tensor>& bias,
    const at::Tensor& mean, const at::Tensor& var, bool training, double momentum, double eps) {
  at::Tensor m = mean;
  at::Tensor v = var;
  at::Tensor new_mean = mean.clone();
  at::Tensor new_var = var.clone();
  if (training) {
    std::vector<std::int64_t> dims;
    for (std::int64_t d = 0; d < input.dim(); ++d) {
      if (d != 1) dims.push_back(d);
    }
    std::tie(v, m) = at::var_mean(input, dims, 0);
    const double n = static_cast<double>(input.numel()) / static_cast<double>(input.size(1));
    at::NoGradGuard no_grad;
    new_mean = mean * (1 - momentum) + m.detach() * momentum;
    new_var = var * (1 - momentum) + v.detach() * (momentum * n / std::max(n - 1, 1.0));
  }
  const at::Tensor scale = (v + eps).rsqrt();
  const std::int64_t ndim = input.dim();
  const at::Tensor y = (input - by_channel(m, ndim)) * by_channel(scale, ndim);
  return {scaled(y, weight, bias), new_mean, new_var, m.clone(), scale};
}

std::int64_t space_of(const at::Tensor& input) {
  std::int64_t out = 1;
  for (std::int64_t size : input.sizes().slice(2)) out *= size;
  return out;
}

// The result, and mean and variance [n, groups].
ThreeTensors group_norm(const at::Tensor& input, const optional<at::Tensor>& weight,
                        const optional<at::Tensor>& bias, std::int64_t num_groups, double eps) {
  TORCH_CHECK_VALUE(input.dim() >= 2, "group_norm takes input [n, c, ...]");
  const std::int64_t c = input.size(1);
  TORCH_CHECK_VALUE(num_groups > 0 ? c % num_groups == 0 : c == 0,
                    "group_norm: num_groups does not divide the channels");
  const std::int64_t space = space_of(input);
  const std::int64_t row = num_groups == 0 ? space : c / num_groups * space;
  const at::Tensor rows = input.reshape({input.size(0), num_groups, row});
  const auto [var, mean] = at::var_mean(rows, std::vector<std::int64_t>{-1}, 0);
  const at::Tensor y = (rows - mean.unsqueeze(-1)) * (var + eps).rsqrt().unsqueeze(-1);
  return {scaled(y.reshape(input.sizes()), weight, bias), mean, var};
}

ThreeTensors instance_norm(const at::Tensor& input, const optional<at::Tensor>& weight,
                           const optional<at::Tensor>& bias, double eps) {
  return group_norm(input, weight, bias, input.size(1), eps);
}

// softmax(logits), and the loss of each token: dim `dim` has size 1. Labels are classes [.., 1,
// ..], or probabilities of all classes.
std::tuple<at::Tensor, at::Tensor> cross_entropy_with_softmax(const at::Tensor& logits,
                                                              const at::Tensor& label,
                                                              std::int64_t dim, bool soft_label) {
  const at::Tensor log = logits.log_softmax(dim);
  const at::Tensor loss = soft_label ? (log * label).sum(dim, true) : log.gather(dim, label);
  return {log.exp(), -loss};
}

// x [b, s, h, d] turned by an angle: pairs (i, i + d / 2).
// J. Su et al., RoFormer (2021), in the layout that GPT-NeoX and Llama use.
at::Tensor turned(const at::Tensor& x, const at::Tensor& sin, const at::Tensor& cos) {
  TORCH_CHECK_VALUE(x.size(-1) % 2 == 0, "rope: the last dim is not even");
  const auto halves = x.chunk(2, -1);
  return x * cos + at::cat({-halves[1], halves[0]}, -1) * sin;
}

// sin, cos [s, d] or [.., s, 1, d]; with position_ids [b, s] they are looked up by place.
ThreeTensors rope(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const at::Tensor& sin, const at::Tensor& cos,
                  const optional<at::Tensor>& position_ids) {
  const auto angles = [&](const at::Tensor& t) {
    const at::Tensor rows = t.reshape({-1, t.size(-1)});
    return position_ids ? at::embedding(rows, *position_ids).unsqueeze(2)
                        : rows.unsqueeze(0).unsqueeze(2);
  };
  const at::Tensor s = angles(sin);
  const at::Tensor c = angles(cos);
  return {turned(q, s, c), turned(k, s, c), turned(v, s, c)};
}

c10::List<optional<at::Tensor>> indices(const at::Tensor& index) {
  c10::List<optional<at::Tensor>> out;
  for (const at::Tensor& t : index.unbind(-1)) out.push_back(t);
  return out;
}

// self[index[..., 0], index[..., 1], ...]
at::Tensor gather_nd(const at::Tensor& self, const at::Tensor& index) {
  return at::index(self, indices(index));
}

at::Tensor scatter_nd_add(const at::Tensor& self, const at::Tensor& index,
                          const at::Tensor& updates) {
  return at::index_put(self, indices(index), updates, /*accumulate=*/true);
}

at::Tensor squared_l2_norm(const at::Tensor& self) { return (self * self).sum(); }

at::Tensor slice(const at::Tensor& self, at::IntArrayRef axes, at::IntArrayRef starts,
                 at::IntArrayRef ends, at::IntArrayRef decrease_axis) {
  TORCH_CHECK_VALUE(axes.size() == starts.size() && axes.size() == ends.size(),
                    "slice: axes, starts and ends differ in length");
  at::Tensor out = self;
  for (std::size_t i = 0; i < axes.size(); ++i) out = out.slice(axes[i], starts[i], ends[i]);
  return decrease_axis.empty() ? out.clone() : out.squeeze(decrease_axis);
}

// How much each of `size` pixels counts in each of `bins` bins of a box along one dim: [boxes,
// bins, size]. Sample points lie inside a bin at equal distances, and are interpolated linearly
// between the two nearest pixels, which is max(0, 1 - |pixel - point|).
at::Tensor bin_weights(const at::Tensor& start, const at::Tensor& length, std::int64_t bins,
                       std::int64_t size, std::int64_t sampling_ratio) {
  const auto options = start.options();
  const at::Tensor bin = length / bins;  // [boxes]
  const at::Tensor count = sampling_ratio > 0
                               ? at::full_like(bin, static_cast<double>(sampling_ratio))
                               : bin.ceil().clamp_min(0);
  const auto most =
      count.numel() == 0 ? 1 : std::max<std::int64_t>(count.max().item<std::int64_t>(), 1);
  const at::Tensor samples = count.clamp_min(1);
  const at::Tensor i = at::arange(most, options);
  const at::Tensor b = at::arange(bins, options);
  // [boxes, bins, samples]
  at::Tensor point = start.reshape({-1, 1, 1}) + b.reshape({1, -1, 1}) * bin.reshape({-1, 1, 1}) +
                     (i.reshape({1, 1, -1}) + 0.5) * (bin / samples).reshape({-1, 1, 1});
  const at::Tensor used = i.reshape({1, 1, -1})
                              .lt(count.reshape({-1, 1, 1}))
                              .logical_and(point.ge(-1))
                              .logical_and(point.le(static_cast<double>(size)));
  point = point.clamp(0, static_cast<double>(size - 1));
  const at::Tensor pixel = at::arange(size, options);
  at::Tensor weight = (1 - (pixel - point.unsqueeze(-1)).abs()).clamp_min(0);
  weight = weight * used.unsqueeze(-1).to(weight.scalar_type());
  return weight.sum(2) / samples.reshape({-1, 1, 1});
}

// Boxes (x1, y1, x2, y2) [r, 4], of which the first boxes_num[0] belong to image 0, and so on,
// pooled to [r, c, pooled_height, pooled_width]. K. He et al., Mask R-CNN (2017), section 3;
// `aligned` as in Detectron2: pixel centres at half numbers. No gradient for boxes.
at::Tensor roi_align(const at::Tensor& input, const at::Tensor& boxes, const at::Tensor& boxes_num,
                     std::int64_t pooled_height, std::int64_t pooled_width, double spatial_scale,
                     std::int64_t sampling_ratio, bool aligned) {
  TORCH_CHECK_VALUE(input.dim() == 4 && boxes.dim() == 2 && boxes.size(1) == 4,
                    "roi_align takes input [n, c, h, w] and boxes [r, 4]");
  at::Tensor rows;
  at::Tensor columns;
  at::Tensor owner;
  {
    at::NoGradGuard no_grad;
    const at::Tensor corners = boxes.to(input.scalar_type()) * spatial_scale - (aligned ? 0.5 : 0);
    const auto side = [&](std::int64_t d) {
      const at::Tensor length = corners.select(1, d + 2) - corners.select(1, d);
      return aligned ? length : length.clamp_min(1);
    };
    rows = bin_weights(corners.select(1, 1), side(1), pooled_height, input.size(2), sampling_ratio);
    columns =
        bin_weights(corners.select(1, 0), side(0), pooled_width, input.size(3), sampling_ratio);
    owner = at::repeat_interleave(at::arange(boxes_num.size(0), boxes_num.options()), boxes_num);
  }
  const at::Tensor images = at::index_select(input, 0, owner);  // [r, c, h, w]
  return at::einsum("rph,rchw,rqw->rcpq", {rows, images, columns});
}

// Sorted values, the first place of each, the value's number for each element, the counts.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> unique(const at::Tensor& self) {
  const auto [values, inverse, counts] = at::_unique2(self, true, true, true);
  const at::Tensor flat = inverse.reshape({-1});
  const at::Tensor place = at::arange(flat.size(0), flat.options());
  const at::Tensor first = at::full({values.size(0)}, flat.size(0), flat.options())
                               .scatter_reduce(0, flat, place, "amin", true);
  return {values, first, flat, counts};
}

}  // namespace

TORCH_LIBRARY(hyper_parallel, m) {
  m.def("label_smooth(Tensor label, Tensor? prior=None, float epsilon=0.1) -> Tensor",
        &label_smooth);
  m.def(
      "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
      "Tensor running_var, bool training, float momentum=0.1, float eps=1e-05) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor)",
      &batch_norm);
  m.def(
      "group_norm(Tensor input, Tensor? weight, Tensor? bias, int num_groups, float eps=1e-05) -> "
      "(Tensor, Tensor, Tensor)",
      &group_norm);
  m.def(
      "instance_norm(Tensor input, Tensor? weight, Tensor? bias, float eps=1e-05) -> "
      "(Tensor, Tensor, Tensor)",
      &instance_norm);
  m.def(
      "cross_entropy_with_softmax(Tensor logits, Tensor label, int dim=-1, bool soft_label=False) "
      "-> (Tensor, Tensor)",
      &cross_entropy_with_softmax);
  m.def(
      "rope(Tensor q, Tensor k, Tensor v, Tensor sin, Tensor cos, Tensor? position_ids=None) -> "
      "(Tensor, Tensor, Tensor)",
      &rope);
  m.def("gather_nd(Tensor self, Tensor index) -> Tensor", &gather_nd);
  m.def("scatter_nd_add(Tensor self, Tensor index, Tensor updates) -> Tensor", &scatter_nd_add);
  m.def("squared_l2_norm(Tensor self) -> Tensor", &squared_l2_norm);
  m.def(
      "slice(Tensor self, int[] axes, int[] starts, int[] ends, int[] decrease_axis=[]) -> Tensor",
      &slice);
  m.def(
      "roi_align(Tensor input, Tensor boxes, Tensor boxes_num, int pooled_height, "
      "int pooled_width, float spatial_scale=1.0, int sampling_ratio=-1, bool aligned=True) -> "
      "Tensor",
      &roi_align);
  m.def("unique(Tensor self) -> (Tensor, Tensor, Tensor, Tensor)", &unique);
}

}  // namespace hyper_parallel::torch_layer
