#include "hyper_parallel/core/placement.h"

#include <doctest/doctest.h>

#include "tests/core/support.h"

namespace hyper_parallel::test {

TEST_SUITE("Placement") {
  TEST_CASE("a placement is one of three kinds") {
    CHECK(Placement::replicate().is_replicate());
    CHECK_FALSE(Placement::replicate().is_shard());
    CHECK(Placement::shard(1).is_shard());
    CHECK(Placement::shard(1).is_shard(1));
    CHECK_FALSE(Placement::shard(1).is_shard(0));
    CHECK(Placement::shard(-1).dim() == -1);
    CHECK(Placement::partial().is_partial(ReduceOp::sum));
    CHECK(Placement::partial(ReduceOp::max).is_partial());
    CHECK_FALSE(Placement::partial(ReduceOp::max).is_partial(ReduceOp::sum));
    CHECK_FALSE(Placement::shard(0).is_partial(ReduceOp::sum));
  }

  TEST_CASE("placements are values") {
    CHECK(Placement::shard(0) == Placement::shard(0));
    CHECK(Placement::shard(0) != Placement::shard(1));
    CHECK(Placement::partial(ReduceOp::avg) != Placement::partial(ReduceOp::sum));
    CHECK(Placement::partial() != Placement::replicate());
  }

  TEST_CASE("text") {
    CHECK(to_string(Placement::replicate()) == "R");
    CHECK(to_string(Placement::shard(12)) == "S(12)");
    CHECK(to_string(Placement::partial(ReduceOp::prod)) == "P(prod)");
  }

  TEST_CASE("kinds of partial values are read as they are written") {
    for (const auto op :
         {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min, ReduceOp::prod}) {
      CHECK(parse_reduce_op(to_string(op)) == op);
    }
    CHECK(parse_reduce_op("mean") == ReduceOp::avg);
    CHECK(parse_reduce_op("product") == ReduceOp::prod);
    CHECK(failure([] { parse_reduce_op("median"); }) ==
          "UsageError [HP-L001] unknown partial kind \"median\"\n"
          "  kinds  sum, avg, max, min, prod");
    CHECK(code([] { parse_reduce_op(""); }) == "UsageError HP-L001");
  }
}

}  // namespace hyper_parallel::test
