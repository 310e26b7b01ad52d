// Public collectives and custom_shard: values, transposes, ties, mistakes.

#include "hyper_parallel/torch/face/collectives.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "hyper_parallel/torch/face/api.h"
#include "hyper_parallel/torch/ranks/ranks.h"
#include "tests/support/on_ranks.h"

namespace hyper_parallel {
namespace {

using test::on_ranks;
using torch_layer::current_rank;

const Mesh* line() { return Mesh::get({3}, {"tp"}); }
int me() { return current_rank().rank(); }

/// Numbers of one rank, which others can make too.
at::Tensor drawn(const Shape& shape, int seed, int rank) {
  return (at::arange(product(shape), at::kDouble) * 0.7 + seed + 3.1 * rank).sin().view(shape);
}
at::Tensor mine(const Shape& shape, int seed = 0) { return drawn(shape, seed, me()); }

double total(const at::Tensor& value) {
  return all_reduce(value.detach(), "tp", ReduceOp::sum, line()).item<double>();
}

using Move = std::function<at::Tensor(const at::Tensor&)>;

/// <y, A x> over all ranks is <A' y, x>, and A'' is A.
std::string not_transposed(const Move& move, const Shape& shape) {
  const at::Tensor x = mine(shape).requires_grad_();
  const at::Tensor out = move(x);
  const at::Tensor y = mine({out.sizes().begin(), out.sizes().end()}, 7).requires_grad_();
  const at::Tensor back = torch::autograd::grad({out}, {x}, {y}, std::nullopt, true)[0];
  const double left = total((out * y).sum());
  const double right = total((back * x).sum());
  if (std::abs(left - right) > 1e-10) return "transpose";
  const at::Tensor again = torch::autograd::grad({back}, {y}, {x.detach()})[0];
  return at::allclose(again, out.detach(), 1e-12, 1e-12) ? "" : "transpose of the transpose";
}

std::string code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return "no error";
}

TEST_CASE("values of collectives, even and uneven") {
  on_ranks(3, []() -> std::string {
    const Mesh* mesh = line();
    const auto rank = static_cast<std::size_t>(me());
    std::vector<at::Tensor> all;
    for (int r = 0; r < 3; ++r) all.push_back(drawn({2, 3}, 0, r));
    const at::Tensor x = all[rank];
    const at::Tensor sum = all[0] + all[1] + all[2];
    if (!at::allclose(all_reduce(x, "tp", ReduceOp::sum, mesh), sum)) return "sum";
    if (!at::allclose(all_reduce(x, 0, ReduceOp::avg, mesh), sum / 3)) return "avg";
    if (!at::equal(all_gather(x, "tp", 0, std::nullopt, mesh), at::cat(all))) return "gather";
    if (!at::equal(all_gather(x, "tp", -1, std::nullopt, mesh), at::cat(all, 1))) return "dim";
    const at::Tensor column = reduce_scatter(x, "tp", 1, ReduceOp::sum, std::nullopt, mesh);
    if (!at::allclose(column, sum.narrow(1, me(), 1)) || !column.is_contiguous()) return "scatter";
    if (!at::equal(broadcast(x, "tp", 2, mesh), all[2])) return "broadcast";
    const at::Tensor ring = permute(x, "tp", {{0, 1}, {1, 2}}, mesh);
    if (!at::equal(ring, rank == 0 ? at::zeros_like(x) : all[rank - 1])) return "permute";

    const std::vector<std::int64_t> sizes = {2, 0, 3};
    std::vector<at::Tensor> parts;
    for (int r = 0; r < 3; ++r)
      parts.push_back(drawn({sizes[static_cast<std::size_t>(r)], 2}, 1, r));
    for (std::int64_t dim : {0, 1}) {
      const at::Tensor given = dim == 0 ? parts[rank] : parts[rank].t();
      const at::Tensor whole = dim == 0 ? at::cat(parts) : at::cat(parts).t();
      if (!at::equal(all_gather(given, "tp", dim, sizes, mesh), whole)) return "uneven gather";
      const at::Tensor cut = reduce_scatter(whole, "tp", dim, ReduceOp::avg, sizes, mesh);
      if (!at::allclose(cut, given) || !cut.is_contiguous()) return "uneven scatter";
    }
    return "";
  });
}

TEST_CASE("complex numbers and booleans") {
  on_ranks(3, []() -> std::string {
    const Mesh* mesh = line();
    const at::Tensor z = mine({2, 2}) * c10::complex<double>(1, 2);
    at::Tensor sum = at::zeros_like(z);
    for (int r = 0; r < 3; ++r) sum = sum + drawn({2, 2}, 0, r) * c10::complex<double>(1, 2);
    if (!at::allclose(all_reduce(z, "tp", ReduceOp::sum, mesh), sum)) return "complex";
    if (!at::equal(permute(z.conj(), "tp", {{0, 0}, {1, 1}, {2, 2}}, mesh), z.conj()))
      return "conj";
    const at::Tensor flag = at::full({2}, me() == 1, at::kBool);
    if (!all_reduce(flag, "tp", ReduceOp::max, mesh).all().item<bool>()) return "or";
    if (all_reduce(flag, "tp", ReduceOp::min, mesh).any().item<bool>()) return "and";
    const at::Tensor gathered = all_gather(flag, "tp", 0, std::nullopt, mesh);
    return gathered.sum().item<std::int64_t>() == 2 ? "" : "gather of bools";
  });
}

TEST_CASE("transposes are true, and their transposes") {
  on_ranks(3, []() -> std::string {
    const Mesh* mesh = line();
    const std::vector<std::int64_t> sizes = {2, 0, 3};
    const auto own = sizes[static_cast<std::size_t>(me())];
    const std::vector<std::vector<std::int64_t>> send = {{2, 0, 1}, {0, 0, 3}, {1, 1, 1}};
    struct Case {
      const char* name;
      Move move;
      Shape shape;
    };
    using X = const at::Tensor&;
    const std::vector<Case> cases = {
        {"sum", [&](X x) { return all_reduce(x, "tp", ReduceOp::sum, mesh); }, {2, 3}},
        {"avg", [&](X x) { return all_reduce(x, "tp", ReduceOp::avg, mesh); }, {2, 3}},
        {"gather", [&](X x) { return all_gather(x, "tp", 1, std::nullopt, mesh); }, {2, 3}},
        {"uneven gather", [&](X x) { return all_gather(x, "tp", 0, sizes, mesh); }, {own, 2}},
        {"scatter",
         [&](X x) { return reduce_scatter(x, "tp", 1, ReduceOp::sum, std::nullopt, mesh); },
         {2, 6}},
        {"mean",
         [&](X x) { return reduce_scatter(x, "tp", 0, ReduceOp::avg, sizes, mesh); },
         {5, 2}},
        {"all to all",
         [&](X x) {
           return all_to_all(x, "tp", send[static_cast<std::size_t>(me())], std::nullopt, mesh);
         },
         {3, 2}},
        {"broadcast", [&](X x) { return broadcast(x, "tp", 1, mesh); }, {2}},
        {"permute", [&](X x) { return permute(x, "tp", {{0, 2}, {2, 1}}, mesh); }, {2, 2}},
    };
    for (const Case& each : cases) {
      if (const std::string wrong = not_transposed(each.move, each.shape); !wrong.empty()) {
        return std::string(each.name) + ": " + wrong;
      }
    }
    return "";
  });
}

TEST_CASE("several are under way at once") {
  on_ranks(3, []() -> std::string {
    const Mesh* mesh = line();
    const at::Tensor x = mine({3}).requires_grad_();
    Pending one = Start::all_reduce(x, "tp", ReduceOp::sum, mesh);
    Pending two = Start::all_gather(x, "tp", 0, std::nullopt, mesh);
    const at::Tensor loss = one.wait().sum() + 2 * two.wait().sum();
    if (!one.wait().is_same(one.wait())) return "two results";
    torch::autograd::backward({loss}, {});
    return at::allclose(x.grad(), at::full({3}, 9.0, at::kDouble)) ? "" : "gradient";
  });
}

TEST_CASE("mistakes have the codes of Python") {
  on_ranks(3, []() -> std::string {
    const Mesh* mesh = line();
    const at::Tensor x = mine({4, 2});
    const std::vector<std::pair<std::string, std::function<void()>>> cases = {
        {"HP-C024", [&] { all_reduce(x, "tp"); }},
        {"HP-M010", [&] { all_reduce(x, "dp", ReduceOp::sum, mesh); }},
        {"HP-M010", [&] { all_reduce(x, 1, ReduceOp::sum, mesh); }},
        {"HP-C020", [&] { reduce_scatter(x, "tp", 0, ReduceOp::max, std::nullopt, mesh); }},
        {"HP-C020", [&] { all_reduce(x > 0, "tp", ReduceOp::sum, mesh); }},
        {"HP-C020", [&] { reduction("all_reduce", "mean"); }},
        {"HP-C021", [&] { all_reduce(x.clone().requires_grad_(), "tp", ReduceOp::max, mesh); }},
        {"HP-C022", [&] { reduce_scatter(x, "tp", 0, ReduceOp::sum, std::nullopt, mesh); }},
        {"HP-C022", [&] { all_gather(x, "tp", 2, std::nullopt, mesh); }},
        {"HP-C022", [&] { all_gather(x, "tp", 0, std::vector<std::int64_t>{1, 1, 1}, mesh); }},
        {"HP-C022", [&] { all_to_all(x, "tp", std::vector<std::int64_t>{4}, std::nullopt, mesh); }},
        {"HP-C023", [&] { broadcast(x, "tp", 3, mesh); }},
        {"HP-C023", [&] { permute(x, "tp", {{0, 1}, {0, 2}}, mesh); }},
        {"HP-C025",
         [&] {
           const auto* layout = Layout::replicated(mesh);
           all_reduce(distribute_tensor(x, layout, std::nullopt), "tp", ReduceOp::sum, mesh);
         }},
    };
    for (const auto& [code, action] : cases) {
      if (const std::string found = code_of(action); found != code) return code + ": " + found;
    }
    return "";
  });
}

TEST_CASE("custom_shard: ranks may use different results of collectives") {
  on_ranks(3, []() -> std::string {
    const Layout* rows = parse_layout("tp=3: S(0)");
    const at::Tensor whole = at::arange(6, at::kDouble).view({6, 1});
    const at::Tensor x = distribute_tensor(whole, rows).requires_grad_();
    const auto code = [](const std::vector<at::Tensor>& t) {
      const at::Tensor sum = all_reduce(t[0] * t[0], "tp");
      const at::Tensor all = all_gather(t[0], "tp");
      Pending later = Start::all_reduce(t[0], "tp");
      const at::Tensor third = later.wait();
      // Rank 0 ignores the first, rank 1 the second, rank 2 all.
      if (axis_rank("tp") == 0) return std::vector<at::Tensor>{all.narrow(0, 0, 2) + third};
      if (axis_rank("tp") == 1) return std::vector<at::Tensor>{sum};
      return std::vector<at::Tensor>{t[0]};
    };
    const at::Tensor y = custom_shard(code, {x}, {rows})[0];
    torch::autograd::backward({y.sum()}, {});
    // Rows 0, 1: once from the gather of rank 0. All rows: once from its third sum. All rows: 2 x
    // from rank 1's sum. Rows 4, 5: once from rank 2.
    const at::Tensor want =
        2 * whole + 1 + at::tensor({1.0, 1.0, 0.0, 0.0, 1.0, 1.0}, at::kDouble).view({6, 1});
    return at::allclose(full_tensor(x.grad()), want) ? "" : "gradient";
  });
}

TEST_CASE("custom_shard: mistakes") {
  on_ranks(3, []() -> std::string {
    const Layout* rows = parse_layout("tp=3: S(0)");
    const Layout* other = parse_layout("cp=3: S(0)");
    const Layout* whole = parse_layout("tp=3: R");
    const at::Tensor x = distribute_tensor(at::ones({6, 2}, at::kDouble), rows).requires_grad_();
    const at::Tensor closed = at::ones({2, 2}, at::kDouble).requires_grad_();
    const auto same = [](const std::vector<at::Tensor>& t) { return t; };
    using Parts = std::vector<at::Tensor>;
    const std::vector<std::pair<std::string, std::function<void()>>> cases = {
        {"HP-F003", [&] { custom_shard(same, {x}, {other}); }},
        {"HP-F009", [&] { custom_shard(same, {x}, {rows, rows}); }},
        {"HP-F005", [&] { custom_shard(same, {x}, {rows}, {rows, rows}); }},
        {"HP-F009", [&] { custom_shard([&](const Parts&) { return Parts{x}; }, {x}, {rows}); }},
        {"HP-F010",
         [&] {
           custom_shard([](const Parts& t) { return Parts{t[0].narrow(0, 0, me() == 1 ? 2 : 1)}; },
                        {x}, {rows});
         }},
        {"HP-F012", [&] { custom_shard(same, {x}, {parse_layout("tp=3: P(max)")}); }},
        {"HP-F014",
         [&] { custom_shard([&](const Parts& t) { return Parts{t[0] + closed}; }, {x}, {rows}); }},
        {"HP-F007", [&] { custom_shard(same, {x}, {rows}, {nullptr}); }},
        {"HP-F008", [&] { custom_shard(same, {x, closed}, {rows, whole}, {rows, whole}); }},
    };
    for (const auto& [code, action] : cases) {
      if (const std::string found = code_of(action); found != code) return code + ": " + found;
    }
    return "";
  });
}

}  // namespace
}  // namespace hyper_parallel
