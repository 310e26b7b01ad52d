// Internal: what the builders of the op families share.
#pragma once

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

/// A rule whose operands all have whole dims so far, and no results.
ConcreteRule start(const Call& call);

int add_factor(ConcreteRule& rule, std::string name, std::int64_t size,
               FactorKind kind = FactorKind::pass);

/// A tensor of these sizes with whole dims.
TensorMap whole(Shape sizes);

/// A tensor of the same sizes and dims, no operand.
TensorMap like(const TensorMap& map);

/// A rule of one operand that only moves its values; `view`: the result is a view of it.
/// Throws UsageError HP-S001: more operands.
ConcreteRule start_moving(const Call& call, bool view);

/// Give each dim of operand `input` its own factor (none for size 1) and return them, -1 for none.
std::vector<int> spread(ConcreteRule& rule, std::size_t input);

/// Put `factor` on a dim, unless it is -1.
void put(TensorMap& map, std::size_t dim, int factor);

/// Let `factor` stand for all factors of a dim together, see TensorMap::joint.
void put_joint(TensorMap& map, std::size_t dim, int factor);

/// Make a factor of any kind blocked. -1 is ignored.
void block(ConcreteRule& rule, int factor);

/// Make dim `d` whole, with its factor of `factors` (from `spread`), and so in result `out`.
void keep_whole(ConcreteRule& rule, TensorMap& out, const std::vector<int>& factors, int d);

bool has_word(Words words, std::string_view word);

/// Attribute `name` as a dim of a tensor of `ndim` dims (0 for one of 0 dims).
/// Throws UsageError HP-S004: out of range.
int dim_of(const Call& call, std::string_view name, std::int64_t otherwise, int ndim);
int check_dim(const Call& call, std::int64_t dim, int ndim);

/// Attribute `name` as dims, sorted, each once; all dims if it is missing or empty.
std::vector<int> dims_of(const Call& call, std::string_view name, int ndim);

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
