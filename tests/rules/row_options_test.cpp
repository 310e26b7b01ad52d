#include "hyper_parallel/rules/row_options.h"

#include "hyper_parallel/rules/rule.h"
#include "tests/support/doctest.h"

namespace hyper_parallel::rules {
namespace {

RowOptions of(const char* op) { return row_options(*find_row(op)); }

TEST_SUITE("RowOptions") {
  TEST_CASE("WindowsSayWhatTheyDo") {
    using Window = RowOptions::Window;
    CHECK(of("aten::conv2d").window == Window::convolve);
    CHECK(of("aten::avg_pool3d").window == Window::average);
    CHECK(of("aten::avg_pool3d").spatial == 3);
    CHECK(of("aten::max_pool2d_with_indices").window == Window::maximum);
    CHECK(of("aten::max_pool2d_with_indices").spatial == 2);
    CHECK(of("aten::adaptive_avg_pool1d").window == Window::adaptive);
    CHECK(of("aten::_upsample_nearest_exact2d").window == Window::repeat);
    CHECK_FALSE(of("aten::mm").window.has_value());
  }

  TEST_CASE("MaximaAndMinimaDiffer") {
    for (const char* op : {"aten::argmin", "aten::min.dim", "aten::amin", "aten::min"}) {
      CHECK(of(op).smallest == true);
    }
    for (const char* op : {"aten::argmax", "aten::max.dim", "aten::amax", "aten::max"}) {
      CHECK(of(op).smallest == false);
    }
    CHECK_FALSE(of("aten::sum").smallest.has_value());
  }

  TEST_CASE("OutNamesHaveTheOptionsOfTheFunction") {
    CHECK(of("aten::amin.out").smallest == true);
    CHECK(of("aten::std.out").root);
  }

  TEST_CASE("RootsPointsAndGradients") {
    CHECK(of("aten::std_mean.correction").root);
    CHECK_FALSE(of("aten::var.dim").root);
    CHECK(of("aten::_histogramdd_bin_edges").points);
    CHECK_FALSE(of("aten::_histogramdd_bin_edges").counts);
    CHECK(of("aten::histogram.bin_ct").counts);
    CHECK_FALSE(of("aten::histogram.bin_ct").points);
    CHECK(of("aten::prod.dim_int").by_gradient);
    CHECK(of("aten::amax").by_gradient);
    CHECK_FALSE(of("aten::mean").by_gradient);
    CHECK_FALSE(of("aten::argmax").by_gradient);
  }
}

}  // namespace
}  // namespace hyper_parallel::rules
