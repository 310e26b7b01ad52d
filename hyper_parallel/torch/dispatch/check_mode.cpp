#include "hyper_parallel/torch/dispatch/check_mode.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/tensor/dtensor.h"

namespace hyper_parallel::torch_layer {
namespace {

// Odd, so that a product keeps every bit of a word.
constexpr std::int64_t kMixer = static_cast<std::int64_t>(0x9E3779B97F4A7C15ULL);

// 64 bits of the values, equal for equal bytes in equal order. Sums wrap around and do not depend
// on the order in which a device adds.
at::Tensor hash_of(const at::Tensor& t) {
  at::Tensor flat = t.is_complex() ? at::view_as_real(t.resolve_conj()) : t.resolve_neg();
  at::Tensor bytes = flat.contiguous().reshape({-1}).view(at::kByte);
  if (const std::int64_t rest = bytes.numel() % 8; rest != 0) {
    bytes = at::cat({bytes, at::zeros({8 - rest}, bytes.options())});
  }
  if (bytes.numel() == 0) return at::zeros({}, bytes.options().dtype(at::kLong));
  const at::Tensor words = bytes.view(at::kLong);
  const auto mix = [](const at::Tensor& w) {
    const at::Tensor product = w * kMixer;
    return product.bitwise_xor(product.bitwise_right_shift(32));
  };
  const at::Tensor place = mix(at::arange(1, words.numel() + 1, words.options())).bitwise_or(1);
  return mix(mix(words) * place).sum();
}

std::string shape_text(const at::Tensor& row) {
  std::string out;
  for (std::int64_t d = 0; d < row[0].item<std::int64_t>(); ++d) {
    out += (d == 0 ? "" : ", ") + std::to_string(row[3 + d].item<std::int64_t>());
  }
  return "[" + out + "]";
}

}  // namespace

void check_equal_on_ranks(const std::string& op, const at::Tensor& plain, const Mesh* mesh) {
  constexpr std::int64_t kDims = 16;  // shown and compared; sizes behind them are left to the hash
  if (mesh->size() == 1 || plain.layout() != at::kStrided || plain.is_meta()) return;
  at::NoGradGuard no_grad;
  std::vector<std::int64_t> head(3 + kDims, 0);
  head[0] = std::min<std::int64_t>(plain.dim(), kDims);
  head[1] = static_cast<std::int64_t>(plain.scalar_type());
  head[2] = plain.requires_grad();
  for (std::int64_t d = 0; d < head[0]; ++d) head[static_cast<std::size_t>(3 + d)] = plain.size(d);
  const auto options = at::TensorOptions(at::kLong);
  const at::Tensor mine =
      at::cat({at::tensor(head, options).to(plain.device()), hash_of(plain.detach()).view({1})});
  std::vector<int> axes;
  for (int axis = 0; axis < mesh->ndim(); ++axis) axes.push_back(axis);
  const at::Tensor all = all_gather_stack(mine, mesh, axes).cpu();
  std::string others;
  std::int64_t other = -1;
  for (std::int64_t i = 1; i < all.size(0); ++i) {
    if (all[i].equal(all[0])) continue;
    if (other < 0) other = i;
    others +=
        (others.empty() ? "" : ", ") + std::to_string(mesh->ranks()[static_cast<std::size_t>(i)]);
  }
  if (other < 0) return;
  const auto describe_row = [&](const at::Tensor& row) {
    const auto type = static_cast<c10::ScalarType>(row[1].item<std::int64_t>());
    return std::string(to_string(dtype_of(type))) + shape_text(row) +
           (row[2].item<bool>() ? ", requires grad" : "");
  };
  const auto rank_name = [&](std::int64_t i) {
    return "rank " + std::to_string(mesh->ranks()[static_cast<std::size_t>(i)]);
  };
  Message message("HP-D031", op + ": a plain tensor differs between ranks");
  message.fact(rank_name(0), describe_row(all[0]))
      .fact(rank_name(other), describe_row(all[other]))
      .fact("differs from " + rank_name(0), "ranks " + others)
      .hint("make it equal on all ranks (seed, broadcast), or wrap it: from_local(t, mesh, ...)");
  throw UsageError(message);
}

}  // namespace hyper_parallel::torch_layer
