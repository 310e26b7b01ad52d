// Inference by name.

#include "hyper_parallel/rules/query/infer.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/engine/state.h"
#include "hyper_parallel/rules/query/paddle.h"

namespace hyper_parallel::rules {
namespace {

// The row of a torch name without its overload, if it is the only one.
std::string with_overload(const std::string& op) {
  std::string found;
  for (const std::string& name : op_names()) {
    if (!name.starts_with(op) || name.size() == op.size() || name[op.size()] != '.') continue;
    if (!found.empty()) return {};
    found = name;
  }
  return found;
}

// The row that serves a name that is no alias; empty if there is none.
std::string row_name(std::string_view op) {
  if (find_row(op) != nullptr) return std::string(op);
  std::string function = std::string(kFunctions) + std::string(op);
  if (find_row(function) != nullptr) return function;
  if (find_alias(op) != nullptr) return {};
  std::string full(op);
  if (op.find("::") == std::string_view::npos) full = "aten::" + full;
  if (find_row(full) != nullptr) return full;
  return with_overload(full);
}

[[noreturn]] void throw_unknown(const std::string& op) {
  std::vector<std::string> known = known_names();
  std::vector<std::string> near = near_names(op, known);
  if (op.find("::") == std::string::npos) {
    for (const std::string& name : near_names("aten::" + op, known)) {
      if (std::find(near.begin(), near.end(), name) == near.end()) near.push_back(name);
    }
    if (near.size() > 3) near.resize(3);
  }
  Message message("HP-S040", "no rule for an op named \"" + op + "\"");
  if (!near.empty()) message.fact("near", join(near, ", "));
  throw UsageError(message.hint("python -m hyper_parallel rules lists all names"));
}

const Mesh* mesh_of(const Call& call) {
  for (const Operand& o : call.inputs) {
    if (o.present && o.layout != nullptr) return o.layout->mesh();
  }
  throw UsageError(Message("HP-S041", call.op + ": no operand has a layout")
                       .hint("give one operand a layout; the others are then whole on its mesh"));
}

}  // namespace

bool is_known(std::string_view op) { return find_alias(op) != nullptr || !row_name(op).empty(); }

std::vector<std::string> known_names() {
  std::vector<std::string> out = op_names();
  for (const Alias& alias : aliases()) out.emplace_back(alias.name);
  for (std::string name : own_op_names()) {
    if (name.starts_with(kFunctions)) name.erase(0, kFunctions.size());
    out.push_back(std::move(name));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<RowInfo> rows() {
  std::map<std::string, std::vector<std::string>, std::less<>> names;
  for (const Alias& alias : aliases()) names[std::string(alias.op)].emplace_back(alias.name);
  std::vector<RowInfo> out;
  for (const Family& family : families()) {
    const std::string name(family.name);
    for (const Row& row : family.rows) out.push_back({name, row.op, row.spec, names[row.op]});
    for (const Group& group : family.groups) {
      std::string_view ops = group.ops;
      while (!ops.empty()) {
        const std::size_t end = std::min(ops.find(' '), ops.size());
        const std::string op = "aten::" + std::string(ops.substr(0, end));
        out.push_back({name, op, group.spec, names[op]});
        ops.remove_prefix(std::min(end + 1, ops.size()));
      }
    }
  }
  std::sort(out.begin(), out.end(), [](const RowInfo& a, const RowInfo& b) {
    return std::tie(a.family, a.op) < std::tie(b.family, b.op);
  });
  return out;
}

Query query(Call call) {
  if (call.list_lengths.empty()) call.list_lengths.assign(call.inputs.size(), -1);
  const std::string row = row_name(call.op);
  const Alias* alias = row.empty() ? find_alias(call.op) : nullptr;
  if (row.empty() && alias == nullptr) throw_unknown(call.op);
  if (call.mesh == nullptr) call.mesh = mesh_of(call);
  Query out;
  if (alias != nullptr) {
    out.row = alias->op;
    out.rule = concretize(*alias, call);
  } else {
    out.row = row;
    call.op = row;
    out.rule = concretize(*find_row(row), call);
  }
  out.spec = find_row(out.row)->spec;
  out.call = std::move(call);
  return out;
}

Query part_query(const Query& query, std::size_t part) {
  const Part& made = query.rule.parts.at(part);
  return {part_call(query.call, made), query.row, query.spec, made.rule};
}

Inference infer_forward(const Query& query, std::span<const Layout* const> wanted,
                        const CostModel& model) {
  return infer_forward(query.rule, query.call, wanted, model);
}

Inference infer_backward(const Query& query, std::span<const Layout* const> outputs) {
  return infer_backward(query.rule, query.call, outputs);
}

}  // namespace hyper_parallel::rules
