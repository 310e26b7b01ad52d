"""Joining and cutting."""

from hyper_parallel.verifier.case import case, t

from .table import give

give(
    "cat concat concatenate",
    case([t(5, 3), t(2, 3)], 0),
    case([t(5, 3), t(5, 4), t(5, 2)], 1),
    case([t(2, 4, 3), t(2, 4, 3)], -1),
    case([t(0), t(5, 3)], 0),
    case([t(5, 3)], 0),
    case([t(4, 3), t(4, 1)], 1),
)
give(
    "stack", case([t(5, 3), t(5, 3)]), case([t(5, 3), t(5, 3), t(5, 3)], 1), case([t(4), t(4)], -1)
)
give("split.Tensor unsafe_split.Tensor", case(t(5, 3), 2), case(t(5, 6), 3, 1), case(t(7, 2), 7))
give(
    "split.sizes split_with_sizes unsafe_split_with_sizes",
    case(t(6, 5), [2, 4]),
    case(t(5, 9), [4, 2, 3], 1),
    case(t(5, 3), [0, 5]),
)
give("chunk unsafe_chunk", case(t(5, 3), 2), case(t(5, 6), 3, 1), case(t(2, 3), 4))
give("unbind.int", case(t(3, 5)), case(t(5, 3), 1), case(t(4, 2, 3), -1))

give(
    "block_diag",
    case([t(5, 3), t(2, 4)]),
    case([t(4, 6), t(6, 3), t(5, 5)]),
    case([t(3), t(5, 4)]),
    case([t(), t(4, 4), t(6)]),
)
give(
    "_chunk_cat",
    case([t(5, 3), t(2, 4)], 0, 2),
    case([t(5, 4, 3), t(5, 6)], 1, 3),
    case([t(4, 6, 5), t(4, 6, 2)], 2, 2),
)
