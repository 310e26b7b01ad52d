// The plans that people rely on, in text form.

#include "hyper_parallel/plan/redistribute.h"

#include <thread>

#include "hyper_parallel/core/error.h"
#include "hyper_parallel/core/text.h"
#include "tests/support/doctest.h"
#include "tests/support/simulator.h"

namespace hyper_parallel {
namespace {

/// Plan "f32[8, 8] on tp=4: S(0)" to "R", the same mesh unless `to` names one.
std::shared_ptr<const plan::Plan> plan_of(const char* from, const char* to) {
  const Described d = parse_described(from);
  const std::string text = to;
  const Layout* target = text.find(':') == std::string::npos ? parse_layout(d.layout->mesh(), text)
                                                             : parse_layout(text);
  return plan::redistribute(d.layout, target, d.meta);
}

std::string text(const char* from, const char* to) { return to_string(*plan_of(from, to)); }

TEST_CASE("one axis: one step each") {
  CHECK(text("f32[4096, 1024] on tp=4: S(0)", "R") ==
        "all_gather dim 0 over tp, 12.0 MiB\n"
        "total 12.0 MiB, 1.00x the lower bound");
  CHECK(text("f32[4096, 1024] on tp=4: S(0)", "S(1)") ==
        "all_to_all dim 0 to dim 1 over tp, 3.0 MiB\n"
        "total 3.0 MiB, 1.00x the lower bound");
  CHECK(text("f32[4096, 1024] on tp=4: P(sum)", "S(1)") ==
        "reduce_scatter(sum) dim 1 over tp, 12.0 MiB\n"
        "total 12.0 MiB, 1.00x the lower bound");
  CHECK(text("f32[4096, 1024] on tp=4: P(sum)", "R") ==
        "all_reduce(sum) over tp, 24.0 MiB\n"
        "total 24.0 MiB, 1.00x the lower bound");
  CHECK(text("f32[4096, 1024] on tp=4: P(max)", "R") ==
        "all_reduce(max) over tp, 24.0 MiB\n"
        "total 24.0 MiB, 1.00x the lower bound");
  CHECK(text("f32[4096, 1024] on tp=4: R", "S(0)") == "cut dim 0 over tp, local\ntotal 0 B");
  CHECK(text("f32[4096, 1024] on tp=4: R", "P(sum)") == "own over tp, local\ntotal 0 B");
  CHECK(text("f32[4096, 1024] on tp=4: R", "P(avg)") == "nothing to do");
  CHECK(text("f32[4096, 1024] on tp=4: R", "R") == "nothing to do");
}

TEST_CASE("averages become sums first") {
  CHECK(text("f32[4096, 1024] on tp=4: P(avg)", "R") ==
        "scale by 0.25 over tp, local\n"
        "all_reduce(sum) over tp, 24.0 MiB\n"
        "total 24.0 MiB, 1.00x the lower bound");
  CHECK(text("f32[64] on tp=4: P(sum)", "P(avg)") == "scale by 4 over tp, local\ntotal 0 B");
}

TEST_CASE("the same dim in other chunks is one all_to_all, nothing if chunks agree") {
  CHECK(text("f32[4096, 1024] on tp=4: S(0)", "S(0; block=64)") == "nothing to do");
  CHECK(text("f32[96, 8] on tp=4: S(0)", "S(0; block=16)") ==
        "all_to_all dim 0 to dim 0 over tp, 768 B\n"
        "total 768 B, 1.00x the lower bound");
  CHECK(text("f32[64, 8] on tp=4: S(0)", "S(0; segments=32|16|16)") ==
        "all_to_all dim 0 to dim 0 over tp, 512 B\n"
        "total 512 B, 1.00x the lower bound");
}

TEST_CASE("several axes: one collective on the flattened group") {
  CHECK(text("f32[4096, 1024] on dp=2 tp=4: S(0) S(0)", "R R") ==
        "all_gather dim 0 over dp tp, 14.0 MiB\n"
        "total 14.0 MiB, 1.00x the lower bound");
  CHECK(text("f32[4096, 1024] on dp=2 tp=4: P(sum) P(sum)", "R R") ==
        "all_reduce(sum) over dp tp, 28.0 MiB\n"
        "total 28.0 MiB, 1.00x the lower bound");
  CHECK(text("f32[4096, 1024] on dp=2 tp=4: P(sum) P(sum)", "S(0) S(1)") ==
        "reduce_scatter(sum) over dp tp, 14.0 MiB\n"
        "total 14.0 MiB, 1.00x the lower bound");
  CHECK(text("f32[4096, 1024] on dp=2 tp=4: S(0) S(1)", "S(1) S(0)") ==
        "all_to_all over dp tp, 2.0 MiB\n"
        "total 2.0 MiB, 1.00x the lower bound");
  CHECK(text("f32[64, 8] on dp=2 tp=4: S(0) S(0)", "S(0, 1) S(0, 0)") ==
        "all_to_all dim 0 to dim 0 over dp tp, 256 B\n"
        "total 256 B, 1.00x the lower bound");
}

TEST_CASE("an axis that does not change carries nothing") {
  CHECK(text("f32[4096, 1024] on dp=2 tp=4: R P(sum)", "R R") ==
        "all_reduce(sum) over tp, 24.0 MiB\n"
        "total 24.0 MiB, 1.00x the lower bound");
  CHECK(text("f32[4096, 1024] on dp=2 tp=4: S(0) P(sum)", "S(0) S(1)") ==
        "reduce_scatter(sum) dim 1 over tp, 6.0 MiB\n"
        "total 6.0 MiB, 1.00x the lower bound");
  CHECK(text("f32[4096, 1024] on dp=2 tp=4: P(sum) S(1)", "P(sum) S(0)") ==
        "all_to_all dim 1 to dim 0 over tp, 3.0 MiB\n"
        "total 3.0 MiB, 1.00x the lower bound");
}

TEST_CASE("from one axis to another") {
  CHECK(text("f32[4096, 1024] on dp=2 tp=2: S(0) R", "R S(0)") ==
        "permute dim 0 to dim 0 over dp tp, 8.0 MiB\n"
        "total 8.0 MiB, 1.00x the lower bound");
  // Each rank cuts what it has before it exchanges: 4 MiB instead of 8 for a gather.
  CHECK(text("f32[4096, 1024] on dp=2 tp=4: S(0) R", "R S(0)") ==
        "cut dim 0 over tp, local\n"
        "all_to_all dim 0 to dim 0 over dp tp, 2.0 MiB\n"
        "all_gather dim 0 over dp, 2.0 MiB\n"
        "total 4.0 MiB, 1.00x the lower bound");
  // Too small to be worth a second launch.
  CHECK(text("f32[8] on dp=2 tp=4: S(0) R", "R S(0)") ==
        "all_gather dim 0 over dp, 16 B\n"
        "cut dim 0 over tp, local\n"
        "total 16 B, 2.00x the lower bound");
}

TEST_CASE("uneven sizes are counted as they are moved") {
  // Chunks of 3, 3 and 1 rows, padded to 3.
  CHECK(text("f32[7, 2] on tp=3: S(0)", "R") ==
        "all_gather dim 0 over tp, 48 B\n"
        "total 48 B, 1.00x the lower bound");
  // Exchanged exactly: rank 0 keeps 3 x 1 of 3 x 2.
  CHECK(text("f32[7, 2] on tp=3: S(0)", "S(1)") ==
        "all_to_all dim 0 to dim 1 over tp, 16 B\n"
        "total 16 B, 1.00x the lower bound");
  // Padded to 16 rows, it would be 60 MiB: it is better to sum the two rows whole and to cut.
  CHECK(text("f32[2, 1048576] on tp=16: P(sum)", "S(0)") ==
        "all_reduce(sum) over tp, 15.0 MiB\n"
        "cut dim 0 over tp, local\n"
        "total 15.0 MiB, 2.00x the lower bound");
}

TEST_CASE("S -> P(sum) gathers: zeros around a shard would make all later steps dearer") {
  CHECK(text("f32[8] on tp=4: S(0)", "P(sum)") ==
        "all_gather dim 0 over tp, 24 B\n"
        "own over tp, local\n"
        "total 24 B");
}

TEST_CASE("another shape of the mesh is no obstacle") {
  CHECK(text("f32[64, 64] on dp=2 tp=4: S(0) S(1)", "x=8: S(0)") ==
        "all_to_all dim 1 to dim 0 over tp, 1.5 KiB\n"
        "total 1.5 KiB, 1.00x the lower bound");
  CHECK(text("f32[64, 64] on dp=2 tp=4: R S(0)", "dp=4 tp=2: S(0) R") ==
        "permute dim 0 to dim 0 over dp tp.0 tp.1, 4.0 KiB\n"
        "total 4.0 KiB, 1.00x the lower bound");
  CHECK(text("f32[64, 64] on dp=2 tp=4: S(0) S(0)", "a=8: S(0)") == "nothing to do");
  CHECK(text("f32[64, 64] on a=2: S(0)", "b=2: S(0)") == "nothing to do");
  // Chunks of chunks are other chunks here.
  CHECK(text("f32[10] on dp=2 tp=4: S(0) S(0)", "a=8: S(0)") ==
        "all_gather dim 0 over dp tp, 56 B\n"
        "cut dim 0 over a, local\n"
        "total 56 B (through R: the pieces on the two meshes do not fit)");
  CHECK(text("f32[8] on a=4: S(0)", "a=4 ranks=[3, 2, 1, 0]: S(0)") ==
        "all_gather dim 0 over a, 24 B\n"
        "cut dim 0 over a, local\n"
        "total 24 B (through R: the pieces on the two meshes do not fit)");
}

TEST_CASE("what cannot be done says why") {
  const auto code = [](const char* from, const char* to) -> std::string {
    try {
      plan_of(from, to);
    } catch (const Error& e) {
      return e.code();
    }
    return "no error";
  };
  CHECK(code("f32[8] on tp=4: R", "P(max)") == "HP-R002");
  CHECK(code("f32[8] on tp=4: S(0)", "P(prod)") == "HP-R002");
  CHECK(code("f32[8] on tp=4: P(sum)", "P(max)") == "HP-R002");
  CHECK(code("f32[8] on tp=4: P(max)", "P(sum)") == "HP-R002");
  CHECK(code("f32[8] on dp=2 tp=4: P(max) P(sum)", "R P(sum)") == "HP-R003");
  CHECK(code("f32[8] on dp=2 tp=4: P(max) P(sum)", "P(max) P(sum)") == "no error");
  CHECK(code("i64[8] on tp=4: P(avg)", "R") == "HP-R005");
  CHECK(code("f32[8] on tp=4: S(0)", "tp=2: S(0)") == "HP-R006");
  CHECK(code("f32[8] on tp=4: R", "S(1)") == "HP-L005");
  CHECK(code("f32[8] on tp=4: R", "S(0; segments=4|3)") == "HP-L006");
  CHECK_THROWS_AS(plan::topology("tokamak"), UsageError);
  CHECK_THROWS_AS(plan::transpose(*plan_of("f32[8] on tp=4: P(max)", "R")), UnsupportedError);
}

TEST_CASE("a topology changes the plan where links differ") {
  const Described d = parse_described("f32[4096, 4096] on dp=2 tp=8: S(0) S(0)");
  const Layout* whole = Layout::replicated(d.layout->mesh());
  CHECK(to_string(*plan::redistribute(d.layout, whole, d.meta)) ==
        "all_gather dim 0 over dp tp, 60.0 MiB\n"
        "total 60.0 MiB, 1.00x the lower bound");
  // tp lies within a host, dp does not: 4 MiB cross hosts instead of 60.
  const Layout* minor = parse_layout(d.layout->mesh(), "S(0, 1) S(0, 0)");
  CHECK(to_string(*plan::redistribute(minor, whole, d.meta, plan::topology("h100"))) ==
        "all_gather dim 0 over dp, 4.0 MiB\n"
        "all_gather dim 0 over tp, 56.0 MiB\n"
        "total 60.0 MiB, 1.00x the lower bound");
}

TEST_CASE("plans are shared and keep their identity") {
  const auto a = plan_of("f32[8, 4] on tp=4: S(0)", "R");
  const auto b = plan_of("f32[8, 4] on tp=4: S(0)", "R");
  CHECK(a == b);
  CHECK(a->id != 0);
  CHECK(plan_of("f32[8, 8] on tp=4: S(0)", "R")->id != a->id);
  const auto back = plan::transposed(a);
  CHECK(back == plan::transposed(b));
  CHECK(to_string(*back) ==
        "reduce_scatter(sum) dim 0 over tp, 96 B\ntotal 96 B, 1.00x the lower bound");
  CHECK(back->from == Layout::get(a->to->mesh(), std::vector{Placement::partial()}));
}

TEST_CASE("the oldest plans leave the cache and stay valid") {
  const auto first = plan_of("f32[12345] on tp=4: S(0)", "R");
  const auto back = plan::transposed(first);
  for (std::int64_t size = 1; size < 20000; ++size) {
    plan::redistribute(first->from, first->to, {{size, 4}, DType::f32});
  }
  const auto again = plan_of("f32[12345] on tp=4: S(0)", "R");
  CHECK(again->id != first->id);
  CHECK(to_string(*again) == to_string(*first));
  CHECK(plan::transposed(first) == back);
  CHECK(plan::transposed(again) != back);
}

TEST_CASE("planning is safe for threads") {
  const Mesh* mesh = parse_mesh("dp=2 tp=2");
  const auto layouts = test::all_layouts(mesh, 2, {ReduceOp::sum});
  std::vector<std::vector<std::string>> texts(4);
  std::vector<std::thread> threads;
  for (auto& mine : texts) {
    threads.emplace_back([&] {
      for (const Layout* from : layouts) {
        for (const Layout* to : layouts) {
          mine.push_back(to_string(*plan::redistribute(from, to, {{17, 5}, DType::f32})));
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const auto& mine : texts) CHECK(mine == texts[0]);
}

TEST_CASE("local memory stays within the larger of source and target") {
  const Mesh* mesh = parse_mesh("a=2 b=2 c=2");
  const TensorMeta meta{{4096, 4100}, DType::f32};
  const std::vector<int> first = {0, 0, 0};
  const auto bytes = [&](const Layout* layout) {
    return TensorMeta{local_shape(layout, meta.sizes, first), meta.dtype}.bytes();
  };
  const auto layouts = test::all_layouts(mesh, 2, {});
  for (const Layout* from : layouts) {
    for (const Layout* to : layouts) {
      const auto plan = plan::redistribute(from, to, meta);
      CAPTURE(from->to_string());
      CAPTURE(to->to_string());
      CHECK(plan->note == "");
      for (const plan::Step& step : plan->steps) {
        CHECK(bytes(step.after) <= std::max(bytes(from), bytes(to)));
      }
    }
  }
}

TEST_CASE("many axes: reduce, gather, cut") {
  const auto plan = plan_of("f32[64, 2] on a=2 b=2 c=2 d=2 e=2 f=2: S(0) P(sum) S(0) S(0) R P(sum)",
                            "S(0) S(0) R R S(1) R");
  const Shape sizes = plan->meta.sizes;
  std::vector<double> global;
  for (int i = 0; i < 128; ++i) global.push_back(i % 7 - 3);
  CHECK(test::decode(test::run(*plan, test::encode(global, plan->from, sizes)), plan->to, sizes) ==
        global);
}

}  // namespace
}  // namespace hyper_parallel
