#include "hyper_parallel/torch/face/collectives.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/base/key.h"
#include "hyper_parallel/torch/comm/group_exchanges.h"
#include "hyper_parallel/torch/local/region.h"
#include "hyper_parallel/torch/ranks/ranks.h"
#include "hyper_parallel/torch/tensor/dtensor.h"

namespace hyper_parallel {
namespace {

using torch_layer::ExchangePtr;
using torch_layer::Group;
using Counts = std::vector<std::int64_t>;

/// A collective whose arguments were checked.
struct Made {
  ExchangePtr exchange;
  at::Tensor x;
  bool linear = true;
};

const Mesh* mesh_for(const std::string& what, const Mesh* mesh) {
  if (mesh != nullptr) return mesh;
  const torch_layer::LocalRegion* region = torch_layer::current_region();
  const Mesh* found = region != nullptr ? region->mesh() : torch_layer::backward_mesh();
  if (found == nullptr) {
    throw UsageError(
        Message("HP-C024",
                what + ": which mesh? outside custom_shard and DFunction it is not known")
            .hint(what + "(..., mesh=mesh)"));
  }
  return found;
}

Group group_for(const std::string& what, const Axes& axes, const Mesh* given) {
  const Mesh* mesh = mesh_for(what, given);
  std::vector<int> numbers;
  for (const std::string& name : axes.names) numbers.push_back(mesh->axis(name));
  for (int number : axes.numbers) {
    if (number < 0 || number >= mesh->ndim()) {
      throw UsageError(Message("HP-M010", what + ": no axis " + std::to_string(number))
                           .fact("mesh", mesh->to_string()));
    }
    numbers.push_back(number);
  }
  const int rank = torch_layer::current_rank().rank();
  if (!mesh->coordinate(rank)) {
    throw UsageError(
        Message("HP-M032", what + ": rank " + std::to_string(rank) + " is not in the mesh")
            .fact("mesh", mesh->to_string()));
  }
  return torch_layer::group_along(mesh, numbers);
}

void check_plain(const at::Tensor& x) {
  if (!torch_layer::is_dtensor(x)) return;
  throw UsageError(Message("HP-C025", "collectives of local code take plain tensors")
                       .fact("given", torch_layer::describe(x))
                       .hint("redistribute() moves a DTensor; inside custom_shard tensors are "
                             "plain"));
}

[[noreturn]] void misfit(const std::string& text, const std::string& hint = "") {
  Message message("HP-C022", text);
  if (!hint.empty()) message.hint(hint);
  throw UsageError(message);
}

int checked_dim(const std::string& what, const at::Tensor& x, std::int64_t dim) {
  if (dim < -x.dim() || dim >= x.dim()) {
    throw UsageError(Message("HP-C022", what + ": dim " + std::to_string(dim) + " is out of range")
                         .fact("shape", to_string(Shape(x.sizes().begin(), x.sizes().end()))));
  }
  return static_cast<int>(dim < 0 ? dim + x.dim() : dim);
}

void check_lengths(const std::string& what, const Lengths& lengths, const Group& group) {
  if (!lengths) return;
  const bool negative =
      std::any_of(lengths->begin(), lengths->end(), [](std::int64_t n) { return n < 0; });
  if (static_cast<std::int64_t>(lengths->size()) == group.size && !negative) return;
  throw UsageError(Message("HP-C022", what + ": one size a rank is needed")
                       .fact("ranks", std::to_string(group.size))
                       .fact("sizes", to_string(*lengths)));
}

void check_place(const std::string& what, int place, const Group& group) {
  if (place >= 0 && place < group.size) return;
  throw UsageError(Message("HP-C023", what + ": no place " + std::to_string(place) + " among " +
                                          std::to_string(group.size) + " ranks")
                       .hint("places from 0"));
}

std::int64_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

Shape shape_of(const at::Tensor& x) { return {x.sizes().begin(), x.sizes().end()}; }

Counts equal_shares(std::int64_t rows, const Group& group) {
  return Counts(static_cast<std::size_t>(group.size), rows / group.size);
}

/// How much each rank will get of what the others send.
Counts exchanged(const Counts& sent, const Group& group, at::Device device) {
  if (group.size == 1) return sent;
  at::NoGradGuard no_grad;
  const Counts ones(static_cast<std::size_t>(group.size), 1);
  const at::Tensor counts = at::tensor(sent, at::kLong).to(device);
  const at::Tensor came =
      run(torch_layer::all_to_all_exchange(group, {group.size}, ones, ones), counts).cpu();
  const auto* numbers = came.const_data_ptr<std::int64_t>();
  return {numbers, numbers + came.numel()};
}

// ---- Arguments ------------------------------------------------------------------------------

Made make_all_reduce(const at::Tensor& x, const Axes& axes, ReduceOp op, const Mesh* mesh) {
  const std::string name(to_string(op));
  const bool linear = op == ReduceOp::sum || op == ReduceOp::avg;
  if (!linear && x.requires_grad() && at::GradMode::is_enabled()) {
    throw UnsupportedError(Message("HP-C021", "all_reduce: no gradient flows through " + name)
                               .hint("call it on x.detach()"));
  }
  const Group group = group_for("all_reduce", axes, mesh);
  check_plain(x);
  if (group.size > 1 && x.scalar_type() == at::kBool && op != ReduceOp::max &&
      op != ReduceOp::min) {
    throw UsageError(
        Message("HP-C020", "all_reduce: booleans have no " + name).hint("max is or, min is and"));
  }
  return {torch_layer::all_reduce_exchange(group, op), x, linear};
}

Made make_all_gather(const at::Tensor& x, const Axes& axes, std::int64_t dim, const Lengths& sizes,
                     const Mesh* mesh) {
  const Group group = group_for("all_gather", axes, mesh);
  const int d = checked_dim("all_gather", x, dim);
  check_lengths("all_gather", sizes, group);
  const std::int64_t mine = x.size(d);
  const Counts lengths = sizes ? *sizes : Counts(static_cast<std::size_t>(group.size), mine);
  const std::int64_t said = lengths[static_cast<std::size_t>(group.index)];
  if (said != mine) {
    throw UsageError(Message("HP-C022", "all_gather: this rank's part has " + std::to_string(mine) +
                                            " rows, sizes says " + std::to_string(said))
                         .fact("sizes", to_string(lengths)));
  }
  check_plain(x);
  return {torch_layer::all_gather_exchange(group, shape_of(x), d, lengths), x};
}

Made make_reduce_scatter(const at::Tensor& x, const Axes& axes, std::int64_t dim, ReduceOp op,
                         const Lengths& sizes, const Mesh* mesh) {
  if (op != ReduceOp::sum && op != ReduceOp::avg) {
    throw UsageError(
        Message("HP-C020", "reduce_scatter: no reduction \"" + std::string(to_string(op)) + "\"")
            .fact("reductions", "sum, avg"));
  }
  const Group group = group_for("reduce_scatter", axes, mesh);
  const int d = checked_dim("reduce_scatter", x, dim);
  check_lengths("reduce_scatter", sizes, group);
  const std::int64_t rows = x.size(d);
  if (!sizes && rows % group.size != 0) {
    misfit("reduce_scatter: " + std::to_string(rows) + " rows cannot be cut evenly for " +
               std::to_string(group.size) + " ranks",
           "sizes=[...], one a rank");
  }
  const Counts lengths = sizes ? *sizes : equal_shares(rows, group);
  if (total(lengths) != rows) {
    misfit("reduce_scatter: " + std::to_string(rows) + " rows, sizes sums to " +
           std::to_string(total(lengths)));
  }
  check_plain(x);
  return {torch_layer::reduce_scatter_exchange(group, shape_of(x), d, lengths, op), x};
}

Made make_all_to_all(const at::Tensor& x, const Axes& axes, const Lengths& given_send,
                     const Lengths& given_receive, const Mesh* mesh) {
  const Group group = group_for("all_to_all", axes, mesh);
  if (x.dim() == 0) misfit("all_to_all: a tensor of no dims has no rows");
  check_lengths("all_to_all", given_send, group);
  check_lengths("all_to_all", given_receive, group);
  const std::int64_t rows = x.size(0);
  if (!given_send && rows % group.size != 0) {
    misfit("all_to_all: " + std::to_string(rows) + " rows cannot be shared evenly by " +
               std::to_string(group.size) + " ranks",
           "send_sizes=[...], one a rank");
  }
  const Counts send = given_send ? *given_send : equal_shares(rows, group);
  if (total(send) != rows) {
    misfit("all_to_all: " + std::to_string(rows) + " rows, send_sizes sums to " +
           std::to_string(total(send)));
  }
  check_plain(x);
  Counts receive;
  if (given_receive) {
    receive = *given_receive;
  } else {
    receive = given_send ? exchanged(send, group, x.device()) : send;
  }
  return {torch_layer::all_to_all_exchange(group, shape_of(x), send, receive), x};
}

Made make_broadcast(const at::Tensor& x, const Axes& axes, int source, const Mesh* mesh) {
  const Group group = group_for("broadcast", axes, mesh);
  check_place("broadcast", source, group);
  check_plain(x);
  return {torch_layer::broadcast_exchange(group, source), x};
}

Made make_permute(const at::Tensor& x, const Axes& axes,
                  const std::vector<std::pair<int, int>>& pairs, const Mesh* mesh) {
  const Group group = group_for("permute", axes, mesh);
  std::set<int> sources;
  std::set<int> targets;
  bool twice = false;
  for (const auto& [source, target] : pairs) {
    check_place("permute", source, group);
    check_place("permute", target, group);
    twice |= !sources.insert(source).second || !targets.insert(target).second;
  }
  if (twice) {
    std::string text;
    for (const auto& [source, target] : pairs) {
      text += (text.empty() ? "(" : ", (") + std::to_string(source) + ", " +
              std::to_string(target) + ")";
    }
    throw UsageError(
        Message("HP-C023", "permute: a place is named twice").fact("pairs", "[" + text + "]"));
  }
  check_plain(x);
  return {torch_layer::permute_exchange(group, pairs), x};
}

// ---- The graph ------------------------------------------------------------------------------

/// Where gradients flow: the region whose results will hang on the collective, or none.
torch_layer::LocalRegion* region_of(const Made& made, bool& flows) {
  flows = made.linear && (made.x.is_floating_point() || made.x.is_complex());
  return flows ? torch_layer::current_region() : nullptr;
}

void tie(torch_layer::LocalRegion* region, const at::Tensor& anchor, const at::Tensor& result) {
  if (region != nullptr && anchor.defined()) region->tie(result);
}

at::Tensor run(const Made& made) {
  bool flows = false;
  torch_layer::LocalRegion* region = region_of(made, flows);
  if (!flows) {
    at::NoGradGuard no_grad;
    return torch_layer::run(made.exchange, made.x.detach());
  }
  const at::Tensor anchor = region != nullptr ? region->anchor() : at::Tensor();
  at::Tensor out = torch_layer::run(made.exchange, made.x, {.anchor = anchor});
  tie(region, anchor, out);
  return out;
}

}  // namespace

struct Pending::State {
  torch_layer::PendingExchange exchange;
  at::Tensor anchor;
  bool tied = false;
};

Pending::Pending(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;
Pending::~Pending() = default;

const at::Tensor& Pending::wait() {
  const at::Tensor& out = state_->exchange.wait();
  if (!std::exchange(state_->tied, true)) {
    tie(torch_layer::current_region(), state_->anchor, out);
  }
  return out;
}

struct Starter {
  static Pending start(const Made& made) {
    bool flows = false;
    torch_layer::LocalRegion* region = region_of(made, flows);
    const at::Tensor anchor = region != nullptr ? region->anchor() : at::Tensor();
    const at::AutoGradMode mode(flows && at::GradMode::is_enabled());
    const at::Tensor x = flows ? made.x : made.x.detach();
    torch_layer::PendingExchange exchange(made.exchange, x, {.anchor = anchor});
    return Pending(std::make_unique<Pending::State>(Pending::State{std::move(exchange), anchor}));
  }
};

at::Tensor all_reduce(const at::Tensor& x, const Axes& axes, ReduceOp op, const Mesh* mesh) {
  return run(make_all_reduce(x, axes, op, mesh));
}
Pending Start::all_reduce(const at::Tensor& x, const Axes& axes, ReduceOp op, const Mesh* mesh) {
  return Starter::start(make_all_reduce(x, axes, op, mesh));
}

at::Tensor all_gather(const at::Tensor& x, const Axes& axes, std::int64_t dim, const Lengths& sizes,
                      const Mesh* mesh) {
  return run(make_all_gather(x, axes, dim, sizes, mesh));
}
Pending Start::all_gather(const at::Tensor& x, const Axes& axes, std::int64_t dim,
                          const Lengths& sizes, const Mesh* mesh) {
  return Starter::start(make_all_gather(x, axes, dim, sizes, mesh));
}

at::Tensor reduce_scatter(const at::Tensor& x, const Axes& axes, std::int64_t dim, ReduceOp op,
                          const Lengths& sizes, const Mesh* mesh) {
  return run(make_reduce_scatter(x, axes, dim, op, sizes, mesh));
}
Pending Start::reduce_scatter(const at::Tensor& x, const Axes& axes, std::int64_t dim, ReduceOp op,
                              const Lengths& sizes, const Mesh* mesh) {
  return Starter::start(make_reduce_scatter(x, axes, dim, op, sizes, mesh));
}

at::Tensor all_to_all(const at::Tensor& x, const Axes& axes, const Lengths& send,
                      const Lengths& receive, const Mesh* mesh) {
  return run(make_all_to_all(x, axes, send, receive, mesh));
}
Pending Start::all_to_all(const at::Tensor& x, const Axes& axes, const Lengths& send,
                          const Lengths& receive, const Mesh* mesh) {
  return Starter::start(make_all_to_all(x, axes, send, receive, mesh));
}

at::Tensor broadcast(const at::Tensor& x, const Axes& axes, int source, const Mesh* mesh) {
  return run(make_broadcast(x, axes, source, mesh));
}
Pending Start::broadcast(const at::Tensor& x, const Axes& axes, int source, const Mesh* mesh) {
  return Starter::start(make_broadcast(x, axes, source, mesh));
}

at::Tensor permute(const at::Tensor& x, const Axes& axes,
                   const std::vector<std::pair<int, int>>& pairs, const Mesh* mesh) {
  return run(make_permute(x, axes, pairs, mesh));
}
Pending Start::permute(const at::Tensor& x, const Axes& axes,
                       const std::vector<std::pair<int, int>>& pairs, const Mesh* mesh) {
  return Starter::start(make_permute(x, axes, pairs, mesh));
}

int axis_rank(const Axes& axes, const Mesh* mesh) {
  return group_for("axis_rank", axes, mesh).index;
}

int axis_size(const Axes& axes, const Mesh* mesh) {
  return static_cast<int>(group_for("axis_size", axes, mesh).size);
}

ReduceOp reduction(std::string_view what, std::string_view name) {
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min, ReduceOp::prod}) {
    if (to_string(op) == name) return op;
  }
  throw UsageError(
      Message("HP-C020", std::string(what) + ": no reduction \"" + std::string(name) + "\"")
          .fact("reductions", what == "all_reduce" ? "sum, avg, max, min, prod" : "sum, avg"));
}

}  // namespace hyper_parallel
