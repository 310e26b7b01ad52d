#include "hyper_parallel/torch/comm/program.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <unordered_map>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/ranks/coordinate.h"
#include "hyper_parallel/torch/ranks/rank_state.h"

namespace hyper_parallel::torch_layer {
namespace {

using plan::Step;
using plan::StepKind;

/// Builds the action of one step for the rank at `here`.
class Builder {
 public:
  Builder(const Step& step, const Shape& sizes, const std::vector<int>& here)
      : step_(step), sizes_(sizes), here_(here), mesh_(step.before->mesh()) {
    for (int axis : step.axes) group_sizes_.push_back(mesh_->size(axis));
    mine_before_ = region_of(step.before, sizes, here);
    mine_after_ = region_of(step.after, sizes, here);
    action_.kind = step.kind;
    action_.op = step.op;
    action_.factor = step.factor;
    action_.before = shape_of(mine_before_);
    action_.after = shape_of(mine_after_);
  }

  Action build() {
    switch (step_.kind) {
      case StepKind::cut:
        action_.place = places(mine_after_, mine_before_);
        break;
      case StepKind::pad:
        action_.place = places(mine_before_, mine_after_);
        break;
      case StepKind::all_gather:
        gather();
        break;
      case StepKind::reduce_scatter:
        reduce_scatter();
        break;
      case StepKind::all_to_all:
      case StepKind::permute:
        exchange();
        break;
      case StepKind::all_reduce:
        action_.idle = product(action_.before) == 0;
        break;
      case StepKind::own:
        action_.first = std::all_of(step_.axes.begin(), step_.axes.end(), [&](int axis) {
          return here_[static_cast<std::size_t>(axis)] == 0;
        });
        break;
      case StepKind::scale:
        break;
    }
    if (step_.communicates() && !action_.idle) action_.group = group_along(mesh_, step_.axes);
    forget_ranks(action_.out);
    forget_ranks(action_.in);
    return std::move(action_);
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(product(group_sizes_)); }

  /// Where all is regular, nothing is looked up rank by rank: large groups take no memory then.
  void forget_ranks(Pieces& p) const {
    const bool exchanges = step_.kind == StepKind::all_to_all || step_.kind == StepKind::permute;
    if (!p.grid && !(exchanges ? p.rows : action_.tail_padded)) return;
    p.places.clear();
    p.shapes.clear();
  }

  /// The coordinate of rank `k` of the group.
  std::vector<int> member(std::size_t k) const {
    std::vector<int> out = here_;
    for (auto axis = step_.axes.rbegin(); axis != step_.axes.rend(); ++axis) {
      const auto size = static_cast<std::size_t>(mesh_->size(*axis));
      out[static_cast<std::size_t>(*axis)] = static_cast<int>(k % size);
      k /= size;
    }
    return out;
  }

  /// For each dim, which axes of the group cut it in `layout`.
  std::vector<std::vector<int>> split_axes(const Layout* layout) const {
    std::vector<std::vector<int>> out(sizes_.size());
    for (std::size_t d = 0; d < sizes_.size(); ++d) {
      for (int axis : layout->axes(static_cast<int>(d))) {
        const auto at = std::find(step_.axes.begin(), step_.axes.end(), axis) - step_.axes.begin();
        if (at < static_cast<std::ptrdiff_t>(step_.axes.size()))
          out[d].push_back(static_cast<int>(at));
      }
    }
    return out;
  }

  template <class RegionOf>
  Pieces pieces(const Region& whole, const Layout* cut_as, RegionOf region) const {
    std::vector<Region> out;
    for (std::size_t k = 0; k < ranks(); ++k) out.push_back(places(region(k), whole));
    return pieces_of(shape_of(whole), std::move(out), group_sizes_, split_axes(cut_as));
  }

  void gather() {
    action_.in = pieces(mine_after_, step_.before,
                        [&](std::size_t k) { return region_of(step_.before, sizes_, member(k)); });
    action_.part = action_.in.largest;
    action_.idle = product(action_.part) == 0;
    action_.tail_padded = is_tail_padded(action_.in);
  }

  void reduce_scatter() {
    action_.out = pieces(mine_before_, step_.after,
                         [&](std::size_t k) { return region_of(step_.after, sizes_, member(k)); });
    action_.part = action_.out.largest;
    action_.idle = product(action_.part) == 0;
    action_.tail_padded = is_tail_padded(action_.out);
  }

