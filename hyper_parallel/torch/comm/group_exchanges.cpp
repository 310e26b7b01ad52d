#include "hyper_parallel/torch/comm/group_exchanges.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <numeric>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/plan/cost.h"
#include "hyper_parallel/torch/base/dtype.h"
#include "hyper_parallel/torch/comm/program.h"
#include "hyper_parallel/torch/comm/record.h"

namespace hyper_parallel::torch_layer {
namespace {

using Lengths = std::vector<std::int64_t>;
using plan::StepKind;

std::int64_t total(const Lengths& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

Shape with_length(Shape shape, int dim, std::int64_t length) {
  shape[static_cast<std::size_t>(dim)] = length;
  return shape;
}

double bytes_of(const Shape& shape, const at::Tensor& x) {
  return static_cast<double>(product(shape)) * static_cast<double>(x.element_size());
}

class Done final : public Flight {
 public:
  explicit Done(at::Tensor value) : value_(std::move(value)) {}
  at::Tensor land() override { return std::move(value_); }

 private:
  at::Tensor value_;
};

/// What all kinds share: the group, and the record.
class GroupExchange : public Exchange {
 public:
  explicit GroupExchange(const Group& group) : group_(group) {}
  const Mesh* mesh() const override { return group_.mesh; }
  const std::vector<int>& axes() const override { return group_.axes; }

 protected:
  int ranks() const { return static_cast<int>(group_.size); }
  void note(const at::Tensor& x) const {
    note_collective(kind(), mesh(), axes(), meta_of(x), bytes(x));
  }

  const Group group_;
};

/// A collective that was issued, and what is to be done with its result.
template <class Finish>
class SentFlight final : public Flight {
 public:
  SentFlight(wire::Sent sent, Finish finish) : sent_(std::move(sent)), finish_(std::move(finish)) {}
  at::Tensor land() override { return finish_(sent_.wait()); }

 private:
  wire::Sent sent_;
  Finish finish_;
};

template <class Finish>
std::unique_ptr<Flight> flight(wire::Sent sent, Finish finish) {
  return std::make_unique<SentFlight<Finish>>(std::move(sent), std::move(finish));
}

/// Among one rank.
class Copy final : public GroupExchange {
 public:
  using GroupExchange::GroupExchange;
  std::string_view kind() const override { return "copy"; }
  double bytes(const at::Tensor&) const override { return 0; }
  ExchangePtr transposed() const override { return shared_from_this(); }
  std::unique_ptr<Flight> issue(const at::Tensor& x) const override {
    return std::make_unique<Done>(x.clone(at::MemoryFormat::Contiguous));
  }
};

class AllReduce final : public GroupExchange {
 public:
  AllReduce(const Group& group, ReduceOp op) : GroupExchange(group), op_(op) {}
  std::string_view kind() const override { return "all_reduce"; }
  double bytes(const at::Tensor& x) const override {
    return plan::all_reduce_bytes(ranks(), static_cast<double>(x.nbytes()));
  }
  ExchangePtr transposed() const override {
    if (op_ == ReduceOp::sum || op_ == ReduceOp::avg) return shared_from_this();
    const std::string op(to_string(op_));
    throw UnsupportedError(Message("HP-C021", "all_reduce: no gradient flows through " + op)
                               .hint("call it on x.detach()"));
  }
  std::unique_ptr<Flight> issue(const at::Tensor& x) const override {
    note(x);
    return flight(wire::all_reduce(x.contiguous(), op_, group_),
                  [](at::Tensor out) { return out; });
  }

 private:
  const ReduceOp op_;
};

/// Pieces of lengths that ranks may have different, as one step of a plan: that is where pieces are
/// padded.
class Parts final : public GroupExchange {
 public:
  /// `local`: the shape that this rank gives; a gather gives its part.
  Parts(const Group& group, StepKind kind, Shape local, int dim, Lengths lengths, ReduceOp op,
        double factor)
      : GroupExchange(group), dim_(dim), lengths_(std::move(lengths)), factor_(factor) {
    const Shape whole = with_length(local, dim, total(lengths_));
    std::vector<Region> places;
    std::int64_t start = 0;
    for (std::int64_t length : lengths_) {
      Region region;
      for (std::int64_t size : whole) region.push_back({Interval{0, size}});
      region[static_cast<std::size_t>(dim)] = {Interval{start, start + length}};
      places.push_back(std::move(region));
      start += length;
    }
    std::vector<std::vector<int>> split_axes(whole.size());
    split_axes[static_cast<std::size_t>(dim)] = {0};
    Pieces pieces = pieces_of(whole, std::move(places), {group.size}, split_axes);
    action_.kind = kind;
    action_.op = op;
    action_.group = group;
    action_.part = pieces.largest;
    action_.tail_padded = is_tail_padded(pieces);
    const Shape mine = with_length(whole, dim, lengths_[static_cast<std::size_t>(group.index)]);
    const bool gathers = kind == StepKind::all_gather;
    action_.before = gathers ? mine : whole;
    action_.after = gathers ? whole : mine;
    (gathers ? action_.in : action_.out) = std::move(pieces);
  }

  std::string_view kind() const override { return gathers() ? "all_gather" : "reduce_scatter"; }
  double bytes(const at::Tensor& x) const override {
    const double part = bytes_of(action_.part, x);
    return gathers() ? plan::all_gather_bytes(ranks(), part)
                     : plan::reduce_scatter_bytes(ranks(), part);
  }
  ExchangePtr transposed() const override {
    const bool avg = action_.op == ReduceOp::avg;
    return std::make_shared<Parts>(
        group_, gathers() ? StepKind::reduce_scatter : StepKind::all_gather, action_.after, dim_,
        lengths_, ReduceOp::sum, avg ? factor_ / static_cast<double>(group_.size) : factor_);
  }
  std::unique_ptr<Flight> issue(const at::Tensor& x) const override {
    note(x);
    const at::Tensor given = factor_ == 1 ? x : at::mul(x, factor_);
    return flight(torch_layer::issue(action_, given),
                  [self = std::static_pointer_cast<const Parts>(shared_from_this()),
                   given](const at::Tensor& received) {
                    return after_collective(self->action_, given, received).contiguous();
                  });
  }

 private:
  bool gathers() const { return action_.kind == StepKind::all_gather; }

  const int dim_;
  const Lengths lengths_;
  const double factor_;
  Action action_;
};

class AllToAll final : public GroupExchange {
 public:
  AllToAll(const Group& group, Shape local, Lengths sent, Lengths received)
      : GroupExchange(group),
        after_(with_length(std::move(local), 0, total(received))),
        sent_(std::move(sent)),
        received_(std::move(received)) {}

  std::string_view kind() const override { return "all_to_all"; }
  // Shares may depend on data: other ranks' are not known.
  double bytes(const at::Tensor& x) const override {
    const auto me = static_cast<std::size_t>(group_.index);
    const std::int64_t rows = std::max(total(sent_) - sent_[me], total(received_) - received_[me]);
    return bytes_of(with_length(after_, 0, rows), x);
  }
  ExchangePtr transposed() const override {
    return std::make_shared<AllToAll>(group_, with_length(after_, 0, total(sent_)), received_,
                                      sent_);
  }
  std::unique_ptr<Flight> issue(const at::Tensor& x) const override {
    note(x);
    return flight(wire::all_to_all(x.contiguous(), {received_.begin(), received_.end()},
                                   {sent_.begin(), sent_.end()}, group_),
                  [](at::Tensor out) { return out; });
  }

 private:
  const Shape after_;
  const Lengths sent_;
  const Lengths received_;
};

class Broadcast final : public GroupExchange {
 public:
  Broadcast(const Group& group, int source) : GroupExchange(group), source_(source) {}
  std::string_view kind() const override { return "broadcast"; }
  double bytes(const at::Tensor& x) const override {
    return plan::broadcast_bytes(ranks(), static_cast<double>(x.nbytes()));
  }
  ExchangePtr transposed() const override;
  std::unique_ptr<Flight> issue(const at::Tensor& x) const override {
    note(x);
    return flight(wire::broadcast(x.contiguous(), source_, group_),
                  [](at::Tensor out) { return out; });
  }

 private:
  const int source_;
};

/// The sum over ranks on one of them, zeros on the others.
class SumTo final : public GroupExchange {
 public:
  SumTo(const Group& group, int target) : GroupExchange(group), target_(target) {}
  std::string_view kind() const override { return "all_reduce"; }
  double bytes(const at::Tensor& x) const override {
    return plan::all_reduce_bytes(ranks(), static_cast<double>(x.nbytes()));
  }
  ExchangePtr transposed() const override { return std::make_shared<Broadcast>(group_, target_); }
  std::unique_ptr<Flight> issue(const at::Tensor& x) const override {
    note(x);
    return flight(wire::all_reduce(x.contiguous(), ReduceOp::sum, group_),
                  [here = group_.index == target_](const at::Tensor& sum) {
                    return here ? sum : at::zeros_like(sum);
                  });
  }

 private:
  const int target_;
};

ExchangePtr Broadcast::transposed() const { return std::make_shared<SumTo>(group_, source_); }

class Permute final : public GroupExchange {
 public:
  Permute(const Group& group, std::vector<std::pair<int, int>> pairs)
      : GroupExchange(group), pairs_(std::move(pairs)) {}
  std::string_view kind() const override { return "permute"; }
  double bytes(const at::Tensor& x) const override {
    const bool moves = std::any_of(pairs_.begin(), pairs_.end(),
                                   [](const auto& pair) { return pair.first != pair.second; });
    return moves ? static_cast<double>(x.nbytes()) : 0;
  }
  ExchangePtr transposed() const override {
    std::vector<std::pair<int, int>> back;
    for (const auto& [source, target] : pairs_) back.emplace_back(target, source);
    return std::make_shared<Permute>(group_, std::move(back));
  }
  std::unique_ptr<Flight> issue(const at::Tensor& x) const override {
    if (group_.size == 1) return std::make_unique<Done>(at::zeros_like(x));  // no pairs
    note(x);
    std::vector<c10::SymInt> sent(static_cast<std::size_t>(group_.size), 0);
    std::vector<c10::SymInt> received = sent;
    bool gives = false;
    bool takes = false;
    for (const auto& [source, target] : pairs_) {
      if (source == group_.index) sent[static_cast<std::size_t>(target)] = x.numel();
      if (target == group_.index) received[static_cast<std::size_t>(source)] = x.numel();
      gives |= source == group_.index;
      takes |= target == group_.index;
    }
    const at::Tensor flat = gives ? x.reshape({-1}).contiguous() : x.new_empty({0});
    return flight(wire::all_to_all(flat, received, sent, group_),
                  [takes, shape = x.sizes().vec()](const at::Tensor& came) {
                    return takes ? came.view(shape) : came.new_zeros(shape);
                  });
  }

 private:
  const std::vector<std::pair<int, int>> pairs_;
};

}  // namespace

ExchangePtr all_reduce_exchange(const Group& group, ReduceOp op) {
  if (group.size == 1) return std::make_shared<Copy>(group);
  return std::make_shared<AllReduce>(group, op);
}

ExchangePtr all_gather_exchange(const Group& group, const Shape& local, int dim,
                                const Lengths& lengths) {
  if (group.size == 1) return std::make_shared<Copy>(group);
  return std::make_shared<Parts>(group, StepKind::all_gather, local, dim, lengths, ReduceOp::sum,
                                 1);
}

ExchangePtr reduce_scatter_exchange(const Group& group, const Shape& whole, int dim,
                                    const Lengths& lengths, ReduceOp op) {
  if (group.size == 1) return std::make_shared<Copy>(group);
  return std::make_shared<Parts>(group, StepKind::reduce_scatter, whole, dim, lengths, op, 1);
}

ExchangePtr all_to_all_exchange(const Group& group, const Shape& local, const Lengths& sent,
                                const Lengths& received) {
  if (group.size == 1) return std::make_shared<Copy>(group);
  return std::make_shared<AllToAll>(group, local, sent, received);
}

ExchangePtr broadcast_exchange(const Group& group, int source) {
  if (group.size == 1) return std::make_shared<Copy>(group);
  return std::make_shared<Broadcast>(group, source);
}

ExchangePtr permute_exchange(const Group& group, const std::vector<std::pair<int, int>>& pairs) {
  if (group.size == 1 && !pairs.empty()) return std::make_shared<Copy>(group);
  return std::make_shared<Permute>(group, pairs);
}

}  // namespace hyper_parallel::torch_layer
