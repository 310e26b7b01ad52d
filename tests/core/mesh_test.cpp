#include "hyper_parallel/core/mesh.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/core/support.h"

namespace hyper_parallel::test {
namespace {

using Names = std::vector<std::string>;
using Ints = std::vector<int>;

}  // namespace

TEST_SUITE("Mesh") {
  TEST_CASE("equal meshes are one object") {
    const Mesh* mesh = Mesh::get({2, 4}, {"dp", "tp"});
    CHECK(Mesh::get({2, 4}, {"dp", "tp"}, {0, 1, 2, 3, 4, 5, 6, 7}) == mesh);
    CHECK(Mesh::get({2, 4}, {"dp", "tp"})->hash() == mesh->hash());
    CHECK(Mesh::get({4, 2}, {"dp", "tp"}) != mesh);
    CHECK(Mesh::get({2, 4}, {"dp", "ep"}) != mesh);
    CHECK(Mesh::get({2, 4}, {"dp", "tp"}, {1, 0, 2, 3, 4, 5, 6, 7}) != mesh);
  }

  TEST_CASE("sizes, names and axes") {
    const Mesh* mesh = Mesh::get({2, 3, 4}, {"pp", "dp", "tp"});
    CHECK(mesh->ndim() == 3);
    CHECK(mesh->size() == 24);
    CHECK(mesh->size(1) == 3);
    CHECK(mesh->size(Ints{0, 2}) == 8);
    CHECK(mesh->size(Ints{}) == 1);
    CHECK(mesh->axis("dp") == 1);
    CHECK(mesh->name(2) == "tp");
    CHECK(failure([&] { mesh->axis("cp"); }) ==
          "UsageError [HP-M010] no mesh axis named \"cp\"\n"
          "  mesh  pp=2 dp=3 tp=4\n"
          "  axes  pp, dp, tp");
  }

  TEST_CASE("the last axis varies fastest") {
    const Mesh* mesh = Mesh::get({2, 3}, {"a", "b"}, {10, 11, 12, 20, 21, 22});
    CHECK(mesh->coordinate(10) == Ints{0, 0});
    CHECK(mesh->coordinate(12) == Ints{0, 2});
    CHECK(mesh->coordinate(21) == Ints{1, 1});
    CHECK_FALSE(mesh->coordinate(0).has_value());
  }

  TEST_CASE("a group is reached by moving along its axes, the first is major") {
    const Mesh* mesh = Mesh::get({2, 3}, {"a", "b"}, {10, 11, 12, 20, 21, 22});
    CHECK(mesh->group({0}, 21) == Ints{11, 21});
    CHECK(mesh->group({1}, 21) == Ints{20, 21, 22});
    CHECK(mesh->group({0, 1}, 21) == Ints{10, 11, 12, 20, 21, 22});
    CHECK(mesh->group({1, 0}, 21) == Ints{10, 20, 11, 21, 12, 22});
    CHECK(mesh->group({}, 21) == Ints{21});
    CHECK(starts(failure([&] { mesh->group({0}, 5); }), "UsageError [HP-M011] rank 5"));
  }

  TEST_CASE("a sub-mesh has the axes in the order that is asked for") {
    const Mesh* mesh = Mesh::get({2, 2, 2}, {"a", "b", "c"});
    const Mesh* sub = mesh->sub_mesh({"c", "a"}, 2);
    CHECK(sub->to_string() == "c=2 a=2 ranks=[2, 6, 3, 7]");
    for (int rank : sub->ranks()) CHECK(mesh->sub_mesh({"c", "a"}, rank) == sub);
    CHECK(mesh->sub_mesh({"c", "a"}, 0) != sub);
    CHECK(starts(failure([&] { mesh->sub_mesh({"d"}, 0); }), "UsageError [HP-M010]"));
    CHECK(starts(failure([&] { mesh->sub_mesh({"a"}, 8); }), "UsageError [HP-M011]"));
  }

  TEST_CASE("flatten merges axes and moves no rank") {
    const Mesh* mesh = Mesh::get({2, 3, 4}, {"a", "b", "c"});
    CHECK(mesh->flatten({"a", "b"})->to_string() == "a_b=6 c=4");
    CHECK(mesh->flatten({"b", "c"}, "bc")->to_string() == "a=2 bc=12");
    CHECK(mesh->flatten({"b"})->to_string() == "a=2 b=3 c=4");
    CHECK(mesh->flatten({"a", "b", "c"})->ranks() == mesh->ranks());
    CHECK(starts(failure([&] { mesh->flatten({}); }), "UsageError [HP-M012]"));
    CHECK(starts(failure([&] { mesh->flatten({"a", "c"}); }), "UsageError [HP-M013]"));
    CHECK(starts(failure([&] { mesh->flatten({"b", "a"}); }), "UsageError [HP-M013]"));
    CHECK(starts(failure([&] { mesh->flatten({"a", "b"}, "c"); }), "UsageError [HP-M004]"));
  }

  TEST_CASE("text shows ranks only where they are not 0, 1, 2 ...") {
    CHECK(Mesh::get({2, 4}, {"dp", "tp"})->to_string() == "dp=2 tp=4");
    CHECK(Mesh::get({2}, {"x"}, {3, 1})->to_string() == "x=2 ranks=[3, 1]");
  }

  TEST_CASE("what is no mesh is refused") {
    const auto refused = [](const Ints& sizes, const Names& names, const Ints& ranks = {}) {
      return code([&] { Mesh::get(sizes, names, ranks); });
    };
    CHECK(refused({}, {}) == "UsageError HP-M001");
    CHECK(refused({2}, {"a", "b"}) == "UsageError HP-M002");
    CHECK(refused({2, 2}, {"a"}) == "UsageError HP-M002");
    for (const char* name : {"", "None", "ranks", "a b", "a=1", "a:"}) {
      CHECK(refused({2}, {name}) == "UsageError HP-M003");
    }
    CHECK(refused({2, 2}, {"a", "a"}) == "UsageError HP-M004");
    CHECK(refused({2, 0}, {"a", "b"}) == "UsageError HP-M005");
    CHECK(refused({-2, -2}, {"a", "b"}) == "UsageError HP-M005");
    CHECK(refused({2, 2}, {"a", "b"}, {0, 1, 2}) == "UsageError HP-M006");
    CHECK(refused({2}, {"a"}, {1, 1}) == "UsageError HP-M007");
    CHECK(refused({2}, {"a"}, {0, -1}) == "UsageError HP-M007");
    CHECK(refused({1 << 11, 1 << 10}, {"a", "b"}) == "UsageError HP-M014");
    CHECK(refused({1 << 30, 1 << 30, 1 << 30}, {"a", "b", "c"}) == "UsageError HP-M014");
  }

  TEST_CASE("names may have letters, digits and three signs") {
    CHECK(Mesh::get({2}, {"a-b.c_0"})->to_string() == "a-b.c_0=2");
  }
}

}  // namespace hyper_parallel::test
