#include "hyper_parallel/rules/build/make.h"

#include <algorithm>

#include "hyper_parallel/core/text.h"

namespace hyper_parallel::rules {

ConcreteRule start(const Call& call) {
  ConcreteRule rule;
  rule.inputs.reserve(call.inputs.size());
  for (const Operand& o : call.inputs) {
    rule.inputs.push_back(whole(o.meta.sizes));
    rule.inputs.back().present = o.present;
  }
  return rule;
}

int add_factor(ConcreteRule& rule, std::string name, std::int64_t size, FactorKind kind) {
  Factor f;
  f.name = std::move(name);
  f.size = size;
  f.kind = kind;
  rule.factors.push_back(std::move(f));
  return static_cast<int>(rule.factors.size()) - 1;
}

int add_factor(ConcreteRule& rule, std::string name, std::int64_t size,
               std::initializer_list<Place> places, FactorKind kind) {
  if (size == 1) return kNoFactor;
  const int factor = add_factor(rule, std::move(name), size, kind);
  for (const Place& p : places) put(p.map, p.dim, factor);
  return factor;
}

Factor& factor_of(ConcreteRule& rule, int factor) { return rule.factors[at(factor)]; }

void run_by(ConcreteRule& rule, int factor, std::string_view handler) {
  if (factor != kNoFactor) factor_of(rule, factor).handler = handler;
}

void sum_over(ConcreteRule& rule, int factor, ReduceOp op) {
  if (factor == kNoFactor) return;
  factor_of(rule, factor).kind = FactorKind::reduce;
  factor_of(rule, factor).reduce = op;
}

void fill(ConcreteRule& rule, int factor) {
  if (factor != kNoFactor) factor_of(rule, factor).nonempty = true;
}

void fill_all(ConcreteRule& rule) {
  for (Factor& factor : rule.factors) factor.nonempty = true;
}

void rename(ConcreteRule& rule, int factor, std::string name) {
  if (factor != kNoFactor) factor_of(rule, factor).name = std::move(name);
}

void add_dim(TensorMap& map, std::int64_t size, int factor) {
  map.sizes.push_back(size);
  map.dims.emplace_back();
  put(map, map.dims.size() - 1, factor);
}

void insert_dim(TensorMap& map, std::size_t dim, std::int64_t size) {
  const auto place = static_cast<std::ptrdiff_t>(dim);
  map.sizes.insert(map.sizes.begin() + place, size);
  map.dims.insert(map.dims.begin() + place, std::vector<int>{});
}

void drop_dim(TensorMap& map, std::size_t dim) {
  const auto place = static_cast<std::ptrdiff_t>(dim);
  map.sizes.erase(map.sizes.begin() + place);
  map.dims.erase(map.dims.begin() + place);
}

void set_whole(TensorMap& map, std::size_t dim, std::int64_t size) {
  map.sizes[dim] = size;
  map.dims[dim].clear();
}

TensorMap whole(Shape sizes) {
  TensorMap map;
  map.dims.resize(sizes.size());
  map.sizes = std::move(sizes);
  return map;
}

TensorMap like(const TensorMap& map) {
  TensorMap out = whole(map.sizes);
  out.dims = map.dims;
  out.joint = map.joint;
  return out;
}

ConcreteRule start_moving(const Call& call, bool view) {
  check_count(call, 1, 1);
  ConcreteRule rule = start(call);
  rule.inputs[0].linear = true;
  rule.partial = PartialRule::any;
  rule.aliases = view;
  return rule;
}

std::vector<int> spread(ConcreteRule& rule, std::size_t input) {
  std::vector<int> out;
  const Shape sizes = rule.inputs[input].sizes;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    out.push_back(sizes[d] == 1 ? kNoFactor : add_factor(rule, "d" + std::to_string(d), sizes[d]));
    put(rule.inputs[input], d, out.back());
  }
  return out;
}

void spread_but(ConcreteRule& rule, std::size_t input, std::size_t dim) {
  TensorMap& map = rule.inputs[input];
  for (std::size_t d = 0; d < map.sizes.size(); ++d) {
    if (d != dim) add_factor(rule, "d" + std::to_string(d), map.sizes[d], {{map, d}});
  }
}

void put(TensorMap& map, std::size_t dim, int factor) {
  if (factor != kNoFactor) map.dims[dim].push_back(factor);
}

void put_joint(TensorMap& map, std::size_t dim, int factor) {
  map.joint.resize(map.dims.size(), kNoFactor);
  map.joint[dim] = factor;
}

void block(ConcreteRule& rule, int factor) {
  if (factor != kNoFactor) factor_of(rule, factor).kind = FactorKind::blocked;
}

void block_all(ConcreteRule& rule) {
  for (Factor& factor : rule.factors) factor.kind = FactorKind::blocked;
}

void keep_whole(ConcreteRule& rule, TensorMap& out, const std::vector<int>& factors,
                std::size_t d) {
  block(rule, factors[d]);
  out.dims[d].clear();
}

