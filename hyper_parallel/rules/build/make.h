// Internal: what the builders of the op families share.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/rule.h"

namespace hyper_parallel::rules {

/// A C++ function that makes the rule of one call; `words` is the rest of the row's text.
using Words = std::span<const std::string_view>;
using Builder = ConcreteRule (*)(const Call& call, Words words);

struct NamedBuilder {
  std::string_view name;
  Builder build;
};

/// Several ops with one text: names without "aten::", separated by spaces.
struct Group {
  const char* spec;
  const char* ops;
};

/// One op family: one source file.
struct Family {
  std::string_view name;
  std::span<const Row> rows;
  std::span<const Group> groups;
  std::span<const NamedBuilder> builders;
};

/// All families, listed in families.cpp.
std::span<const Family> families();

// ---- Factors. A number may be kNoFactor where a dim has size 1; verbs then do nothing.

/// A rule whose operands all have whole dims so far, and no results.
ConcreteRule start(const Call& call);

int add_factor(ConcreteRule& rule, std::string name, std::int64_t size,
               FactorKind kind = FactorKind::pass);

/// A dim of a tensor of the rule.
struct Place {
  TensorMap& map;
  std::size_t dim;
};

/// A new factor on all dims that are made of it; none, kNoFactor, for size 1.
int add_factor(ConcreteRule& rule, std::string name, std::int64_t size,
               std::initializer_list<Place> places, FactorKind kind = FactorKind::pass);

Factor& factor_of(ConcreteRule& rule, int factor);

/// Where `factor` is split the op is run by `handler`.
void run_by(ConcreteRule& rule, int factor, std::string_view handler);

/// Where `factor` is split, results without it are partial.
void sum_over(ConcreteRule& rule, int factor, ReduceOp op = ReduceOp::sum);

/// No rank may hold an empty piece of `factor`.
void fill(ConcreteRule& rule, int factor);
void fill_all(ConcreteRule& rule);

void rename(ConcreteRule& rule, int factor, std::string name);

/// A tensor of these sizes with whole dims.
TensorMap whole(Shape sizes);

/// A tensor of the same sizes and dims, no operand.
TensorMap like(const TensorMap& map);

/// A rule of one operand that only moves its values; `view`: the result is a view of it.
/// Throws UsageError HP-S001: more operands.
ConcreteRule start_moving(const Call& call, bool view);

/// Give each dim of operand `input` its own factor and return them; kNoFactor for size 1.
std::vector<int> spread(ConcreteRule& rule, std::size_t input);

/// The same for all dims but `dim`, which stays whole.
void spread_but(ConcreteRule& rule, std::size_t input, std::size_t dim);

/// Put `factor` on a dim.
void put(TensorMap& map, std::size_t dim, int factor);

/// One more dim at the end, or before dim `dim`; and one less.
void add_dim(TensorMap& map, std::int64_t size, int factor = kNoFactor);
void insert_dim(TensorMap& map, std::size_t dim, std::int64_t size);
void drop_dim(TensorMap& map, std::size_t dim);

/// The dim is whole and has `size` indices.
void set_whole(TensorMap& map, std::size_t dim, std::int64_t size);

/// Let `factor` stand for all factors of a dim together, see TensorMap::joint.
void put_joint(TensorMap& map, std::size_t dim, int factor);

/// Make a factor of any kind blocked.
void block(ConcreteRule& rule, int factor);
void block_all(ConcreteRule& rule);

/// Make dim `d` whole, with its factor of `factors` (from `spread`), and so in result `out`.
void keep_whole(ConcreteRule& rule, TensorMap& out, const std::vector<int>& factors, std::size_t d);

// ---- Arguments of the call.

bool has_word(Words words, std::string_view word);

/// Attribute `name` as a dim of a tensor of `ndim` dims (0 for one of 0 dims).
/// Throws UsageError HP-S004: out of range.
std::size_t dim_of(const Call& call, std::string_view name, std::int64_t otherwise,
                   std::size_t ndim);
std::size_t check_dim(const Call& call, std::int64_t dim, std::size_t ndim);

/// Attribute `name` as dims, sorted, each once; all dims if it is missing or empty.
std::vector<std::size_t> dims_of(const Call& call, std::string_view name, std::size_t ndim);

/// The number that a word of a row begins with: `2` in "pool 2".
std::size_t number_of(std::string_view word);

/// Throws UsageError HP-S001 unless the call has `least` to `most` operands.
void check_count(const Call& call, std::size_t least, std::size_t most);

/// Throws UsageError HP-S003 unless operand `input` has `ndim` dims.
void check_ndim(const Call& call, std::size_t input, std::size_t ndim);

/// The shape that all present operands broadcast to. Throws UsageError HP-S002.
Shape broadcast_shape(const Call& call, std::span<const std::size_t> inputs);

/// HP-S002: two sizes that should be equal.
[[noreturn]] void throw_sizes(const Call& call, std::size_t input, std::size_t dim,
                              std::int64_t size, std::int64_t wanted, std::string_view what);

/// Attribute `dtype`, a torch ScalarType code or a name of core/tensor_meta.h, as integer or bool
/// type; false if it is missing.
bool to_integral(const Call& call);

/// True if attribute `name` is the number `value`.
bool is_number(const Call& call, std::string_view name, double value);

/// True if attribute `name` is the text `value`.
bool is_text(const Call& call, std::string_view name, std::string_view value);

}  // namespace hyper_parallel::rules