  void exchange() {
    const bool has_copies = std::any_of(step_.axes.begin(), step_.axes.end(), [&](int axis) {
      return !step_.before->placement(axis).is_shard();
    });
    const std::vector<int> source_of_mine = has_copies ? source(here_) : std::vector<int>{};
    action_.out = pieces(mine_before_, step_.after, [&](std::size_t k) {
      const std::vector<int> to = member(k);
      if (has_copies && source(to) != here_) return nothing();
      return intersect(mine_before_, region_of(step_.after, sizes_, to));
    });
    action_.in = pieces(mine_after_, step_.before, [&](std::size_t k) {
      const std::vector<int> from = member(k);
      if (has_copies && source_of_mine != from) return nothing();
      return intersect(mine_after_, region_of(step_.before, sizes_, from));
    });
    const bool grid = action_.out.grid && action_.in.grid;
    if (!grid) action_.out.grid = action_.in.grid = std::nullopt;
    const auto rows = [&](const Pieces& p, std::size_t k) {
      return grid && !p.shapes[k].empty() ? p.shapes[k][0] : product(p.shapes[k]);
    };
    for (std::size_t k = 0; k < ranks(); ++k) {
      action_.sent.emplace_back(rows(action_.out, k));
      action_.received.emplace_back(rows(action_.in, k));
    }
    action_.idle = !step_.communicates() || group_is_empty();
  }

  /// No member has anything to send.
  bool group_is_empty() const {
    for (std::size_t k = 0; k < ranks(); ++k) {
      if (numel_of(region_of(step_.before, sizes_, member(k))) != 0) return false;
    }
    return true;
  }

  Region nothing() const { return Region(sizes_.size(), {Interval{0, 0}}); }

  /// Permute: where the shard of the rank at `to` comes from. An axis that cuts after the step
  /// plays the role of the axis that stood in its place before; the others follow in order.
  std::vector<int> source(const std::vector<int>& to) const {
    std::vector<int> out = to;
    std::vector<int> roles_before;
    std::vector<int> roles_after;
    for (const Split& after : step_.after->splits()) {
      const std::vector<int>& before = step_.before->axes(after.dim);
      for (std::size_t i = 0; i < after.axes.size(); ++i) {
        roles_before.push_back(before[i]);
        roles_after.push_back(after.axes[i]);
      }
    }
    for (int axis : step_.axes) {
      if (!step_.before->placement(axis).is_shard()) roles_before.push_back(axis);
      if (!step_.after->placement(axis).is_shard()) roles_after.push_back(axis);
    }
    for (std::size_t i = 0; i < roles_before.size(); ++i) {
      out[static_cast<std::size_t>(roles_before[i])] = to[static_cast<std::size_t>(roles_after[i])];
    }
    return out;
  }

  const Step& step_;
  const Shape& sizes_;
  const std::vector<int>& here_;
  const Mesh* mesh_;
  std::vector<std::int64_t> group_sizes_;
  Region mine_before_;
  Region mine_after_;
  Action action_;
};

/// Pieces of `x` one after another: as `p.grid` says, or flat.
at::Tensor pack(const Pieces& p, const at::Tensor& x) {
  if (p.grid) return to_buffer(x, *p.grid);
  if (p.rows) return x.contiguous().view({-1});
  std::vector<at::Tensor> flat;
  for (const Region& place : p.places) flat.push_back(take(x, place).reshape({-1}));
  return at::cat(flat);
}

/// The tensor of which `piece(k)` gives piece k; empty ones are not asked for.
template <class Piece>
at::Tensor assemble(const Pieces& p, const at::Tensor& like, Piece piece) {
  if (p.along >= 0) {
    std::vector<at::Tensor> parts;
    for (std::size_t k = 0; k < p.places.size(); ++k) {
      if (product(p.shapes[k]) != 0) parts.push_back(piece(k));
    }
    if (parts.size() == 1) return parts[0];
    if (!parts.empty()) return at::cat(parts, p.along);
  }
  at::Tensor out = like.new_empty(p.tensor);
  for (std::size_t k = 0; k < p.places.size(); ++k) {
    if (product(p.shapes[k]) != 0) put(out, p.places[k], piece(k));
  }
  return out;
}

at::Tensor unpack(const Pieces& p, const at::Tensor& buffer) {
  if (p.grid) return to_tensor(buffer, *p.grid);
  if (p.rows) return buffer.view(p.tensor);
  std::vector<std::int64_t> starts;
  std::int64_t start = 0;
  for (const Shape& shape : p.shapes) {
    starts.push_back(start);
    start += product(shape);
  }
  return assemble(p, buffer, [&](std::size_t k) {
    return buffer.narrow(0, starts[k], product(p.shapes[k])).view(p.shapes[k]);
  });
}

/// `x` cut at the ends to `shape`.
at::Tensor cut_to(at::Tensor x, const Shape& shape) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    if (x.size(dim) != shape[d]) x = x.narrow(dim, 0, shape[d]);
  }
  return x;
}

at::Tensor pad_rows(const at::Tensor& x, std::int64_t rows) {
  if (x.size(0) == rows) return x;
  Shape shape(x.sizes().begin(), x.sizes().end());
  shape[0] = rows;
  return pad_to(x, shape);
}

at::Tensor pad_at(const at::Tensor& x, const Region& place, const Shape& shape) {
  const bool box =
      std::all_of(place.begin(), place.end(), [](const auto& r) { return r.size() == 1; });
  if (!box) {
    at::Tensor out = x.new_zeros(shape);
    put(out, place, x);
    return out;
  }
  std::vector<std::int64_t> amounts;  // the last dim first
  for (std::size_t d = shape.size(); d-- > 0;) {
    amounts.push_back(place[d][0].begin);
    amounts.push_back(shape[d] - place[d][0].end);
  }
  return at::constant_pad_nd(x, amounts, 0);
}

}  // namespace

