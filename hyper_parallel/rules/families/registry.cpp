// From op names to rows, and from rows to the code that makes their rules.

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <unordered_map>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/own_rows.h"
#include "hyper_parallel/rules/text/notation.h"

namespace hyper_parallel::rules {
namespace {

class Registry {
 public:
  static const Registry& instance() {
    static const Registry* const registry = new Registry;
    return *registry;
  }

  const Row* find(std::string_view op) const {
    if (const Row* row = own_rows().find(op)) return row;
    const auto it = rows_.find(op);
    return it == rows_.end() ? nullptr : it->second;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, row] : rows_) out.emplace_back(name);
    std::sort(out.begin(), out.end());
    return out;
  }

  // Code of builders counts on the words that the rows of its file have.
  void check_words(std::string_view op, std::string_view spec) const {
    const auto words = words_of(spec);
    std::vector<std::string> known;
    for (const auto& [name, row] : rows_) {
      const auto others = words_of(row->spec);
      if (others == words) return;
      if (others.front() == words.front()) known.emplace_back(row->spec);
    }
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    throw UsageError(Message("HP-S046", std::string(op) + ": a rule that begins with \"" +
                                            std::string(words.front()) + "\" has other words")
                         .fact("rule", std::string(spec))
                         .fact("known", join(known, "; "))
                         .hint("one of these, or letters for each dim"));
  }

  const Compiled* compiled(const Row& row) const {
    const auto it = compiled_.find(&row);
    return it == compiled_.end() ? own_rows().compiled(row) : &it->second;
  }

  Compiled compile(const Row& row) const {
    Compiled out;
    const auto words = words_of(row.spec);
    const auto it = words.empty() ? builders_.end() : builders_.find(words.front());
    if (it == builders_.end()) {
      out.notation = parse_notation(row.spec);
    } else {
      out.build = it->second;
      out.words.assign(words.begin() + 1, words.end());
    }
    return out;
  }

 private:
  Registry() {
    for (const Family& family : families()) {
      for (const NamedBuilder& b : family.builders) builders_.emplace(b.name, b.build);
    }
    for (const Family& family : families()) {
      for (const Row& row : family.rows) add(row);
      for (const Group& group : family.groups) {
        for (std::string_view op : words_of(group.ops)) {
          names_.push_back("aten::" + std::string(op));
          grouped_.push_back({names_.back().c_str(), group.spec});
          add(grouped_.back());
        }
      }
    }
  }

  void add(const Row& row) {
    const bool fresh = rows_.emplace(row.op, &row).second;
    check_internal(fresh, "two rows for " + std::string(row.op));
    compiled_.emplace(&row, compile(row));
  }

  std::unordered_map<std::string_view, Builder> builders_;
  std::unordered_map<std::string_view, const Row*> rows_;
  std::unordered_map<const Row*, Compiled> compiled_;
  std::deque<std::string> names_;
  std::deque<Row> grouped_;
};

struct OpName {
  std::string base;      // "aten::add_"
  std::string overload;  // "Tensor", or empty

  std::string whole() const { return overload.empty() ? base : base + "." + overload; }
};

OpName split_name(std::string_view op) {
  const std::size_t dot = op.find('.');
  if (dot == std::string_view::npos) return {std::string(op), {}};
  return {std::string(op.substr(0, dot)), std::string(op.substr(dot + 1))};
}

// out= ops whose names do not tell the op that returns the same. Source: schemas of torch 2.13.
struct OutName {
  std::string_view out;
  std::string_view functional;
};
constexpr std::array kOutNames = {
    OutName{"aten::all.all_out", "aten::all"},
    OutName{"aten::all.out", "aten::all.dim"},
    OutName{"aten::any.all_out", "aten::any"},
    OutName{"aten::any.out", "aten::any.dim"},
    OutName{"aten::bernoulli.float_out", "aten::bernoulli.p"},
    OutName{"aten::max.out", "aten::max.other"},
    OutName{"aten::max.unary_out", "aten::max"},
    OutName{"aten::mean.dtype_out", "aten::mean"},
    OutName{"aten::mean.out", "aten::mean.dim"},
    OutName{"aten::min.out", "aten::min.other"},
    OutName{"aten::min.unary_out", "aten::min"},
    OutName{"aten::norm.dtype_out", "aten::norm.ScalarOpt_dim_dtype"},
    OutName{"aten::norm.out", "aten::norm.ScalarOpt_dim"},
    OutName{"aten::prod.int_out", "aten::prod.dim_int"},
    OutName{"aten::std.out", "aten::std.dim"},
    OutName{"aten::sum.IntList_out", "aten::sum.dim_IntList"},
    OutName{"aten::var.out", "aten::var.dim"},
};

bool is_out(std::string_view op) {
  const std::size_t dot = op.find('.');
  return dot != std::string_view::npos && op.substr(dot).ends_with("out");
}

// view_copy and its like return what the view is, in memory of its own.
constexpr std::string_view kCopy = "_copy";
bool is_copy_of_view(std::string_view op) { return op.substr(0, op.find('.')).ends_with(kCopy); }

// Operands at the end that an out= op writes to.
std::size_t count_out(const Call& call) {
  std::size_t n = 0;
  while (n < call.inputs.size() && call.inputs[call.inputs.size() - 1 - n].pinned) ++n;
  return n;
}

