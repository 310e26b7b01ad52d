// Joining and cutting along a dim.
//
// The long tensor's dim is a row of parts; one factor, "p", cuts every part on its own. So a fused
// q|k|v weight in a segmented layout splits into parts that are S, and S parts join to a segmented
// whole.

#include <algorithm>
#include <numeric>

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

// torch's old rule: cat skips tensors of shape [0], whatever the others look like.
bool skipped(const Operand& o) { return o.meta.sizes.size() == 1 && o.meta.sizes[0] == 0; }

std::int64_t sum(const Shape& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

void set_term(TensorMap& map, std::size_t term) {
  map.linear = true;
  map.term = static_cast<int>(term);
}

// A factor for parts of these sizes; none where a part is too short to be split.
int add_parts(ConcreteRule& rule, const Shape& parts, std::string name = "p") {
  if (parts.empty() || *std::min_element(parts.begin(), parts.end()) <= 1) return kNoFactor;
  const int p = add_factor(rule, std::move(name), *std::min_element(parts.begin(), parts.end()));
  rule.factors.back().plain = true;
  return p;
}

void set_parts(TensorMap& map, std::size_t dim, int factor, const Shape& parts) {
  if (factor == kNoFactor) return;
  put(map, dim, factor);
  map.segments.resize(map.sizes.size());
  if (parts.size() > 1) map.segments[dim] = parts;
}

ConcreteRule build_cat(const Call& call, Words) {
  if (call.inputs.empty()) check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  rule.partial = PartialRule::any;
  std::size_t first = 0;
  while (first + 1 < call.inputs.size() && skipped(call.inputs[first])) ++first;
  const Shape& shape = call.inputs[first].meta.sizes;
  if (shape.empty()) check_ndim(call, first, 1);
  const auto dim = dim_of(call, "dim", 0, shape.size());
  TensorMap out = whole(shape);
  Shape parts;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Shape& sizes = call.inputs[i].meta.sizes;
    if (i != first && skipped(call.inputs[i])) continue;
    check_ndim(call, i, shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (d != dim && sizes[d] != shape[d]) throw_sizes(call, i, d, sizes[d], shape[d], "another");
    }
    parts.push_back(shape.empty() ? 1 : sizes[dim]);
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d != dim) add_factor(rule, "d" + std::to_string(d), shape[d], {{out, d}});
  }
  const int p = add_parts(rule, parts);
  out.sizes[dim] = sum(parts);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    TensorMap& map = rule.inputs[i];
    if (i != first && skipped(call.inputs[i])) {
      map.shape_only = true;
      continue;
    }
    map.dims = out.dims;
    put(map, dim, p);
    set_term(map, i);
  }
  set_parts(out, dim, p, parts);
  rule.outputs.push_back(std::move(out));
  return rule;
}

// block_diag: rows and columns of the result are rows of parts. A vector is one row, a number one
// row and one column.
ConcreteRule build_block_diag(const Call& call, Words) {
  if (call.inputs.empty()) check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  rule.partial = PartialRule::any;
  Shape rows;
  Shape columns;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Shape& sizes = call.inputs[i].meta.sizes;
    if (sizes.size() > 2) check_ndim(call, i, 2);
    rows.push_back(sizes.size() == 2 ? sizes[0] : 1);
    columns.push_back(sizes.empty() ? 1 : sizes.back());
  }
  const int r = add_parts(rule, rows, "r");
  const int c = add_parts(rule, columns, "c");
  TensorMap out = whole({sum(rows), sum(columns)});
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    TensorMap& map = rule.inputs[i];
    if (map.sizes.size() == 2) put(map, 0, r);
    // Of vectors without elements torch's backward loses count.
    if (map.sizes.size() == 1) fill(rule, c);
    if (!map.sizes.empty()) put(map, map.sizes.size() - 1, c);
    set_term(map, i);
  }
  set_parts(out, 0, r, rows);
  set_parts(out, 1, c, columns);
  rule.outputs.push_back(std::move(out));
  return rule;
}

