"""Look-ups and writes by index."""

import torch

from hyper_parallel.verifier.case import bools, case, distinct, grid, ints, made, positive, t

from .table import PERMUTED, SORTED, columns, give

give("bucketize.Tensor", case(t(5, 3), SORTED), case(t(2, 4, 6), SORTED, right=True))
give(
    "isin.Tensor_Tensor",
    case(ints(0, 6, 5, 3), ints(0, 6, 4)),
    case(grid(2, 4), grid(3), invert=True),
)
give("isin.Tensor_Scalar", case(ints(0, 3, 5, 3), 1), case(grid(2, 4), 0))
give(
    "gather",
    case(t(5, 3), 0, ints(0, 5, 4, 3)),
    case(t(5, 6), 1, ints(0, 6, 5, 2)),
    case(t(2, 4, 3), 1, ints(0, 4, 2, 5, 2)),
    case(t(7), 0, ints(0, 7, 3)),
)
give(
    "index_select",
    case(t(5, 3), 0, ints(0, 5, 4)),
    case(t(5, 6), 1, ints(0, 6, 3)),
    case(t(7), 0, ints(0, 7)),
    case(t(2, 4, 3), -1, ints(0, 3, 5)),
)
give(
    "index.Tensor",
    case(t(5, 3), [ints(0, 5, 4)]),
    case(t(5, 6), [None, ints(0, 6, 3)]),
    case(t(5, 4, 3), [ints(0, 5, 4), ints(0, 4, 4)]),
    case(t(5, 4, 3), [ints(0, 5, 4, 1), None, ints(0, 3, 6)]),
    case(t(5, 4, 3), [ints(0, 5, 2, 3)]),
    case(t(5, 3), [bools(5)]),
    case(t(5, 3), [bools(5, 3)]),
    case(t(2, 5, 4), [None, ints(0, 5, 4), ints(0, 4, 4)]),
)
give(
    "index_add",
    case(t(5, 3), 0, ints(0, 5, 4), t(4, 3)),
    case(t(5, 6), 1, ints(0, 6, 3), t(5, 3), alpha=-2),
    case(t(7), 0, ints(0, 7, 5), t(5)),
)
give("index_copy", case(t(5, 3), 0, PERMUTED, t(3, 3)), case(t(4, 6), 1, PERMUTED, t(4, 3)))
give(
    "index_fill.int_Scalar",
    case(t(5, 3), 0, ints(0, 5, 2), 1.5),
    case(t(4, 6), 1, ints(0, 6, 3), 0),
)
give(
    "index_put",
    case(t(5, 3), [PERMUTED], t(3, 3)),
    case(t(5, 3), [PERMUTED], t()),
    case(t(5, 6), [None, PERMUTED], t(5, 3)),
    case(t(5, 3), [ints(0, 5, 4)], t(4, 3), True),
    case(t(5, 4, 3), [ints(0, 5, 6), ints(0, 4, 6)], t(6, 3), True),
    case(t(5, 3), [bools(5)], t(3)),
    case(t(5, 3), [bools(5, 3)], t()),
)
give(
    "scatter.src",
    case(t(5, 3), 0, made(lambda g: columns(g, 5, 4, 3), "columns[4, 3]"), t(4, 3)),
    case(t(4, 6), 1, made(lambda g: columns(g, 6, 3, 4).T.contiguous(), "rows[4, 3]"), t(4, 5)),
)
give(
    "scatter.value",
    case(t(5, 3), 0, ints(0, 5, 4, 3), 1.5),
    case(t(4, 6), 1, ints(0, 6, 3, 2), 0.0),
)
give(
    "scatter_add",
    case(t(5, 3), 0, ints(0, 5, 4, 3), t(4, 3)),
    case(t(4, 6), 1, ints(0, 6, 4, 5), t(4, 5)),
    case(t(4, 6), 1, ints(0, 6, 3, 2), t(4, 5)),
    case(t(7), 0, ints(0, 7, 9), t(9)),
)
give("take", case(t(5, 3), ints(0, 15, 4, 3)), case(t(7), ints(0, 7, 5)))
give("index_fill.int_Tensor", case(t(5, 3), 0, ints(0, 5, 2), t()))
for reduce in ("prod", "mean", "amax", "amin"):
    rows = made(lambda g: torch.tensor([0, 4, 2]), "rows")
    give("index_reduce", case(distinct(5, 3), 0, rows, positive(3, 3), reduce))
    give("index_reduce", case(distinct(4, 6), 1, rows, positive(4, 3), reduce, include_self=False))
for reduce in ("sum", "prod", "mean", "amax", "amin"):
    give("scatter_reduce.two", case(distinct(5, 3), 0, ints(0, 5, 4, 3), positive(4, 3), reduce))
    give("scatter_reduce.two", case(distinct(4, 6), 1, ints(0, 6, 4, 5), positive(4, 5), reduce))

give(
    "_unsafe_masked_index",
    case(t(5, 3), bools(4, 1), [ints(0, 5, 4)], 0),
    case(t(5, 6), bools(5, 3), [None, ints(0, 6, 3)], 1.5),
    case(t(5, 4), bools(6), [ints(0, 5, 6), ints(0, 4, 6)], 0.5),
)
give(
    "_unsafe_masked_index_put_accumulate",
    case(t(5, 3), bools(4, 1), [ints(0, 5, 4)], t(4, 3)),
    case(t(5, 6), bools(5, 3), [None, ints(0, 6, 3)], t(5, 3)),
    case(t(5, 4), bools(6), [ints(0, 5, 6), ints(0, 4, 6)], t(6)),
)
