"""Values on the host, and sizes that depend on values."""

import torch

from hyper_parallel.verifier.case import bools, case, grid, ints, made, t

from .table import give

give("item _local_scalar_dense", case(t()), case(t(1)), case(ints(0, 9)))
ONES = made(lambda g: torch.ones(5, 3, dtype=torch.float64), "ones[5, 3]")
give("equal allclose", case(ONES, ONES))
give("is_nonzero", case(made(lambda g: torch.zeros(1, dtype=torch.float64), "zeros[1]")))
give("is_nonzero", case(t()), case(bools(1)))
give("equal allclose", case(t(5, 3), t(5, 3)), case(grid(2), grid(2)))
give("nonzero argwhere nonzero_numpy where", case(grid(5, 3)), case(bools(4)))
give("masked_select", case(t(5, 3), bools(5, 3)), case(t(5, 3), bools(3)))
give("_unique", case(grid(5, 3)), case(ints(0, 4, 7), True, True))
give("_unique2", case(grid(5, 3)), case(ints(0, 4, 7), True, True, True))
give("unique_dim", case(grid(5, 3), 0), case(ints(0, 2, 7, 2), 0, True, True, True))
give("unique_consecutive", case(grid(7)), case(ints(0, 3, 9), True, True))
give("bincount", case(ints(0, 5, 7)), case(ints(0, 4, 6), t(6), 8))
give("masked_scatter", case(t(5, 3), bools(5, 3), t(20)), case(t(4), bools(4), t(4)))
give("put", case(t(5, 3), ints(0, 15, 4), t(4)))
give("dist", case(t(5, 3), t(5, 3)), case(t(4), t(4), 1))
give("nonzero_static", case(grid(5, 3), size=7))
give("unique_dim unique_dim_consecutive", case(ints(0, 2, 5, 3), 0))
