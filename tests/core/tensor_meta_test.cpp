#include "hyper_parallel/core/tensor_meta.h"

#include <doctest/doctest.h>

#include <vector>

#include "hyper_parallel/core/text.h"
#include "tests/core/support.h"

namespace hyper_parallel::test {
namespace {

struct Known {
  DType dtype;
  const char* name;
  int bytes;
  bool integral;
};

const std::vector<Known> kKnown = {
    {DType::f64, "f64", 8, false},    {DType::f32, "f32", 4, false},
    {DType::f16, "f16", 2, false},    {DType::bf16, "bf16", 2, false},
    {DType::i64, "i64", 8, true},     {DType::i32, "i32", 4, true},
    {DType::i16, "i16", 2, true},     {DType::i8, "i8", 1, true},
    {DType::u8, "u8", 1, true},       {DType::boolean, "bool", 1, true},
    {DType::c64, "c64", 8, false},    {DType::c128, "c128", 16, false},
    {DType::other, "other", 1, false}};

}  // namespace

TEST_SUITE("TensorMeta") {
  TEST_CASE("element types") {
    for (const Known& k : kKnown) {
      CAPTURE(k.name);
      CHECK(to_string(k.dtype) == k.name);
      CHECK(parse_dtype(k.name) == k.dtype);
      CHECK(bytes_of(k.dtype) == k.bytes);
      CHECK(is_integral(k.dtype) == k.integral);
    }
    CHECK(starts(failure([] { parse_dtype("float32"); }),
                 "UsageError [HP-T002] unknown element type \"float32\"\n  types  f64, f32, f16"));
    CHECK(code([] { parse_dtype(""); }) == "UsageError HP-T002");
  }

  TEST_CASE("numbers of elements and bytes") {
    CHECK(TensorMeta{{4, 3}, DType::bf16}.numel() == 12);
    CHECK(TensorMeta{{4, 3}, DType::bf16}.bytes() == 24);
    CHECK(TensorMeta{{}, DType::c128}.bytes() == 16);
    CHECK(TensorMeta{{4, 0}, DType::f32}.numel() == 0);
    CHECK(product(Shape{}) == 1);
    CHECK(product(Shape{2, 3, 7}) == 42);
    CHECK(TensorMeta{{4}, DType::f32} != TensorMeta{{4}, DType::i32});
  }
}

}  // namespace hyper_parallel::test
