#pragma once

// doctest for tests of the torch layer. LibTorch's logging header defines CHECK and its kin as
// well; include this file last, after all torch headers, and the names mean doctest's.

#undef CHECK
#undef CHECK_EQ
#undef CHECK_NE
#undef CHECK_LE
#undef CHECK_LT
#undef CHECK_GE
#undef CHECK_GT

#include <doctest/doctest.h>
