#include "hyper_parallel/rules/query/paddle_calls.h"

#include <algorithm>
#include <numeric>

#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/build/make.h"

namespace hyper_parallel::rules::named {
namespace {

using Ints = std::vector<std::int64_t>;

bool channels_last(const Call& call) {
  return is_text(call, "data_format", "NHWC") || is_text(call, "data_format", "NDHWC") ||
         is_text(call, "data_format", "NLC");
}

DimMap permutation(std::vector<int> dims) {
  DimMap out;
  for (int d : dims) out.push_back({d});
  return out;
}

// Their [n, ..., c] as our [n, c, ...].
void move_channels(Adapter& call) {
  const Shape& sizes = call.sizes(0);
  if (!channels_last(call.theirs) || sizes.size() < 3) return;
  Shape ours = sizes;
  ours.insert(ours.begin() + 1, ours.back());
  ours.pop_back();
  std::vector<int> places(sizes.size(), 1);
  places[0] = 0;
  std::iota(places.begin() + 1, places.end() - 1, 2);
  call.dims(0, std::move(ours), permutation(places));
  call.result(0, permutation(std::move(places)));
}

// A result of fixed, whole size, such as saved random state.
void add_whole(ConcreteRule& rule, Shape sizes) { rule.outputs.push_back(whole(std::move(sizes))); }

void set(Adapter& call, const char* name, Attr value) {
  call.ours.attrs.insert_or_assign(name, std::move(value));
}

void erase(Adapter& call, std::string_view name) {
  const auto it = call.ours.attrs.find(name);
  if (it != call.ours.attrs.end()) call.ours.attrs.erase(it);
}

}  // namespace

// q, k, v [b, s, h, d]; results also the softmax (only for debugging), the logarithm of the sum of
// exponentials [b, h, s] and the random state.
ConcreteRule attention(Adapter& call) {
  check_count(call.theirs, 3, 5);
  const std::size_t heads = call.ndim(0) > 2 ? static_cast<std::size_t>(call.sizes(0)[2]) : 0;
  call.take(call.theirs.inputs.size() > 4 ? std::vector{0, 1, 2, 4} : std::vector{0, 1, 2});
  for (std::size_t i = 0; i < 3; ++i) {
    check_ndim(call.theirs, i, 4);
    const Shape& s = call.sizes(i);
    call.dims(i, {s[0], s[2], s[1], s[3]}, permutation({0, 2, 1, 3}));
  }
  set(call, "enable_gqa", static_cast<std::int64_t>(heads) != call.sizes(1)[2]);
  call.result(0, permutation({0, 2, 1, 3}));
  ConcreteRule rule = call.run();
  const TensorMap out = rule.outputs[0];
  TensorMap softmax = whole({out.sizes[0], out.sizes[2], out.sizes[1], call.sizes(1)[1]});
  for (std::size_t d = 0; d < 3; ++d) softmax.dims[d] = out.dims[d == 0 ? 0 : 3 - d];
  TensorMap lse = whole({out.sizes[0], out.sizes[2], out.sizes[1]});
  for (std::size_t d = 0; d < 3; ++d) lse.dims[d] = softmax.dims[d];
  rule.outputs.push_back(std::move(softmax));
  rule.outputs.push_back(std::move(lse));
  add_whole(rule, {2});
  // The logarithm is not linear in v.
  for (TensorMap& map : rule.inputs) map.linear = false;
  return rule;
}

// x, mean, variance, scale, bias; a sixth result holds scratch space.
ConcreteRule batch_norm(Adapter& call) {
  check_count(call.theirs, 3, 5);
  const bool test =
      call.theirs.boolean("is_test", false) && !call.theirs.boolean("trainable_statistics", false);
  call.take({0, 3, 4, 1, 2});
  move_channels(call);
  set(call, "training", !test && !call.theirs.boolean("use_global_stats", false));
  ConcreteRule rule = call.run();
  add_whole(rule, {1});
  return rule;
}

ConcreteRule channels_second(Adapter& call) {
  move_channels(call);
  return call.run();
}

// "paddings" may list both sides of each dim; only equal sides have a row.
ConcreteRule convolution(Adapter& call) {
  check_count(call.theirs, 2, 3);
  move_channels(call);
  const Ints padding = call.list("paddings");
  const std::size_t count = call.ndim(1) > 2 ? call.ndim(1) - 2 : 0;
  if (is_text(call.theirs, "padding_algorithm", "VALID")) set(call, "padding", Ints(count, 0));
  if (count > 0 && padding.size() == 2 * count) {
    Ints sides;
    for (std::size_t d = 0; d < count; ++d) {
      if (padding[2 * d] != padding[2 * d + 1]) {
        throw UsageError(Message("HP-S005", call.theirs.op +
                                                ": padding differs on both sides of "
                                                "spatial dim " +
                                                std::to_string(d))
                             .fact("paddings", hyper_parallel::to_string(padding))
                             .hint("pad first, then convolve without padding"));
      }
      sides.push_back(padding[2 * d]);
    }
    set(call, "padding", std::move(sides));
  }
  return call.run();
}

// Indices first.
ConcreteRule embedding(Adapter& call) {
  check_count(call.theirs, 2, 2);
  call.take({1, 0});
  return call.run();
}

// The target's shape is an attribute; its layout, if it is given, is one to follow.
ConcreteRule expand_as(Adapter& call) {
  check_count(call.theirs, 1, 2);
  const bool target = call.theirs.inputs.size() > 1 && call.theirs.inputs[1].present;
  if (!call.theirs.has("target_shape")) {
    if (!target) check_count(call.theirs, 2, 2);
    set(call, "size", call.sizes(1));
  }
  call.take({0});
  ConcreteRule rule = call.run();
  if (target && call.sizes(1) == rule.outputs[0].sizes) rule.inputs[1].dims = rule.outputs[0].dims;
  return rule;
}

// scale and bias are flat over the normalised dims; the statistics have no dims for these.
ConcreteRule layer_norm(Adapter& call) {
  check_count(call.theirs, 1, 3);
  const Shape& sizes = call.sizes(0);
  const std::size_t begin = dim_of(call.theirs, "begin_norm_axis", 1, sizes.size());
  const Shape row(sizes.begin() + static_cast<std::ptrdiff_t>(begin), sizes.end());
  std::vector<int> flat(row.size());
  std::iota(flat.begin(), flat.end(), 0);
  for (std::size_t i = 1; i < call.theirs.inputs.size(); ++i) {
    if (!call.theirs.inputs[i].present) continue;
    check_ndim(call.theirs, i, 1);
    if (call.sizes(i)[0] != product(row)) {
      throw_sizes(call.theirs, i, 0, call.sizes(i)[0], product(row), "the normalised dims");
    }
    call.dims(i, row, {flat});
  }
  DimMap lead;
  for (std::size_t d = 0; d < begin; ++d) lead.push_back({static_cast<int>(d)});
  call.result(1, lead);
  call.result(2, std::move(lead));
  set(call, "normalized_shape", row);
  return call.run();
}

// trans_x, trans_y: the last two dims of an operand stand the other way round.
ConcreteRule matmul(Adapter& call) {
  check_count(call.theirs, 2, 2);
  const char* const names[] = {"trans_x", "trans_y"};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t n = call.ndim(i);
    if (!call.theirs.boolean(names[i], false) || n < 2) continue;
    Shape sizes = call.sizes(i);
    std::swap(sizes[n - 1], sizes[n - 2]);
    std::vector<int> places(n);
    std::iota(places.begin(), places.end(), 0);
    std::swap(places[n - 1], places[n - 2]);
    call.dims(i, std::move(sizes), permutation(std::move(places)));
  }
  return call.run();
}

