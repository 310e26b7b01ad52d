// Losses over classes. Over split classes each rank returns its part of the loss of a token:
//
//     owner of the target class   -(x_t - m)        m: maximum over all classes
//     rank 0 of the class axes    log sum exp(x - m)
//
// so the result is P(sum) and its cotangent R: the backward needs no collective. Over split tokens
// a mean divides the local sum by the global count.

#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/ones.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/torch/comm/collective_ops.h"
#include "hyper_parallel/torch/handlers/internal.h"
#include "hyper_parallel/torch/tensor/bridge.h"

namespace hyper_parallel::torch_layer::handlers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The class dim and what lies over it.
struct Classes {
  std::int64_t dim;
  LocalDim cut;
  std::vector<int> token_axes;
};

Classes classes_of(const HandlerCall& c) {
  Classes out;
  const Layout* layout = c.layout("self");
  const auto ndim = static_cast<int>(c.sizes("self").size());
  out.dim = ndim == 1 ? 0 : 1;
  out.cut = c.dim_of("self", static_cast<int>(out.dim));
  std::vector<std::int64_t> tokens;
  for (int d = 0; d < ndim; ++d) {
    if (d != out.dim) tokens.push_back(d);
  }
  out.token_axes = axes_of(layout, tokens);
  return out;
}

// Where torch would fail on a target. Elsewhere (other devices, tracing) the look-up of -1 fails.
void check_targets(const at::Tensor& target, const at::Tensor& ignored, std::int64_t classes) {
  if (!target.device().is_cpu() || c10::impl::TorchDispatchModeTLS::any_modes_set()) return;
  const at::Tensor bad =
      target.lt(0).logical_or_(target.ge(classes)).logical_and_(ignored.logical_not());
  if (!bad.any().item<bool>()) return;
  TORCH_CHECK_INDEX(false, "Target ", target.masked_select(bad)[0].item<std::int64_t>(),
                    " is out of bounds.");
}

/// Class indices as targets, and the weights of tokens and classes. No gradients.
struct Targets {
  at::Tensor ignored;       // [tokens] bool
  at::Tensor index;         // [tokens] global class; ignored tokens have 0
  at::Tensor token_weight;  // [tokens] weight of the class; 0 for ignored tokens
  at::Tensor class_weight;  // [classes] whole, undefined if not given
  at::Tensor total;         // sum of the token weights over all ranks: what a mean divides by
};

Targets read_targets(const HandlerCall& c, const Classes& classes, at::ScalarType type,
                     std::int64_t reduction) {
  at::NoGradGuard no_grad;
  Targets out;
  const at::Tensor target = c.tensor("target");
  out.ignored = target.eq(c.integer("ignore_index", -100));
  check_targets(target, out.ignored, classes.cut.size);
  out.index = target.to(at::kLong).masked_fill(out.ignored, 0);
  if (c.find("weight") != nullptr) {
    out.class_weight = move(c.tensor("weight").detach(), c.layout("weight"),
                            Layout::replicated(c.mesh()), c.sizes("weight"))
                           .to(type);
    out.token_weight = out.class_weight.take(out.index).masked_fill_(out.ignored, 0);
  } else {
    out.token_weight = out.ignored.logical_not().to(type);
  }
  if (reduction == at::Reduction::Mean) {
    out.total = all_reduce(out.token_weight.sum(), c.mesh(), classes.token_axes);
  }
  return out;
}

at::Tensor reduced(const at::Tensor& token_loss, const at::Tensor& total, std::int64_t reduction) {
  if (reduction == at::Reduction::None) return token_loss;
  const at::Tensor sum = token_loss.sum();
  return reduction == at::Reduction::Mean ? sum / total : sum;
}

// Factors of classes, broadcast over tokens.
at::Tensor over_classes(const at::Tensor& t, std::int64_t dim, std::int64_t ndim) {
  Shape shape(static_cast<std::size_t>(ndim), 1);
  shape[static_cast<std::size_t>(dim)] = t.numel();
  return t.view(shape);
}

