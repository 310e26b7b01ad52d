#include "hyper_parallel/torch/verify/trials.h"

#include <ATen/core/Tensor.h>

#include "hyper_parallel/torch/verify/oracle.h"

namespace hyper_parallel::torch_layer {
namespace {

using rules::AxisChoice;
using rules::ConcreteRule;
using rules::FactorKind;

bool holds(const rules::TensorMap& map, int factor) {
  return std::any_of(map.dims.begin(), map.dims.end(), [&](const std::vector<int>& dim) {
    return std::find(dim.begin(), dim.end(), factor) != dim.end();
  });
}

std::vector<Placement> placements_for(const at::Tensor& t, bool all_kinds) {
  std::vector<Placement> out{Placement::replicate()};
  for (int d = 0; d < t.dim(); ++d) {
    if (t.size(d) > 1) out.push_back(Placement::shard(d));
  }
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min, ReduceOp::prod}) {
    const bool wanted = all_kinds || op == ReduceOp::sum;
    if (wanted && oracle::can_part(t.scalar_type(), op)) out.push_back(Placement::partial(op));
  }
  return out;
}

std::vector<const Layout*> layouts_for(const at::Tensor& t, const Mesh* mesh, bool all_kinds) {
  std::vector<const Layout*> out;
  std::vector<std::vector<Placement>> sets{{}};
  for (int axis = 0; axis < mesh->ndim(); ++axis) {
    std::vector<std::vector<Placement>> next;
    for (const auto& set : sets) {
      for (const Placement& p : placements_for(t, all_kinds)) {
        next.push_back(set);
        next.back().push_back(p);
      }
    }
    sets = std::move(next);
  }
  for (const auto& set : sets) {
    out.push_back(Layout::get(mesh, set));
    // Two axes on one dim: the other order too.
    if (set.size() == 2 && set[0].is_shard() && set[0] == set[1] && mesh->size(0) > 1 &&
        mesh->size(1) > 1) {
      out.push_back(Layout::get(mesh, {Split{.dim = set[0].dim(), .axes = {1, 0}}}));
    }
  }
  return out;
}

}  // namespace

std::vector<AxisChoice> with_whole_addends(const ConcreteRule& rule, const AxisChoice& choice) {
  std::vector<AxisChoice> out{choice};
  if (choice.kind != AxisChoice::Kind::partial || choice.op != ReduceOp::sum) return out;
  AxisChoice loose = choice;
  bool some = false;
  bool left = false;
  for (std::size_t i = 0; i < rule.inputs.size(); ++i) {
    if (loose.partial_in[i] == 0) continue;
    if (rule.inputs[i].addend) {
      loose.partial_in[i] = 0;
      some = true;
    } else {
      left = true;
    }
  }
  if (some && left) out.push_back(std::move(loose));
  return out;
}

std::vector<Placement> before(const ConcreteRule& rule, std::size_t i, const AxisChoice& choice) {
  const rules::TensorMap& map = rule.inputs[i];
  if (choice.kind == AxisChoice::Kind::partial && choice.partial_in[i] != 0) {
    return {Placement::partial(choice.op)};
  }
  if (choice.kind != AxisChoice::Kind::factor) return {Placement::replicate()};
  // Its values do not matter to the rule, but it lends its shape to the op.
  for (std::size_t d = 0; map.shape_only && d < map.dims.size(); ++d) {
    const auto& dim = map.dims[d];
    if (!dim.empty() && dim.front() == choice.factor) {
      return {Placement::shard(static_cast<int>(d))};
    }
  }
  const rules::Factor& factor = rule.factors[static_cast<std::size_t>(choice.factor)];
  if (map.addend && map.present && factor.kind == FactorKind::reduce &&
      !holds(map, choice.factor)) {
    return {Placement::replicate(), Placement::partial(factor.reduce)};
  }
  return {Placement::replicate()};
}

TrialLayouts trial_layouts(const ConcreteRule& rule, const rules::Call& call,
                           const std::vector<at::Tensor>& operands, const Mesh* mesh, int most,
                           std::mt19937_64& random) {
  TrialLayouts out;
  std::vector<Layouts>& sets = out.sets;
  sets = {{}};
  const auto full = static_cast<std::size_t>(most) * 64;
  for (std::size_t i = 0; i < rule.inputs.size(); ++i) {
    std::vector<Layouts> next;
    for (const Layouts& set : sets) {
      if (!rule.inputs[i].present) {
        next.push_back(set);
        next.back().push_back(nullptr);
        continue;
      }
      for (const Layout* layout : layouts_for(operands[i], mesh, false)) {
        next.push_back(set);
        next.back().push_back(layout);
      }
    }
    if (next.size() > full) {
      out.drawn = true;
      std::shuffle(next.begin() + 1, next.end(), random);
      next.resize(full);
    }
    sets = std::move(next);
  }
  out.drawn |= keep_some(sets, mesh->size() == 1 ? 4 : most, random);
  // Other kinds of partial, and plain tensors among DTensors.
  const int more = mesh->size() == 1 ? 0 : most / 4;
  for (int n = 0; n < more; ++n) {
    Layouts set;
    for (std::size_t i = 0; i < rule.inputs.size(); ++i) {
      const bool plain = !call.inputs[i].pinned && n % 4 == 0 && random() % 2 == 0;
      if (!rule.inputs[i].present || plain) {
        set.push_back(nullptr);
        continue;
      }
      const auto all = layouts_for(operands[i], mesh, true);
      set.push_back(all[random() % all.size()]);
    }
    if (std::find(sets.begin(), sets.end(), set) == sets.end()) sets.push_back(std::move(set));
  }
  return out;
}

}  // namespace hyper_parallel::torch_layer
