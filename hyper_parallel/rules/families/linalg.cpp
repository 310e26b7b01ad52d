// Linear algebra: batches of matrices, which must be whole.
//
//   batched mn pq -> mq k .    operands and results by their last dims: "mn" a matrix, "k" a vector
//                              of min(m, n), "." a number; the leading dims are batches and
//                              broadcast; "0mn": with the batch of operand 0; "-": left out, [0]
//   svd, qr, eigh, lu, lu_unpack, solve, right_side: as batched, by their attributes
//   lstsq: all whole

#include <algorithm>
#include <map>

#include "hyper_parallel/rules/build/make.h"
#include "hyper_parallel/rules/families/families.h"

namespace hyper_parallel::rules {
namespace {

std::string_view core_of(std::string_view text) { return text == "." ? "" : text; }

// Rows of `text` (a batch dim of `lead` dims) that have a size of their own.
void put_batch(TensorMap& map, std::size_t lead, const TensorMap& batch) {
  for (std::size_t d = 0; d < lead; ++d) {
    if (map.sizes[d] != 1) map.dims[d] = batch.dims[batch.dims.size() - lead + d];
  }
}

ConcreteRule batched(const Call& call, Words operands, Words results) {
  check_count(call, operands.size(), operands.size());
  ConcreteRule rule = start(call);
  std::map<char, std::int64_t> sizes;
  Call leads = call;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!call.inputs[i].present) continue;
    const std::string_view core = core_of(operands[i]);
    Shape& shape = leads.inputs[i].meta.sizes;
    if (shape.size() < core.size()) check_ndim(call, i, core.size());
    const std::size_t lead = shape.size() - core.size();
    for (std::size_t c = 0; c < core.size(); ++c) sizes.emplace(core[c], shape[lead + c]);
    shape.resize(lead);
    all.push_back(i);
  }
  if (sizes.contains('m') && sizes.contains('n')) sizes['k'] = std::min(sizes['m'], sizes['n']);
  TensorMap batch = whole(broadcast_shape(leads, all));
  for (std::size_t d = 0; d < batch.sizes.size(); ++d) {
    // Of a batch of none some ops give no gradient, while other ranks have one.
    fill(rule, add_factor(rule, "d" + std::to_string(d), batch.sizes[d], {{batch, d}}));
  }
  for (std::size_t i : all) put_batch(rule.inputs[i], leads.inputs[i].meta.sizes.size(), batch);
  for (std::string_view text : results) {
    if (text == "-") {
      rule.outputs.push_back(whole({0}));
      continue;
    }
    const bool own = text.front() == '0';
    TensorMap out = whole(own ? leads.inputs[0].meta.sizes : batch.sizes);
    put_batch(out, out.sizes.size(), batch);
    for (char letter : core_of(own ? text.substr(1) : text)) {
      add_dim(out, sizes.at(letter));
    }
    rule.outputs.push_back(std::move(out));
  }
  return rule;
}

ConcreteRule build_batched(const Call& call, Words words) {
  const auto arrow = std::find(words.begin(), words.end(), "->");
  const auto count = static_cast<std::size_t>(arrow - words.begin());
  return batched(call, words.first(count), words.subspan(count + 1));
}

ConcreteRule by(const Call& call, const std::vector<std::string_view>& operands,
                const std::vector<std::string_view>& results) {
  return batched(call, operands, results);
}

ConcreteRule build_svd(const Call& call, Words) {
  if (!call.boolean("compute_uv", true)) return by(call, {"mn"}, {"-", "k", "-"});
  if (call.boolean("full_matrices", false)) return by(call, {"mn"}, {"mm", "k", "nn"});
  return by(call, {"mn"}, {"mk", "k", "kn"});
}

ConcreteRule build_qr(const Call& call, Words) {
  const auto it = call.attrs.find("mode");
  const auto* mode = it == call.attrs.end() ? nullptr : std::get_if<std::string>(&it->second);
  if (mode != nullptr && *mode == "r") return by(call, {"mn"}, {"-", "kn"});
  if (mode != nullptr && *mode == "complete") return by(call, {"mn"}, {"mm", "mn"});
  return by(call, {"mn"}, {"mk", "kn"});
}

ConcreteRule build_eigh(const Call& call, Words) {
  return by(call, {"mn"}, {"m", call.boolean("compute_v", true) ? "mn" : "-"});
}