void write_first(ConcreteRule& rule, const Call& call) {
  if (rule.outputs.empty() || !rule.writes.empty()) return;
  if (rule.outputs[0].sizes != call.inputs[0].meta.sizes) {
    throw UsageError(Message("HP-S006", operand_text(call, 0) +
                                            " is written in place, but the result has "
                                            "other sizes")
                         .fact("operand", to_string(call.inputs[0].meta))
                         .fact("result", hyper_parallel::to_string(rule.outputs[0].sizes)));
  }
  rule.writes.emplace_back(0, 0);
}

ConcreteRule build(const Compiled& compiled, const Call& call) {
  if (compiled.build != nullptr) return compiled.build(call, compiled.words);
  return concretize(compiled.notation, call);
}

// -1 stands for a size that is known after the run only.
void check_sizes(const ConcreteRule& rule, const Call& call) {
  for (const TensorMap& result : rule.outputs) {
    for (std::int64_t size : result.sizes) {
      if (size >= (rule.dynamic ? -1 : 0)) continue;
      throw UsageError(Message("HP-S005", call.op + ": a result would have a negative size")
                           .fact("sizes", hyper_parallel::to_string(result.sizes)));
    }
  }
}

ConcreteRule build_out(const Compiled& compiled, const Call& call, std::size_t count) {
  Call inner = call;
  inner.inputs.resize(call.inputs.size() - count);
  inner.list_lengths.resize(std::max(inner.list_lengths.size(), count) - count);
  ConcreteRule rule = build(compiled, inner);
  if (rule.outputs.size() != count) {
    throw UsageError(Message("HP-S007", call.op + ": wrong number of out= tensors")
                         .fact("needed", std::to_string(rule.outputs.size()))
                         .fact("given", std::to_string(count)));
  }
  for (std::size_t j = 0; j < count; ++j) {
    const std::size_t i = inner.inputs.size() + j;
    if (call.inputs[i].meta.sizes != rule.outputs[j].sizes) {
      throw UsageError(
          Message("HP-S006", operand_text(call, i) + " has other sizes than the result")
              .fact("operand", to_string(call.inputs[i].meta))
              .fact("result", hyper_parallel::to_string(rule.outputs[j].sizes)));
    }
    TensorMap map = rule.outputs[j];
    map.shape_only = true;
    rule.inputs.push_back(std::move(map));
    rule.writes.emplace_back(static_cast<int>(i), static_cast<int>(j));
  }
  return rule;
}

}  // namespace

const Row* find_row(std::string_view op) {
  const Registry& registry = Registry::instance();
  if (const Row* row = registry.find(op)) return row;
  OpName name = split_name(op);
  if (is_out(op)) {
    for (const OutName& n : kOutNames) {
      if (n.out == op) return registry.find(n.functional);
    }
    // "X.dim_out" writes what "X.dim" returns, "X.out" what "X" or "X.Tensor" returns.
    name.overload.resize(name.overload.size() - 3);
    if (name.overload.ends_with("_")) name.overload.pop_back();
    if (const Row* row = registry.find(name.whole())) return row;
    if (!name.overload.empty()) return nullptr;
    name.overload = "Tensor";
    return registry.find(name.whole());
  }
  if (is_copy_of_view(op)) {
    name.base.resize(name.base.size() - kCopy.size());
    return registry.find(name.whole());
  }
  if (!name.base.ends_with("_") || name.base.ends_with("__")) return nullptr;
  name.base.pop_back();
  if (name.overload == "Scalar" || name.overload == "Tensor") {  // pow_.Scalar, pow_.Tensor
    const Row* row = registry.find(name.base + ".Tensor_" + name.overload);
    if (row != nullptr) return row;
  }
  if (const Row* row = registry.find(name.whole())) return row;
  return name.overload.empty() ? registry.find(name.base + ".int") : nullptr;  // transpose_
}

void register_row(std::string_view op, std::string_view spec) {
  auto entry = std::make_unique<OwnRows::Entry>();
  entry->op = op;
  entry->spec = spec;
  entry->row = {entry->op.c_str(), entry->spec.c_str()};
  entry->compiled = Registry::instance().compile(entry->row);
  if (entry->compiled.build != nullptr) Registry::instance().check_words(op, spec);
  own_rows().add(std::move(entry));
}

bool unregister_row(std::string_view op) { return own_rows().remove(op); }

std::vector<std::string> op_names() { return Registry::instance().names(); }

std::vector<std::string> own_op_names() { return own_rows().names(); }

ConcreteRule concretize(const Row& row, const Call& call) {
  const Registry& registry = Registry::instance();
  const Compiled* known = registry.compiled(row);
  const Compiled made = known == nullptr ? registry.compile(row) : Compiled{};
  const Compiled& compiled = known == nullptr ? made : *known;
  if (is_out(call.op) && !call.inputs.empty()) {
    if (const std::size_t n = count_out(call); n > 0) return build_out(compiled, call, n);
  }
  ConcreteRule rule = build(compiled, call);
  check_sizes(rule, call);
  if (is_copy_of_view(call.op)) rule.aliases = false;
  const bool in_place = !call.inputs.empty() && call.inputs[0].pinned && rule.parts.empty();
  if (in_place && !rule.aliases) write_first(rule, call);
  return rule;
}

}  // namespace hyper_parallel::rules
