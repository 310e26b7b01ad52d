#include "hyper_parallel/rules/engine/state.h"

#include <numeric>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"

namespace hyper_parallel::rules {
namespace {

void check_layout(const Call& call, std::size_t input) {
  const Operand& o = call.inputs[input];
  const Layout* layout = o.layout;
  if (layout->mesh() != call.mesh) {
    throw UsageError(Message("HP-S020", operand_text(call, input) + " lies on another mesh")
                         .fact("mesh of the call", call.mesh->to_string())
                         .fact("mesh of the operand", layout->mesh()->to_string())
                         .hint("redistribute it to one mesh first"));
  }
  const int ndim = static_cast<int>(o.meta.sizes.size());
  if (layout->max_dim() >= ndim) {
    throw UsageError(Message("HP-S021", operand_text(call, input) + " is split on dim " +
                                            std::to_string(layout->max_dim()) + " but has " +
                                            std::to_string(ndim) + " dims")
                         .fact("operand", to_string(o.meta, layout)));
  }
  for (const Split& s : layout->splits()) {
    if (s.segments.empty()) continue;
    const auto sum = std::accumulate(s.segments.begin(), s.segments.end(), std::int64_t{0});
    if (sum == o.meta.sizes[at(s.dim)]) continue;
    throw UsageError(Message("HP-S022", operand_text(call, input) + ": the segments of dim " +
                                            std::to_string(s.dim) + " sum to " +
                                            std::to_string(sum) + ", its size is " +
                                            std::to_string(o.meta.sizes[at(s.dim)]))
                         .fact("operand", to_string(o.meta, layout)));
  }
}

void read_splits(const ConcreteRule& rule, const TensorMap& map, OperandState& state) {
  for (const Split& s : state.layout->splits()) {
    Reading reading = decompose(rule, map, s, state.layout->mesh());
    for (int axis : s.axes) state.axes[at(axis)].kind = Has::Kind::foreign;
    for (const auto& [factor, cut] : reading.cuts) {
      for (int axis : cut.axes) {
        state.axes[at(axis)] = {
            .kind = Has::Kind::factor, .factor = factor, .recut = !reading.exact};
      }
      if (reading.exact) state.cuts.emplace_back(factor, cut);
    }
  }
}

}  // namespace

double OperandState::bytes_without(int axis) const {
  double out = bytes;
  for (int other = 0; other < static_cast<int>(axes.size()); ++other) {
    const Has::Kind kind = axes[at(other)].kind;
    if (other == axis || kind == Has::Kind::whole || kind == Has::Kind::partial) continue;
    out /= layout->mesh()->size(other);
  }
  return out;
}

std::vector<OperandState> read_operands(const ConcreteRule& rule, const Call& call) {
  check_internal(call.inputs.size() == rule.inputs.size(),
                 call.op + ": the rule has " + std::to_string(rule.inputs.size()) + " operands");
  std::vector<OperandState> out(call.inputs.size());
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Operand& o = call.inputs[i];
    if (!o.present) continue;
    OperandState& state = out[i];
    state.bytes = static_cast<double>(o.meta.bytes());
    state.axes.resize(at(call.mesh->ndim()));
    if (o.layout == nullptr) {
      state.layout = Layout::replicated(call.mesh);
      continue;
    }
    state.layout = o.layout;
    check_layout(call, i);
    for (int axis = 0; axis < call.mesh->ndim(); ++axis) {
      const Placement p = o.layout->placement(axis);
      if (p.is_partial()) state.axes[at(axis)] = {.kind = Has::Kind::partial, .op = p.op()};
    }
    read_splits(rule, rule.inputs[i], state);
  }
  return out;
}

bool holds(const TensorMap& map, int factor) {
  for (const auto& dim : map.dims) {
    for (int f : dim) {
      if (f == factor) return true;
    }
  }
  return std::find(map.joint.begin(), map.joint.end(), factor) != map.joint.end();
}

Need need(const ConcreteRule& rule, int input, const Has& has, const AxisChoice& choice) {
  const TensorMap& map = rule.inputs[at(input)];
  if (map.shape_only) return {.kind = Need::Kind::own};
  if (choice.kind == AxisChoice::Kind::factor) {
    const Factor& factor = rule.factors[at(choice.factor)];
    if (holds(map, choice.factor)) return {.kind = Need::Kind::factor, .factor = choice.factor};
    if (map.addend && factor.kind == FactorKind::reduce) {
      const bool same = has.kind == Has::Kind::partial && has.op == factor.reduce;
      if (same) return {.kind = Need::Kind::partial, .op = has.op};
      return {.kind = Need::Kind::whole, .masked = true};
    }
  }
  if (choice.kind == AxisChoice::Kind::partial) {
    if (choice.partial_in[at(input)] != 0) return {.kind = Need::Kind::partial, .op = choice.op};
    return {.kind = Need::Kind::whole, .masked = map.addend && choice.op == ReduceOp::sum};
  }
  return {};
}

Call part_call(const Call& call, const Part& part) {
  Call out;
  out.op = call.op;
  out.mesh = call.mesh;
  out.attrs = call.attrs;
  for (int i : part.inputs) {
    out.inputs.push_back(call.inputs[at(i)]);
    out.list_lengths.push_back(-1);
  }
  return out;
}

}  // namespace hyper_parallel::rules
