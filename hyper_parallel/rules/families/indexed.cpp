// Which factors index tensors and the dims that they index have.

#include <algorithm>

#include "hyper_parallel/rules/families/indexing.h"

namespace hyper_parallel::rules {

bool is_mask(DType dtype) { return dtype == DType::boolean || dtype == DType::u8; }

Along along_dim(const Call& call, std::size_t index) {
  Along out;
  out.rule = start(call);
  const Shape& self = call.inputs[0].meta.sizes;
  const Shape& sizes = call.inputs[index].meta.sizes;
  const std::size_t ndim = self.size();
  const auto dim = dim_of(call, "dim", 0, ndim);
  if (ndim == 0 || sizes.empty()) return out;
  check_ndim(call, index, self.size());
  for (std::size_t d = 0; d < self.size(); ++d) {
    const bool shared = d != dim && self[d] == sizes[d];
    const std::string name = "d" + std::to_string(d);
    const int f = self[d] == 1 ? -1 : add_factor(out.rule, name, self[d]);
    put(out.rule.inputs[0], d, f);
    if (d == dim) out.self = f;
    if (shared) {
      put(out.rule.inputs[index], d, f);
      continue;
    }
    if (d != dim) block(out.rule, f);
    const int i =
        add_factor(out.rule, "i" + std::to_string(d), sizes[d], {{out.rule.inputs[index], d}},
                   d == dim ? FactorKind::pass : FactorKind::blocked);
    if (d == dim) out.index = i;
  }
  return out;
}

Indexed index_dims(const Call& call, std::size_t indices) {
  Indexed out;
  out.rule = start(call);
  out.self = spread(out.rule, 0);
  out.taken.assign(out.self.size(), 0);
  std::vector<std::size_t> present;
  for (std::size_t i = 1; i <= indices; ++i) {
    const Operand& o = call.inputs[i];
    if (!o.present) continue;
    out.masks |= is_mask(o.meta.dtype);
    present.push_back(i);
    if (i <= out.taken.size()) out.taken[i - 1] = 1;
  }
  if (indices > out.self.size() && !out.masks) check_ndim(call, 0, indices);
  out.count = present.size();
  if (out.masks) return out;
  const Shape shape = broadcast_shape(call, present);
  TensorMap index = whole(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    out.index.push_back(add_factor(out.rule, "i" + std::to_string(d), shape[d], {{index, d}}));
  }
  for (std::size_t i : present) {
    TensorMap& map = out.rule.inputs[i];
    for (std::size_t d = 0; d < map.sizes.size(); ++d) {
      if (map.sizes[d] != 1) map.dims[d] = index.dims[shape.size() - map.sizes.size() + d];
    }
  }
  // The index dims stand where the first index stood if the indices are adjacent, else in front.
  std::size_t place = 0;
  while (place < out.taken.size() && out.taken[place] == 0) ++place;
  std::size_t end = place;
  while (end < out.taken.size() && out.taken[end] != 0) ++end;
  if (std::find(out.taken.begin() + static_cast<std::ptrdiff_t>(end), out.taken.end(), 1) !=
      out.taken.end()) {
    place = 0;
  }
  std::size_t kept = 0;
  const auto add_index = [&] {
    out.result.sizes.insert(out.result.sizes.end(), shape.begin(), shape.end());
    out.result.dims.insert(out.result.dims.end(), index.dims.begin(), index.dims.end());
  };
  for (std::size_t d = 0; d < out.self.size(); ++d) {
    if (kept == place && d == kept) add_index();
    if (out.taken[d] != 0) continue;
    ++kept;
    out.result.sizes.push_back(out.rule.inputs[0].sizes[d]);
    out.result.dims.push_back(out.rule.inputs[0].dims[d]);
  }
  if (place == out.self.size()) add_index();
  return out;
}

void put_last_dims(TensorMap& map, const TensorMap& result) {
  const std::size_t lead = result.sizes.size() - std::min(result.sizes.size(), map.sizes.size());
  for (std::size_t d = 0; d < map.sizes.size() && lead + d < result.sizes.size(); ++d) {
    if (map.sizes[d] != 1) map.dims[d] = result.dims[lead + d];
  }
}

Indexed index_masked(const Call& call, bool writes) {
  check_count(call, writes ? 3 : 2, 2 + call.inputs.size());
  Call unmasked = call;
  unmasked.inputs.erase(unmasked.inputs.begin() + 1);
  Indexed x = index_dims(unmasked, unmasked.inputs.size() - (writes ? 2 : 1));
  x.rule.inputs.insert(x.rule.inputs.begin() + 1, whole(call.inputs[1].meta.sizes));
  for (std::size_t d = 0; d < x.self.size(); ++d) {
    if (x.taken[d] != 0) block(x.rule, x.self[d]);
  }
  put_last_dims(x.rule.inputs[1], x.result);
  return x;
}

}  // namespace hyper_parallel::rules