// asvector: over all dims. Sums of absolute values, and counts of what is not zero, add up over
// ranks as counts do: P(sum). (A row of torch may not depend on a float: plans are kept without.)
ConcreteRule p_norm(Adapter& call) {
  if (call.theirs.boolean("asvector", false)) erase(call, "dim");
  if (is_number(call.theirs, "porder", 0) || is_number(call.theirs, "porder", 1)) {
    call.ours.op = "aten::count_nonzero.dim_IntList";
  }
  return call.run();
}

// Pairs from the first dim on; ours count from the last.
ConcreteRule pad(Adapter& call) {
  const Ints pairs = call.list("paddings");
  Ints ours;
  for (std::size_t i = pairs.size() / 2; i-- > 0;) {
    ours.push_back(pairs[2 * i]);
    ours.push_back(pairs[2 * i + 1]);
  }
  if (pairs.size() % 2 == 0) set(call, "pad", std::move(ours));
  return call.run();
}

// flatten: over the flattened tensor.
ConcreteRule pick(Adapter& call) {
  if (call.theirs.boolean("flatten", false)) erase(call, "dim");
  return call.run();
}

// reduce: what is written replaces, or is added.
ConcreteRule put_along_axis(Adapter& call) {
  if (is_text(call.theirs, "reduce", "add")) call.ours.op = "aten::scatter_add";
  return call.run();
}