/// This rank's part of the loss of each token, see above. Inputs without gradient:
///     position, mine  [tokens]         where the target class is, and whether it is here
///     pick            [tokens]         factor of the target's logit
///     spread          [tokens]         factor of the log of the sum
///     used            [tokens]         0 for ignored tokens, else 1
///     smooth          [local classes]  factors of all logits; undefined without label smoothing
struct TokenLoss : torch::autograd::Function<TokenLoss> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& logits,
                            const at::Tensor& position, const at::Tensor& mine,
                            const at::Tensor& pick, const at::Tensor& spread,
                            const at::Tensor& used, const std::optional<at::Tensor>& smooth,
                            std::int64_t dim, std::int64_t mesh_address,
                            std::vector<std::int64_t> axes) {
    const auto [mesh, over] = group(mesh_address, axes);
    const at::Tensor wide = widened(logits);
    const at::Tensor maximum = split_max(wide, dim, mesh, over);
    const at::Tensor shifted = wide - maximum;
    at::Tensor loss = at::gather(nonempty(shifted, dim), dim, position.unsqueeze(dim))
                          .squeeze(dim)
                          .masked_fill_(mine.logical_not(), 0)
                          .mul_(pick)
                          .neg_();
    if (smooth) {
      const at::Tensor all = (shifted * over_classes(*smooth, dim, shifted.dim())).sum(dim);
      loss.sub_(all.masked_fill_(used.eq(0), 0));
    }
    const at::Tensor log_sum = all_reduce(shifted.exp_().sum(dim, true), mesh, over).log();
    if (group_index(mesh, over) == 0) {
      loss.add_((log_sum.squeeze(dim) * spread).masked_fill_(used.eq(0), 0));
    }
    ctx->save_for_backward({logits, position, mine, pick, spread, used,
                            smooth.value_or(at::Tensor()), maximum + log_sum});
    ctx->saved_data["dim"] = dim;
    ctx->saved_data["mesh"] = mesh_address;
    ctx->saved_data["axes"] = std::move(axes);
    return loss;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return at_border([&] { return gradients(ctx, grads); });
  }

 private:
  static variable_list gradients(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &logits = saved[0], &position = saved[1], &mine = saved[2], &pick = saved[3],
                     &spread = saved[4], &used = saved[5], &smooth = saved[6], &log_sum = saved[7];
    const std::int64_t dim = ctx->saved_data["dim"].toInt();
    // An ignored token has no gradient, be it that of a mean over no tokens: 0 / 0.
    const auto factor = [&, unused = used.eq(0)](const at::Tensor& t) {
      return (grads[0] * t).masked_fill(unused, 0).unsqueeze(dim);
    };
    at::Tensor out;
    if (at::GradMode::is_enabled()) {
      // For second derivatives the sum over classes must be in the graph.
      const auto [mesh, over] =
          group(ctx->saved_data["mesh"].toInt(), ctx->saved_data["axes"].toIntVector());
      out = split_softmax(widened(logits), dim, mesh, over) * factor(spread);
    } else {
      out = (widened(logits) - log_sum).exp_().mul_(factor(spread));
    }
    if (smooth.defined()) out = out - over_classes(smooth, dim, out.dim()) * factor(used);
    if (out.size(dim) != 0) {
      const at::Tensor picked =
          factor(pick).masked_fill(mine.logical_not().unsqueeze(dim), 0).neg();
      const at::Tensor index = position.unsqueeze(dim);
      out = at::GradMode::is_enabled() ? out.scatter_add(dim, index, picked)
                                       : out.scatter_add_(dim, index, picked);
    }
    variable_list result(10);
    result[0] = out.to(logits.scalar_type());
    return result;
  }

  // Meshes are interned and immortal: their addresses are kept as integers.
  static std::pair<const Mesh*, std::vector<int>> group(std::int64_t mesh,
                                                        const std::vector<std::int64_t>& axes) {
    return {reinterpret_cast<const Mesh*>(mesh), {axes.begin(), axes.end()}};
  }
};

at::Tensor index_loss(const HandlerCall& c, const Classes& classes, std::int64_t reduction) {
  const at::Tensor x = c.tensor("self");
  const auto type = at::toOpMathType(x.scalar_type());
  const Targets t = read_targets(c, classes, type, reduction);
  const double smoothing = c.number("label_smoothing", 0);
  const LocalIndex at = to_local_index(t.index, classes.cut);
  const at::Tensor used = t.ignored.logical_not().to(type);
  at::Tensor pick = t.token_weight;
  at::Tensor spread = t.token_weight;
  std::optional<at::Tensor> smooth;
  if (smoothing > 0) {
    const double share = smoothing / static_cast<double>(classes.cut.size);
    const auto options = at::TensorOptions(type).device(x.device());
    const at::Tensor weight =
        t.class_weight.defined() ? t.class_weight : at::ones({classes.cut.size}, options);
    smooth = local_part(weight, 0, classes.cut) * share;
    pick = t.token_weight * (1 - smoothing);
    spread = pick + used * (weight.sum() * share);
  }
  const std::vector<std::int64_t> axes(classes.cut.axes.begin(), classes.cut.axes.end());
  const at::Tensor loss =
      TokenLoss::apply(x, at.position, at.mine, pick, spread, used, smooth, classes.dim,
                       reinterpret_cast<std::int64_t>(c.mesh()), axes);
  return reduced(loss, t.total, reduction);
}

