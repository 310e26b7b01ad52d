// Ops of Paddle under their own names: their order of operands and names of attributes, our rows.
// Source of the call conventions: Paddle 3.3.1, python/paddle and paddle/phi/ops/yaml.

#include "hyper_parallel/rules/query/paddle.h"

#include <algorithm>
#include <array>

#include "hyper_parallel/rules/query/paddle_calls.h"

namespace hyper_parallel::rules {
namespace {

constexpr std::array kAliases = {
    Alias{"add", "aten::add.Tensor", "x y", ""},
    Alias{"add_n", "aten::add.Tensor", "", ""},
    Alias{"all", "aten::all.dims", "x", "dim=axis keepdim=keep_dim"},
    Alias{"any", "aten::any.dims", "x", "dim=axis keepdim=keep_dim"},
    Alias{"argmax", "aten::argmax", "x", "dim=axis keepdim=keepdims", named::pick},
    Alias{"argmin", "aten::argmin", "x", "dim=axis keepdim=keepdims", named::pick},
    Alias{"argsort", "aten::sort.stable", "x", "dim=axis"},
    Alias{"batch_norm", "hyper_parallel::batch_norm", "x mean variance scale bias", "",
          named::batch_norm},
    Alias{"bmm", "aten::bmm", "x y", ""},
    Alias{"concat", "aten::cat", "", "dim=axis"},
    Alias{"conv2d", "aten::conv2d", "input filter bias", kWindow, named::convolution},
    Alias{"conv2d_transpose", "aten::conv_transpose2d.input", "x filter bias", kWindow,
          named::convolution},
    Alias{"conv3d", "aten::conv3d", "input filter bias", kWindow, named::convolution},
    Alias{"cross_entropy_with_softmax", "hyper_parallel::cross_entropy_with_softmax", "input label",
          "dim=axis"},
    Alias{"cummax", "aten::cummax", "x", "dim=axis"},
    Alias{"cummin", "aten::cummin", "x", "dim=axis"},
    Alias{"cumsum", "aten::cumsum", "x", "dim=axis", named::scan},
    Alias{"depthwise_conv2d", "aten::conv2d", "input filter bias", kWindow, named::convolution},
    Alias{"einsum", "aten::einsum", "", ""},
    Alias{"embedding", "aten::embedding", "x weight", "", named::embedding},
    Alias{"expand", "aten::expand", "x", "size=shape"},
    Alias{"expand_as", "aten::expand", "x y", "size=target_shape", named::expand_as},
    Alias{"flash_attention", "aten::scaled_dot_product_attention",
          "q k v fixed_seed_offset attn_mask", "is_causal=causal dropout_p=dropout",
          named::attention},
    Alias{"flatten", "aten::flatten.using_ints", "x", "start_dim=start_axis end_dim=stop_axis"},
    Alias{"fused_rope", "hyper_parallel::rope", "q k v sin cos position_ids", ""},
    Alias{"gather", "aten::index_select", "x index", "dim=axis"},
    Alias{"gather_nd", "hyper_parallel::gather_nd", "x index", ""},
    Alias{"group_norm", "hyper_parallel::group_norm", "x scale bias", "num_groups=groups",
          named::channels_second},
    Alias{"index_put", "aten::index_put", "", ""},
    Alias{"index_select", "aten::index_select", "x index", "dim=axis"},
    Alias{"instance_norm", "hyper_parallel::instance_norm", "x scale bias", ""},
    Alias{"label_smooth", "hyper_parallel::label_smooth", "label prior_dist", ""},
    Alias{"layer_norm", "aten::native_layer_norm", "x scale bias", "", named::layer_norm},
    Alias{"log_softmax", "aten::log_softmax.int", "x", "dim=axis"},
    Alias{"logsumexp", "aten::logsumexp", "x", "dim=axis keepdim=keepdims"},
    Alias{"matmul", "aten::matmul", "x y", "", named::matmul},
    Alias{"max", "aten::amax", "x", "dim=axis keepdim=keep_dim"},
    Alias{"mean", "aten::mean.dim", "x", "dim=axis keepdim=keep_dim"},
    Alias{"mean_all", "aten::mean", "x", ""},
    Alias{"min", "aten::amin", "x", "dim=axis keepdim=keep_dim"},
    Alias{"multiply", "aten::mul.Tensor", "x y", ""},
    Alias{"one_hot", "aten::one_hot", "x", ""},
    Alias{"p_norm", "aten::linalg_vector_norm", "x", "dim=axis keepdim=keepdims ord=porder",
          named::p_norm},
    Alias{"pad", "aten::constant_pad_nd", "x", "pad=paddings value=pad_value", named::pad},
    Alias{"prod", "aten::prod.dim_int", "x", "dim=axis keepdim=keep_dim"},
    Alias{"put_along_axis", "aten::scatter.src", "x index value", "dim=axis",
          named::put_along_axis},
    Alias{"relu", "aten::relu", "x", ""},
    Alias{"reshape", "aten::reshape", "x", "", named::reshape},
    Alias{"rms_norm", "aten::_fused_rms_norm", "x scale", "", named::rms_norm},
    Alias{"roi_align", "hyper_parallel::roi_align", "x boxes boxes_num", ""},
    Alias{"roll", "aten::roll", "x", "dims=axis"},
    Alias{"scatter", "aten::index_copy", "x index updates", "", named::scatter},
    Alias{"scatter_nd_add", "hyper_parallel::scatter_nd_add", "x index updates", ""},
    Alias{"slice", "hyper_parallel::slice", "x", ""},
    Alias{"softmax", "aten::softmax.int", "x", "dim=axis"},
    Alias{"split", "aten::split_with_sizes", "x", "dim=axis split_sizes=sections"},
    Alias{"split_with_num", "aten::chunk", "x", "dim=axis chunks=num"},
    Alias{"squared_l2_norm", "hyper_parallel::squared_l2_norm", "x", "dim=axis keepdim=keep_dim"},
    Alias{"squeeze", "aten::squeeze.dims", "x", "dim=axis"},
    Alias{"stack", "aten::stack", "", "dim=axis"},
    Alias{"sum", "aten::sum.dim_IntList", "x", "dim=axis keepdim=keep_dim"},
    Alias{"sync_batch_norm", "hyper_parallel::batch_norm", "x mean variance scale bias", "",
          named::batch_norm},
    Alias{"take_along_axis", "aten::gather", "x index", "dim=axis"},
    Alias{"tile", "aten::repeat", "x", "repeats=repeat_times", named::tile},
    Alias{"topk", "aten::topk", "x", "dim=axis"},
    Alias{"transpose", "aten::permute", "x", "dims=perm"},
    Alias{"triu", "aten::triu", "x", ""},
    Alias{"unbind", "aten::unbind.int", "x", "dim=axis"},
    Alias{"unique", "hyper_parallel::unique", "x", "dim=axis"},
    Alias{"unsqueeze", "aten::reshape", "x", "", named::unsqueeze},
    Alias{"where", "aten::where.self", "condition x y", ""},
};

}  // namespace

std::span<const Alias> aliases() { return kAliases; }

const Alias* find_alias(std::string_view name) {
  if (name.starts_with("paddle::")) name.remove_prefix(8);
  const auto it = std::lower_bound(kAliases.begin(), kAliases.end(), name,
                                   [](const Alias& a, std::string_view n) { return a.name < n; });
  return it != kAliases.end() && it->name == name ? it : nullptr;
}

}  // namespace hyper_parallel::rules