// _chunk_cat(tensors, dim, num_chunks): from `dim` on each tensor becomes num_chunks rows, padded
// with zeros; the rows are joined. Dims before pass.
ConcreteRule build_chunk_cat(const Call& call, Words) {
  if (call.inputs.empty()) check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  rule.partial = PartialRule::any;
  const Shape& first = call.inputs[0].meta.sizes;
  if (first.empty()) check_ndim(call, 0, 1);
  const auto dim = dim_of(call, "dim", 0, first.size());
  const std::int64_t chunks = call.integer("num_chunks", 1);
  if (chunks < 1) {
    throw UsageError(Message("HP-S005", call.op + ": num_chunks must be at least 1")
                         .fact("num_chunks", std::to_string(chunks)));
  }
  TensorMap out;
  for (std::size_t d = 0; d < dim; ++d) {
    add_dim(out, first[d]);
    fill(rule, add_factor(rule, "d" + std::to_string(d), first[d], {{out, d}}));
  }
  std::int64_t width = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Shape& sizes = call.inputs[i].meta.sizes;
    if (sizes.size() <= dim) check_ndim(call, i, first.size());
    for (std::size_t d = 0; d < dim; ++d) {
      if (sizes[d] != first[d]) throw_sizes(call, i, d, sizes[d], first[d], "the first operand");
      rule.inputs[i].dims[d] = out.dims[d];
    }
    const std::int64_t length = (sizes[dim] + chunks - 1) / chunks;
    width += length * product(std::span(sizes).subspan(dim + 1));
    set_term(rule.inputs[i], i);
  }
  out.sizes.insert(out.sizes.end(), {chunks, width});
  out.dims.resize(out.sizes.size());
  rule.outputs.push_back(std::move(out));
  return rule;
}

ConcreteRule build_stack(const Call& call, Words) {
  if (call.inputs.empty()) check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  rule.partial = PartialRule::any;
  spread(rule, 0);
  const Shape& shape = call.inputs[0].meta.sizes;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    check_ndim(call, i, shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::int64_t size = call.inputs[i].meta.sizes[d];
      if (size != shape[d]) throw_sizes(call, i, d, size, shape[d], "the first operand");
    }
    rule.inputs[i].dims = rule.inputs[0].dims;
    set_term(rule.inputs[i], i);
  }
  TensorMap out = whole(shape);
  out.dims = rule.inputs[0].dims;
  const std::size_t dim = dim_of(call, "dim", 0, shape.size() + 1);
  insert_dim(out, dim, static_cast<std::int64_t>(call.inputs.size()));
  rule.outputs.push_back(std::move(out));
  return rule;
}

// The sizes of the pieces of a dim of length `size`.
Shape pieces(const Call& call, std::string_view how, std::int64_t size) {
  if (how == "sizes") {
    Shape out = call.integers(call.has("split_sizes") ? "split_sizes" : "split_size");
    if (sum(out) == size) return out;
    throw UsageError(Message("HP-S009", call.op + ": the pieces sum to " +
                                            std::to_string(sum(out)) + ", the dim has size " +
                                            std::to_string(size)));
  }
  std::int64_t step = call.integer("split_size", 1);
  if (how == "chunks") {
    const std::int64_t n = std::max<std::int64_t>(call.integer("chunks", 1), 1);
    // An empty dim gives n empty chunks.
    if (size == 0) return Shape(static_cast<std::size_t>(n), 0);
    step = (size + n - 1) / n;
  }
  if (step < 0 || (step == 0 && size != 0)) {
    throw UsageError(Message("HP-S009", call.op + ": pieces of size " + std::to_string(step)));
  }
  if (size == 0) return {0};
  Shape out;
  for (std::int64_t begin = 0; begin < size; begin += step) {
    out.push_back(std::min(step, size - begin));
  }
  return out;
}