ConcreteRule build_lu(const Call& call, Words) {
  return by(call, {"mn"}, {call.boolean("pivot", true) ? "mm" : "-", "mk", "kn"});
}

ConcreteRule build_unpack(const Call& call, Words) {
  const bool data = call.boolean("unpack_data", true);
  return by(
      call, {"mn", "p"},
      {call.boolean("unpack_pivots", true) ? "mm" : "-", data ? "mk" : "-", data ? "kn" : "-"});
}

// _linalg_solve_ex(A, B): B is a vector if it has one dim, or A's sizes but the last.
ConcreteRule build_solve(const Call& call, Words) {
  check_count(call, 2, 2);
  const Shape& a = call.inputs[0].meta.sizes;
  const Shape& b = call.inputs[1].meta.sizes;
  const bool vector =
      b.size() == 1 || (b.size() + 1 == a.size() && std::equal(b.begin(), b.end(), a.begin()));
  const std::string_view other = vector ? "m" : call.boolean("left", true) ? "mq" : "qm";
  return by(call, {"mm", other}, {other, "0mm", "0m", "0."});
}

// linalg_lstsq(self, b): which results there are depends on values, driver and device.
ConcreteRule build_lstsq(const Call& call, Words) {
  check_count(call, 2, 2);
  ConcreteRule rule = start(call);
  rule.outputs.assign(4, whole({-1}));
  rule.outputs[0] = whole(Shape(call.inputs[1].meta.sizes.size(), -1));
  rule.dynamic = true;
  return rule;
}

// linalg_lu_solve(LU, pivots, B)
ConcreteRule build_right_side(const Call& call, Words) {
  const std::string_view other = call.boolean("left", true) ? "mq" : "qm";
  return by(call, {"mm", "m", other}, {other});
}

constexpr Row kRows[] = {
    {"aten::_linalg_det", "batched mm -> . mm m"},
    {"aten::_linalg_eigh", "eigh"},
    {"aten::_linalg_slogdet", "batched mm -> . . mm m"},
    {"aten::_linalg_solve_ex", "solve"},
    {"aten::_linalg_svd", "svd"},
    {"aten::cholesky", "batched mm -> mm"},
    {"aten::cholesky_inverse", "batched mm -> mm"},
    {"aten::cholesky_solve", "batched mq mm -> mq"},
    {"aten::geqrf", "batched mn -> mn k"},
    {"aten::linalg_cholesky_ex", "batched mm -> mm ."},
    {"aten::linalg_cross", "*... d!@dim=-1, *... d!@dim=-1 -> ... d@dim=-1"},
    {"aten::linalg_eig", "batched mm -> m mm"},
    {"aten::linalg_householder_product", "batched mn t -> mn"},
    {"aten::linalg_inv", "batched mm -> mm"},
    {"aten::linalg_inv_ex", "batched mm -> mm ."},
    {"aten::linalg_ldl_factor_ex", "batched mm -> mm m ."},
    {"aten::linalg_ldl_solve", "batched mm m mq -> mq"},
    {"aten::linalg_lstsq", "lstsq"},
    {"aten::linalg_lu", "lu"},
    {"aten::linalg_lu_factor_ex", "batched mn -> mn k ."},
    {"aten::linalg_lu_solve", "right_side"},
    {"aten::linalg_matrix_exp", "batched mm -> mm"},
    {"aten::linalg_pinv.atol_rtol_tensor", "batched mn . . -> nm"},
    {"aten::linalg_qr", "qr"},
    {"aten::linalg_solve_triangular", "... n! n!, ... p! q! -> ... p q"},
    {"aten::lu_unpack", "lu_unpack"},
    {"aten::ormqr", "batched rs t pq -> pq"},
    {"aten::trace", "*m! n! -> ()"},
    {"aten::triangular_solve", "batched mq mm -> mq mm"},
};

constexpr NamedBuilder kBuilders[] = {
    {"batched", build_batched},
    {"eigh", build_eigh},
    {"lstsq", build_lstsq},
    {"lu", build_lu},
    {"lu_unpack", build_unpack},
    {"qr", build_qr},
    {"right_side", build_right_side},
    {"solve", build_solve},
    {"svd", build_svd},
};

}  // namespace

Family linalg_family() { return {"linalg", kRows, {}, kBuilders}; }

}  // namespace hyper_parallel::rules