// 0 keeps the dim of the operand.
ConcreteRule reshape(Adapter& call) {
  check_count(call.theirs, 1, 1);
  Shape shape = call.list("shape");
  for (std::size_t d = 0; d < std::min(shape.size(), call.ndim(0)); ++d) {
    if (shape[d] == 0) shape[d] = call.sizes(0)[d];
  }
  set(call, "shape", std::move(shape));
  return call.run();
}

// Over the last dim; the statistics have no dim for it.
ConcreteRule rms_norm(Adapter& call) {
  check_count(call.theirs, 1, 2);
  const std::size_t n = call.ndim(0);
  if (n == 0) check_ndim(call.theirs, 0, 1);
  DimMap lead;
  for (std::size_t d = 0; d + 1 < n; ++d) lead.push_back({static_cast<int>(d)});
  call.result(1, std::move(lead));
  set(call, "normalized_shape", Shape{call.sizes(0).back()});
  return call.run();
}

// flatten: along the flattened tensor. exclusive, reverse: the handler of a split dim scans
// forwards and counts the element itself, so the dim must be whole.
ConcreteRule scan(Adapter& call) {
  check_count(call.theirs, 1, 1);
  const bool flatten = call.theirs.boolean("flatten", false);
  const bool plain =
      !call.theirs.boolean("exclusive", false) && !call.theirs.boolean("reverse", false);
  const std::size_t ndim = call.ndim(0);
  if (flatten) set(call, "dim", std::int64_t{0});
  ConcreteRule rule = call.run();
  const std::size_t dim = flatten ? 0 : dim_of(call.theirs, "axis", -1, ndim);
  for (std::size_t d = 0; d < ndim; ++d) {
    for (int f : rule.inputs[0].dims[d]) {
      if (flatten || (d == dim && !plain)) block(rule, f);
    }
  }
  if (flatten) rule.outputs[0] = whole({product(call.sizes(0))});
  return rule;
}

// Rows of x that index names are replaced by those of updates, or by their sum: either way rows are
// written along dim 0.
ConcreteRule scatter(Adapter& call) {
  set(call, "dim", std::int64_t{0});
  return call.run();
}

// Missing leading repeats are 1.
ConcreteRule tile(Adapter& call) {
  check_count(call.theirs, 1, 1);
  const Ints given = call.list("repeat_times");
  Ints times(call.ndim(0) - std::min(call.ndim(0), given.size()), 1);
  times.insert(times.end(), given.begin(), given.end());
  set(call, "repeats", std::move(times));
  return call.run();
}

// Several new dims, put in one after the other.
ConcreteRule unsqueeze(Adapter& call) {
  check_count(call.theirs, 1, 1);
  Shape shape = call.sizes(0);
  for (std::int64_t axis : call.list("axis")) {
    const std::size_t place = check_dim(call.theirs, axis, shape.size() + 1);
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(place), 1);
  }
  set(call, "shape", std::move(shape));
  return call.run();
}

}  // namespace hyper_parallel::rules::named