ConcreteRule start_cut(const Call& call) {
  check_count(call, 1, 1);
  if (call.inputs[0].meta.sizes.empty()) check_ndim(call, 0, 1);
  ConcreteRule rule = start(call);
  set_term(rule.inputs[0], 0);
  rule.partial = PartialRule::any;
  rule.aliases = true;
  return rule;
}

ConcreteRule build_split(const Call& call, Words words) {
  ConcreteRule rule = start_cut(call);
  const std::string_view how = words.front();
  TensorMap& self = rule.inputs[0];
  const std::size_t dim = dim_of(call, "dim", 0, self.sizes.size());
  spread_but(rule, 0, dim);
  const Shape parts = pieces(call, how, self.sizes[dim]);
  const bool equal =
      std::adjacent_find(parts.begin(), parts.end(), std::not_equal_to<>()) == parts.end();
  // The number of chunks of a local dim is sure to be right for equal parts only.
  const int p = how == "chunks" && !equal ? kNoFactor : add_parts(rule, parts);
  TensorMap out = self;
  out.linear = false;
  set_parts(self, dim, p, parts);
  put(out, dim, p);
  fill(rule, p);
  if (p != kNoFactor) {
    const int d = static_cast<int>(dim);
    if (how == "sizes") {
      const std::string name = call.has("split_sizes") ? "split_sizes" : "split_size";
      rule.rewrites.push_back({Rewrite::Kind::local_sizes, name, 0, d});
    } else if (how == "size") {
      rule.rewrites.push_back({Rewrite::Kind::local_size, "split_size", 0, d});
    }
  }
  for (std::int64_t size : parts) {
    out.sizes[dim] = size;
    rule.outputs.push_back(out);
  }
  return rule;
}

ConcreteRule build_unbind(const Call& call, Words) {
  ConcreteRule rule = start_cut(call);
  const std::vector<int> factors = spread(rule, 0);
  const std::size_t dim = dim_of(call, "dim", 0, factors.size());
  block(rule, factors[dim]);
  TensorMap out = rule.inputs[0];
  out.linear = false;
  const std::int64_t count = out.sizes[dim];
  drop_dim(out, dim);
  rule.outputs.assign(static_cast<std::size_t>(count), out);
  return rule;
}

// glu: the first half of the dim times the sigmoid of the second.
ConcreteRule build_glu(const Call& call, Words) {
  ConcreteRule rule = start_cut(call);
  rule.inputs[0].linear = rule.aliases = false;
  TensorMap& self = rule.inputs[0];
  const std::size_t dim = dim_of(call, "dim", -1, self.sizes.size());
  spread_but(rule, 0, dim);
  const std::int64_t half = self.sizes[dim] / 2;
  if (self.sizes[dim] % 2 != 0) throw_sizes(call, 0, dim, self.sizes[dim], 2 * half, "two halves");
  TensorMap out = self;
  const int p = add_parts(rule, {half, half});
  set_parts(self, dim, p, {half, half});
  out.sizes[dim] = half;
  put(out, dim, p);
  rule.outputs.push_back(std::move(out));
  return rule;
}

constexpr Group kGroups[] = {
    {"block_diag", "block_diag"},
    {"cat", "cat concat concatenate"},
    {"chunk_cat", "_chunk_cat"},
    {"stack", "stack"},
    {"split sizes", "split.sizes split_with_sizes unsafe_split_with_sizes"},
    {"split size", "split.Tensor unsafe_split.Tensor"},
    {"split chunks", "chunk unsafe_chunk"},
    {"unbind", "unbind.int"},
    {"glu", "glu"},
};

constexpr NamedBuilder kBuilders[] = {
    {"block_diag", build_block_diag}, {"cat", build_cat},
    {"chunk_cat", build_chunk_cat},   {"glu", build_glu},
    {"split", build_split},           {"stack", build_stack},
    {"unbind", build_unbind},
};

}  // namespace

Family join_family() { return {"join", {}, kGroups, kBuilders}; }

}  // namespace hyper_parallel::rules
