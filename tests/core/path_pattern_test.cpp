#include "hyper_parallel/core/path_pattern.h"

#include <doctest/doctest.h>

#include "hyper_parallel/core/error.h"

namespace hyper_parallel {
namespace {

TEST_SUITE("PathPattern") {
  TEST_CASE("a star stays within one part") {
    CHECK(path_matches("layers.*.weight", "layers.10.weight"));
    CHECK(path_matches("layers.1*.weight", "layers.10.weight"));
    CHECK_FALSE(path_matches("layers.*.weight", "layers.0.norm.weight"));
    CHECK_FALSE(path_matches("layers.*", "layers"));
    CHECK_FALSE(path_matches("layers", "layers.0"));
  }

  TEST_CASE("two stars are any number of parts") {
    CHECK(path_matches("**.weight", "weight"));
    CHECK(path_matches("**.weight", "layers.0.norm.weight"));
    CHECK(path_matches("layers.**", "layers"));
    CHECK(path_matches("layers.**", "layers.0.weight"));
    CHECK(path_matches("**.mlp.**.weight", "layers.0.mlp.up.weight"));
    CHECK_FALSE(path_matches("**.weight", "layers.0.bias"));
  }

  TEST_CASE("sets and single letters") {
    CHECK(path_matches("[qkv]_proj", "k_proj"));
    CHECK_FALSE(path_matches("[qkv]_proj", "o_proj"));
    CHECK(path_matches("[!qkv]_proj", "o_proj"));
    CHECK(path_matches("fc[1-3]", "fc2"));
    CHECK_FALSE(path_matches("fc[1-3]", "fc4"));
    CHECK(path_matches("fc?", "fc4"));
    CHECK_FALSE(path_matches("fc?", "fc"));
    CHECK(path_matches("a[b", "a[b"));
  }

  TEST_CASE("the closest pattern counts") {
    const std::vector<std::string> names = {"up.weight", "up.bias", "down.weight"};
    CHECK(closest_patterns({"**.weight", "up.*", "up.weight"}, names, "parameter") ==
          std::vector<int>{2, 1, 0});
    CHECK(closest_patterns({}, names, "parameter") == std::vector<int>{-1, -1, -1});
  }

  TEST_CASE("a key that matches nothing raises with near names") {
    CHECK_THROWS_WITH_AS(
        closest_patterns({"up.wight"}, {"up.weight", "up.bias"}, "parameter"),
        doctest::Contains("[HP-P001] sharding plan: \"up.wight\" matches no parameter"),
        UsageError);
    CHECK_THROWS_WITH_AS(closest_patterns({"up.wight"}, {"up.weight", "up.bias"}, "parameter"),
                         doctest::Contains("up.weight"), UsageError);
  }

  TEST_CASE("two keys that are equally close raise") {
    CHECK_THROWS_WITH_AS(closest_patterns({"*p.weight", "u*.weight"}, {"up.weight"}, "parameter"),
                         doctest::Contains("[HP-P002]"), UsageError);
  }
}

}  // namespace
}  // namespace hyper_parallel
