// Time layouts and the planner, without torch: hits and misses of both.

#include "hyper_parallel/plan/redistribute.h"

#include <cstdio>
#include <string>

#include "bench/timer.h"
#include "hyper_parallel/core/text.h"

namespace {

using namespace hyper_parallel;

constexpr int kNew = 200;

// One line for plans never made: each has other sizes.
void show_new(const char* name, const Layout* from, const Layout* to) {
  static std::int64_t size = 1 << 20;
  const double begin = bench::now();
  for (int i = 0; i < kNew; ++i) plan::redistribute(from, to, {{size += 64, 512}, DType::f32});
  std::printf("  %-40s%10.2f us\n", name, (bench::now() - begin) / kNew * 1e6);
}

void time_plan(const char* mesh_text, const char* from_text, const char* to_text) {
  const Mesh* mesh = parse_mesh(mesh_text);
  const Layout* from = parse_layout(mesh, from_text);
  const Layout* to = parse_layout(mesh, to_text);
  const std::string name = std::string(from_text) + " -> " + to_text;
  std::printf("redistribute on %s\n", mesh_text);
  show_new((name + ", new").c_str(), from, to);
  bench::show((name + ", known").c_str(),
              [&] { plan::redistribute(from, to, {{4096, 512}, DType::f32}); });
}

}  // namespace

int main() {
  std::printf("layouts on dp=2 cp=2 tp=4\n");
  const Mesh* mesh = Mesh::get({2, 2, 4}, {"dp", "cp", "tp"});
  bench::show("Mesh::get, known", [] { Mesh::get({2, 2, 4}, {"dp", "cp", "tp"}); });
  const std::vector<Placement> placements = {Placement::shard(0), Placement::replicate(),
                                             Placement::shard(1)};
  bench::show("Layout::get, known", [&] { Layout::get(mesh, placements); });
  bench::show("Layout::from_names, known", [&] { Layout::from_names(mesh, {{"dp"}, {"tp"}}); });
  double begin = bench::now();
  for (int dim = 0; dim < kNew; ++dim) {
    Layout::get(mesh, std::vector<Placement>{Placement::shard(dim), Placement::shard(dim + 1),
                                             Placement::shard(dim)});
  }
  std::printf("  %-40s%10.2f us\n", "Layout::get, new", (bench::now() - begin) / kNew * 1e6);

  time_plan("tp=8", "S(0)", "R");
  time_plan("tp=8", "S(0)", "S(1)");
  time_plan("dp=2 tp=4", "P(sum) S(1)", "S(0) R");
  time_plan("dp=2 cp=2 tp=4", "S(0) S(0) S(1)", "S(1) R S(0)");
  return 0;
}