void check_local(const plan::Plan& plan, const Program& program, const at::Tensor& local) {
  if (local.sizes() == c10::IntArrayRef(program.before)) return;
  throw UsageError(
      Message("HP-R008", "redistribute: the local tensor has not the shape of its layout")
          .fact("tensor", to_string(plan.meta, plan.from))
          .fact("local", to_string(Shape(local.sizes().begin(), local.sizes().end())))
          .fact("expected", to_string(program.before)));
}

at::Tensor before_collective(const Action& a, const at::Tensor& x) {
  switch (a.kind) {
    case StepKind::all_gather:
      return pad_to(x, a.part);
    case StepKind::reduce_scatter: {
      if (a.out.grid) return to_buffer(x, *a.out.grid);
      if (a.tail_padded) return pad_rows(x, a.part[0] * a.group.size);
      std::vector<at::Tensor> parts;
      for (const Region& place : a.out.places) parts.push_back(pad_to(take(x, place), a.part));
      return at::cat(parts);
    }
    case StepKind::all_to_all:
    case StepKind::permute:
      return pack(a.out, x);
    default:
      return x;
  }
}

at::Tensor after_collective(const Action& a, const at::Tensor& x, const at::Tensor& received) {
  switch (a.kind) {
    case StepKind::all_gather:
      if (a.in.grid) return to_tensor(received, *a.in.grid);
      if (a.tail_padded) return received.narrow(0, 0, a.after[0]);
      return assemble(a.in, x, [&](std::size_t k) {
        const std::int64_t rows = a.part[0];
        return cut_to(received.narrow(0, static_cast<std::int64_t>(k) * rows, rows),
                      a.in.shapes[k]);
      });
    case StepKind::reduce_scatter:
      return cut_to(received, a.after);
    case StepKind::all_to_all:
    case StepKind::permute:
      return unpack(a.in, received);
    default:
      return received;
  }
}

bool sends(const Action& a) {
  const bool local = a.kind == StepKind::cut || a.kind == StepKind::pad ||
                     a.kind == StepKind::scale || a.kind == StepKind::own;
  return !local && !a.idle;
}

at::Tensor run_here(const Action& a, const at::Tensor& x) {
  switch (a.kind) {
    case StepKind::cut:
      return take(x, a.place);
    case StepKind::pad:
      return pad_at(x, a.place, a.after);
    case StepKind::scale:
      return at::mul(x, a.factor);
    case StepKind::own:
      return a.first ? x : at::zeros_like(x);
    default:
      return a.before == a.after ? x : x.new_zeros(a.after);
  }
}

wire::Sent issue(const Action& a, const at::Tensor& x) {
  const at::Tensor sent = before_collective(a, x);
  switch (a.kind) {
    case StepKind::all_gather:
      return wire::all_gather(sent, a.group);
    case StepKind::reduce_scatter:
      return wire::reduce_scatter(sent, a.op, a.group);
    case StepKind::all_reduce:
      return wire::all_reduce(sent, a.op, a.group);
    default:
      return wire::all_to_all(sent, a.received, a.sent, a.group);
  }
}

at::Tensor land(const Action& a, const at::Tensor& x, wire::Sent sent) {
  return after_collective(a, x, sent.wait());
}

Program compile(const plan::Plan& plan) {
  Program out;
  out.before = local_shape(plan.from, plan.meta.sizes, my_coordinate(plan.from->mesh()));
  out.after = local_shape(plan.to, plan.meta.sizes, my_coordinate(plan.to->mesh()));
  out.may_alias = true;
  for (const Step& step : plan.steps) {
    const std::vector<int>& here = my_coordinate(step.before->mesh());
    out.actions.push_back(Builder(step, plan.meta.sizes, here).build());
    const Action& a = out.actions.back();
    const bool copies =
        a.kind == StepKind::scale || a.kind == StepKind::pad || (step.communicates() && !a.idle);
    if (copies) out.may_alias = false;
  }
  // A cut at the end would keep all of what it was cut from alive.
  if (!plan.steps.empty() && plan.steps.back().kind == StepKind::cut) out.may_alias = true;
  return out;
}

std::shared_ptr<Program> program_of(const plan::Plan& plan) {
  constexpr std::size_t kMostPrograms = 1 << 14;
  struct Programs : std::unordered_map<std::uint64_t, std::shared_ptr<Program>> {};
  if (plan.id == 0) return std::make_shared<Program>(compile(plan));
  Programs& known = PerRank<Programs>::get();
  const auto found = known.find(plan.id);
  if (found != known.end()) return found->second;
  if (known.size() == kMostPrograms) known.clear();
  return known.emplace(plan.id, std::make_shared<Program>(compile(plan))).first->second;
}

}  // namespace hyper_parallel::torch_layer
