// Sums and other reductions over dims.
//
//   reduce KIND [NAME]     over the dims of attribute NAME (default `dim`; all if it is missing or
//                          empty); split: P(KIND)
//   reduce mean            split: the local sum over the global count, P(sum)
//   reduce count           as sum, but of something that is not linear in the operand
//   reduce any, all        split: P(max), P(min); what is pending passes for bools only
//   reduce HANDLER/R       split: handler HANDLER, which gives R
//   reduce ... dim 2       two results of the same sizes
//   reduce ... root        the square root of it, for the handler
//   pick HANDLER           one index of a dim; `min`: the smallest wins
//
// Traps: max over an empty piece fails; any and all are max and min of 0 and 1; the arg of a
// maximum is not a partial value.

#include <algorithm>

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

struct Reduced {
  ConcreteRule rule;
  std::vector<int> factors;  // reduced, none for dims of size 1
};

Reduced reduce(const Call& call, const std::vector<std::size_t>& dims, bool keepdim) {
  Reduced out;
  out.rule = start(call);
  const std::vector<int> all = spread(out.rule, 0);
  TensorMap result;
  for (std::size_t d = 0; d < all.size(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) {
      add_dim(result, call.inputs[0].meta.sizes[d], all[d]);
      continue;
    }
    if (all[d] != kNoFactor) out.factors.push_back(all[d]);
    if (!keepdim) continue;
    add_dim(result, 1);
  }
  out.rule.outputs.push_back(std::move(result));
  return out;
}

ReduceOp op_of(std::string_view kind) {
  if (kind == "any") return ReduceOp::max;
  if (kind == "all") return ReduceOp::min;
  return parse_reduce_op(kind);
}

void set_kind(Reduced& r, std::string_view kind, const Call& call) {
  TensorMap& self = r.rule.inputs[0];
  std::string handler;
  const bool extreme = kind == "max" || kind == "min";
  if ((extreme || kind == "prod") && call.boolean("requires_grad", false)) {
    // Such a P does not cross autograd, so the handler finishes the result.
    for (int f : r.factors) {
      Factor& factor = factor_of(r.rule, f);
      factor.handler = extreme ? "extreme" : "prod";
      factor.nonempty = extreme;
    }
    return;
  }
  if (kind.ends_with("/R")) handler = kind.substr(0, kind.size() - 2);
  if (kind == "mean") handler = "mean";
  for (int f : r.factors) {
    Factor& factor = factor_of(r.rule, f);
    factor.handler = handler;
    if (kind.ends_with("/R")) continue;  // the result is finished: pass
    factor.kind = FactorKind::reduce;
    if (kind != "mean" && kind != "count") factor.reduce = op_of(kind);
    factor.nonempty = factor.reduce == ReduceOp::max || factor.reduce == ReduceOp::min;
  }
  if (kind.ends_with("/R") || kind == "count") return;
  // Of numbers the maximum may be 0, and other parts not.
  const bool truth = kind == "any" || kind == "all";
  self.linear = !truth || call.inputs[0].meta.dtype == DType::boolean;
  if (kind == "sum" || kind == "mean") return;
  r.rule.partial = PartialRule::one;
  r.rule.partial_op = op_of(kind);
}

ConcreteRule build(const Call& call, Words words) {
  check_count(call, 1, 1);
  const std::size_t ndim = call.inputs[0].meta.sizes.size();
  const std::string_view name = words.size() > 1 ? words[1] : "dim";
  Reduced r = reduce(call, dims_of(call, name, ndim), call.boolean("keepdim", false));
  set_kind(r, words.front(), call);
  if (has_word(words, "2")) r.rule.outputs.push_back(r.rule.outputs[0]);
  return std::move(r.rule);
}

// max.dim, min.dim, argmax, argmin, mode, median.dim, kthvalue: one dim, `n` results. Without a dim
// the index counts in the flattened global tensor. Pieces may be empty: handlers have an identity.
ConcreteRule build_pick(const Call& call, Words words) {
  check_count(call, 1, 1);
  const std::size_t ndim = call.inputs[0].meta.sizes.size();
  std::vector<std::size_t> dims = dims_of(call, "dim", ndim);
  if (!call.has("dim") && has_word(words, "last") && ndim > 0) dims = {ndim - 1};
  Reduced r = reduce(call, dims, call.boolean("keepdim", false));
  for (int f : r.factors) {
    Factor& factor = factor_of(r.rule, f);
    if (words.front() == "!") {
      factor.kind = FactorKind::blocked;
    } else {
      factor.handler = words.front();
    }
  }
  if (has_word(words, "2")) r.rule.outputs.push_back(r.rule.outputs[0]);
  return std::move(r.rule);
}

constexpr Row kRows[] = {
    {"aten::_is_all_true", "reduce all"},
    {"aten::_is_any_true", "reduce any"},
    {"aten::all", "reduce all"},
    {"aten::all.dim", "reduce all"},
    {"aten::all.dims", "reduce all"},
    {"aten::amax", "reduce max"},
    {"aten::amin", "reduce min"},
    {"aten::any", "reduce any"},
    {"aten::any.dim", "reduce any"},
    {"aten::any.dims", "reduce any"},
    {"aten::aminmax", "pick ! 2"},
    {"aten::argmax", "pick argmax"},
    {"aten::argmin", "pick argmax min"},
    {"aten::count_nonzero", "reduce count"},
    {"aten::count_nonzero.dim_IntList", "reduce count"},
    {"aten::hash_tensor", "pick !"},
    {"aten::kthvalue", "pick ! last 2"},
    {"aten::linalg_vector_norm", "reduce norm/R"},
    {"aten::logsumexp", "reduce logsumexp/R"},
    {"aten::max", "reduce max"},
    {"aten::max.dim", "pick minmax_dim 2"},
    {"aten::mean", "reduce mean"},
    {"aten::mean.dim", "reduce mean"},
    {"aten::median", "pick !"},
    {"aten::median.dim", "pick ! 2"},
    {"aten::min", "reduce min"},
    {"aten::min.dim", "pick minmax_dim 2 min"},
    {"aten::mode", "pick ! last 2"},
    {"aten::nanmedian", "pick !"},
    {"aten::nanmedian.dim", "pick ! 2"},
    {"aten::nansum", "reduce count"},
    {"aten::norm.Scalar", "reduce norm/R"},
    {"aten::norm.ScalarOpt_dim", "reduce norm/R"},
    {"aten::norm.ScalarOpt_dim_dtype", "reduce norm/R"},
    {"aten::norm.ScalarOpt_dtype", "reduce norm/R"},
    {"aten::prod", "reduce prod"},
    {"aten::prod.dim_int", "reduce prod"},
    {"aten::std", "reduce var/R dim root"},
    {"aten::std.correction", "reduce var/R dim root"},
    {"aten::std.dim", "reduce var/R dim root"},
    {"aten::std_mean.correction", "reduce var/R dim 2 root"},
    {"aten::sum", "reduce sum"},
    {"aten::sum.dim_IntList", "reduce sum"},
    {"aten::var", "reduce var/R"},
    {"aten::var.correction", "reduce var/R"},
    {"aten::var.dim", "reduce var/R"},
    {"aten::var_mean.correction", "reduce var/R dim 2"},
    {"hyper_parallel::squared_l2_norm", "reduce count"},
};

constexpr NamedBuilder kBuilders[] = {{"pick", build_pick}, {"reduce", build}};

}  // namespace

Family reduction_family() { return {"reduction", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