bool has_word(Words words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::size_t number_of(std::string_view word) {
  return static_cast<std::size_t>(word.front() - '0');
}

std::size_t check_dim(const Call& call, std::int64_t dim, std::size_t ndim) {
  const auto range = static_cast<std::int64_t>(std::max<std::size_t>(ndim, 1));
  if (dim < -range || dim >= range) {
    throw UsageError(Message("HP-S004", call.op + ": dim " + std::to_string(dim) +
                                            " is out of range for a tensor of " +
                                            std::to_string(ndim) + " dims"));
  }
  return static_cast<std::size_t>(dim < 0 ? dim + range : dim);
}

std::size_t dim_of(const Call& call, std::string_view name, std::int64_t otherwise,
                   std::size_t ndim) {
  return check_dim(call, call.integer(name, otherwise), ndim);
}

std::vector<std::size_t> dims_of(const Call& call, std::string_view name, std::size_t ndim) {
  std::vector<std::size_t> out;
  for (std::int64_t dim : call.integers(name)) out.push_back(check_dim(call, dim, ndim));
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) {
    throw UsageError(Message("HP-S004", call.op + ": a dim is listed twice")
                         .fact(name, hyper_parallel::to_string(call.integers(name))));
  }
  if (out.empty()) {
    for (std::size_t d = 0; d < ndim; ++d) out.push_back(d);
  }
  if (ndim == 0) out.clear();
  return out;
}

void check_count(const Call& call, std::size_t least, std::size_t most) {
  if (call.inputs.size() >= least && call.inputs.size() <= most) return;
  std::string wanted = std::to_string(least);
  if (most != least) wanted += " to " + std::to_string(most);
  throw UsageError(Message("HP-S001", call.op + ": wrong number of operands")
                       .fact("needed", wanted)
                       .fact("given", std::to_string(call.inputs.size())));
}

void check_ndim(const Call& call, std::size_t input, std::size_t ndim) {
  const Shape& sizes = call.inputs[input].meta.sizes;
  if (sizes.size() == ndim) return;
  throw UsageError(Message("HP-S003", operand_text(call, input) + " has " +
                                          std::to_string(sizes.size()) + " dims, not " +
                                          std::to_string(ndim))
                       .fact("sizes", hyper_parallel::to_string(sizes)));
}

void throw_sizes(const Call& call, std::size_t input, std::size_t dim, std::int64_t size,
                 std::int64_t wanted, std::string_view what) {
  throw UsageError(Message("HP-S002", operand_text(call, input) + ": dim " + std::to_string(dim) +
                                          " has size " + std::to_string(size) + ", " +
                                          std::string(what) + " has " + std::to_string(wanted))
                       .fact("sizes", hyper_parallel::to_string(call.inputs[input].meta.sizes)));
}

Shape broadcast_shape(const Call& call, std::span<const std::size_t> inputs) {
  std::size_t ndim = 0;
  for (std::size_t i : inputs) {
    if (call.inputs[i].present) ndim = std::max(ndim, call.inputs[i].meta.sizes.size());
  }
  Shape out(ndim, 1);
  for (std::size_t i : inputs) {
    if (!call.inputs[i].present) continue;
    const Shape& sizes = call.inputs[i].meta.sizes;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      std::int64_t& o = out[ndim - sizes.size() + d];
      if (sizes[d] == 1 || sizes[d] == o) continue;
      if (o != 1) throw_sizes(call, i, d, sizes[d], o, "the result");
      o = sizes[d];
    }
  }
  return out;
}

bool to_integral(const Call& call) {
  const auto it = call.attrs.find("dtype");
  if (it == call.attrs.end()) return false;
  if (const auto* name = std::get_if<std::string>(&it->second)) {
    return is_integral(parse_dtype(*name));
  }
  const auto* code = std::get_if<std::int64_t>(&it->second);
  if (code == nullptr) return false;
  // c10::ScalarType: 0-4 are u8 i8 i16 i32 i64, 11 bool, 27-29 u16 u32 u64. Source: torch 2.13.
  return (*code >= 0 && *code <= 4) || *code == 11 || (*code >= 27 && *code <= 29);
}

bool is_number(const Call& call, std::string_view name, double value) {
  const auto it = call.attrs.find(name);
  if (it == call.attrs.end()) return false;
  if (const auto* d = std::get_if<double>(&it->second)) return *d == value;
  if (const auto* i = std::get_if<std::int64_t>(&it->second)) {
    return static_cast<double>(*i) == value;
  }
  if (const auto* b = std::get_if<bool>(&it->second)) return (*b ? 1.0 : 0.0) == value;
  return false;
}

bool is_text(const Call& call, std::string_view name, std::string_view value) {
  const auto it = call.attrs.find(name);
  const auto* text = it == call.attrs.end() ? nullptr : std::get_if<std::string>(&it->second);
  return text != nullptr && *text == value;
}

}  // namespace hyper_parallel::rules