// The target is a distribution: differentiable in input, target and weight.
at::Tensor distribution_loss(const HandlerCall& c, const Classes& classes, std::int64_t reduction) {
  const double smoothing = c.number("label_smoothing", 0);
  at::Tensor target = c.tensor("target");
  if (smoothing > 0) {
    target = target * (1 - smoothing) + smoothing / static_cast<double>(classes.cut.size);
  }
  at::Tensor terms =
      split_log_softmax(widened(c.tensor("self")), classes.dim, c.mesh(), classes.cut.axes) *
      target;
  if (c.find("weight") != nullptr) {
    at::Tensor weight = c.tensor("weight");
    if (c.dim_of("weight", 0).is_whole()) weight = local_part(weight, 0, classes.cut);
    terms = terms * over_classes(weight, classes.dim, terms.dim());
  }
  if (reduction == at::Reduction::None) return -terms.sum(classes.dim);
  double tokens = 1;
  for (std::int64_t size : c.sizes("target")) tokens *= static_cast<double>(size);
  tokens /= static_cast<double>(classes.cut.size);
  return reduction == at::Reduction::Mean ? -terms.sum() / tokens : -terms.sum();
}

void cross_entropy(HandlerCall& c) {
  const Classes classes = classes_of(c);
  const std::int64_t reduction = c.integer("reduction", at::Reduction::Mean);
  const at::Tensor x = c.tensor("self");
  if (c.sizes("self") == c.sizes("target")) {
    return c.finish(
        {distribution_loss(c, classes, reduction).to(type_in_autocast(x, "cross_entropy"))});
  }
  if (!classes.cut.is_whole()) {
    return c.finish({index_loss(c, classes, reduction).to(type_in_autocast(x, "cross_entropy"))});
  }
  if (reduction != at::Reduction::Mean) return c.call();
  const Targets t = read_targets(c, classes, at::toOpMathType(x.scalar_type()), reduction);
  // Token by token: the sum of half types may be out of range where the mean is not.
  const at::Tensor loss = at::cross_entropy_loss_symint(
      x, c.tensor("target"), c.find("weight") ? std::optional(c.tensor("weight")) : std::nullopt,
      at::Reduction::None, c.integer("ignore_index", -100), c.number("label_smoothing", 0));
  c.finish({reduced(widened(loss), t.total, reduction).to(loss.scalar_type())});
}

void nll_loss(HandlerCall& c) {
  const Classes classes = classes_of(c);
  const std::int64_t reduction = c.integer("reduction", at::Reduction::Mean);
  at::Tensor x = c.tensor("self");
  x = x.to(type_in_autocast(x, "nll_loss"));
  const Targets t = read_targets(c, classes, at::toOpMathType(x.scalar_type()), reduction);
  at::Tensor picked =
      gather_mine(x, classes.dim, t.index.unsqueeze(classes.dim), classes.cut).squeeze(classes.dim);
  picked = widened(picked.masked_fill(t.ignored, 0)) * -t.token_weight;
  c.finish({reduced(picked, t.total, reduction).to(x.scalar_type())});
}

void mean_loss(HandlerCall& c) {
  const Shape sizes = at::infer_size(c.sizes("self"), c.sizes("target"));
  double count = 1;
  for (std::int64_t size : sizes) count *= static_cast<double>(size);
  c.set("reduction", static_cast<std::int64_t>(at::Reduction::None));
  c.call();
  // As above: half types are added up in f32.
  const at::Tensor loss = c.result();
  c.finish({(widened(loss).sum() / count).to(loss.scalar_type())});
}

constexpr HandlerEntry kLoss[] = {
    {"cross_entropy", cross_entropy},
    {"mean_loss", mean_loss},
    {"nll_loss", nll_loss},
};

}  // namespace

std::span<const HandlerEntry> loss_entries() { return kLoss; }

}  // namespace hyper_parallel::torch_layer::handlers
