// From a call in another library's words to ours, and from our rule back.

#include <algorithm>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/query/paddle.h"

namespace hyper_parallel::rules {
namespace {

// Calls `visit(word)` for words separated by spaces.
template <class Visit>
void for_words(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

const DimMap* find_dims(const std::vector<std::pair<std::size_t, DimMap>>& maps, std::size_t i) {
  for (const auto& [index, map] : maps) {
    if (index == i) return &map;
  }
  return nullptr;
}

// Their layout on our dims. Null where one of their dims is several of ours.
const Layout* seen(const Layout* layout, const DimMap& map) {
  if (layout == nullptr) return nullptr;
  std::vector<Split> splits = layout->splits();
  for (Split& s : splits) {
    if (at(s.dim) >= map.size()) return nullptr;
    const std::vector<int>& ours = map[at(s.dim)];
    if (ours.size() != 1) return nullptr;
    s.dim = ours.front();
  }
  std::sort(splits.begin(), splits.end(),
            [](const Split& a, const Split& b) { return a.dim < b.dim; });
  std::vector<std::optional<ReduceOp>> partials;
  for (const Placement& p : layout->placements()) {
    partials.push_back(p.is_partial() ? std::optional(p.op()) : std::nullopt);
  }
  return Layout::get(layout->mesh(), std::move(splits), partials);
}

}  // namespace

Adapter::Adapter(const Alias& alias, const Call& call) : ours(call), theirs(call) {
  ours.op = alias.op;
  for_words(alias.attrs, [&](std::string_view word) {
    const std::size_t equals = word.find('=');
    const auto it = ours.attrs.find(word.substr(equals + 1));
    if (it == ours.attrs.end()) return;
    Attr value = it->second;
    ours.attrs.erase(it);
    ours.attrs.insert_or_assign(std::string(word.substr(0, equals)), std::move(value));
  });
  for (std::size_t i = 0; i < call.inputs.size(); ++i) order_.push_back(static_cast<int>(i));
}

void Adapter::take(std::vector<int> order) {
  order_ = std::move(order);
  ours.inputs.clear();
  ours.list_lengths.assign(order_.size(), -1);
  for (int i : order_) {
    if (i >= 0 && at(i) < theirs.inputs.size()) {
      ours.inputs.push_back(theirs.inputs[at(i)]);
      continue;
    }
    ours.inputs.emplace_back();
    ours.inputs.back().present = false;
  }
}

void Adapter::dims(std::size_t i, Shape sizes, DimMap map) {
  Operand& operand = ours.inputs[i];
  operand.meta.sizes = std::move(sizes);
  operand.layout = seen(operand.layout, map);
  operand_dims_.emplace_back(i, std::move(map));
}

void Adapter::result(std::size_t i, DimMap map) { result_dims_.emplace_back(i, std::move(map)); }

TensorMap Adapter::back(const TensorMap& map, const DimMap* dims, Shape sizes) const {
  if (dims == nullptr) return map;
  TensorMap out = map;
  const bool known = !sizes.empty();
  out.dims.assign(dims->size(), {});
  out.sizes = known ? std::move(sizes) : Shape(dims->size(), 1);
  out.segments.clear();
  out.joint.clear();
  for (std::size_t d = 0; d < dims->size(); ++d) {
    for (int o : (*dims)[d]) {
      const auto our = at(o);
      out.dims[d].insert(out.dims[d].end(), map.dims[our].begin(), map.dims[our].end());
      if (!known) out.sizes[d] *= map.sizes[our];
      if (!map.joint.empty() && map.joint[our] != kNoFactor) put_joint(out, d, map.joint[our]);
      if (map.segments.empty() || map.segments[our].empty()) continue;
      out.segments.resize(dims->size());
      out.segments[d] = map.segments[our];
    }
  }
  return out;
}

ConcreteRule Adapter::run() {
  const Row* row = find_row(ours.op);
  check_internal(row != nullptr, theirs.op + ": no row " + ours.op);
  ConcreteRule made = concretize(*row, ours);
  ConcreteRule rule = made;
  rule.inputs = start(theirs).inputs;
  for (TensorMap& map : rule.inputs) map.shape_only = true;  // those that we do not take
  for (std::size_t i = 0; i < order_.size() && i < made.inputs.size(); ++i) {
    if (order_[i] < 0 || at(order_[i]) >= rule.inputs.size()) continue;
    TensorMap& map = rule.inputs[at(order_[i])];
    map = back(made.inputs[i], find_dims(operand_dims_, i), map.sizes);
  }
  if (results_.empty()) {
    for (std::size_t i = 0; i < made.outputs.size(); ++i) results_.push_back(static_cast<int>(i));
  }
  rule.outputs.clear();
  for (std::size_t i = 0; i < results_.size(); ++i) {
    TensorMap map = whole({});
    map.present = false;
    if (results_[i] >= 0) map = made.outputs[at(results_[i])];
    rule.outputs.push_back(back(map, find_dims(result_dims_, i), {}));
  }
  rule.writes.clear();
  return rule;
}

ConcreteRule concretize(const Alias& alias, const Call& call) {
  Call named = call;
  std::size_t i = 0;
  for_words(alias.operands, [&](std::string_view name) {
    if (i < named.inputs.size() && named.inputs[i].name.empty()) named.inputs[i].name = name;
    ++i;
  });
  Adapter adapter(alias, named);
  return alias.build == nullptr ? adapter.run() : alias.build(adapter);
}

}  // namespace hyper_parallel::rules
