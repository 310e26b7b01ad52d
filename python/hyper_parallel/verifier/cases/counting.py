"""Counts in bins, and reductions of segments."""

import torch

from hyper_parallel.verifier.case import case, made, positive, t

from .table import SORTED, give, without

EDGES = made(lambda g: torch.tensor([-1.0, 0.0, 0.5, 2.0]).double(), "edges[4]")

give("histc", case(t(5, 3), 4, -2, 2), case(t(7), 3))
give(
    "histogram.bin_ct",
    case(t(5, 3), 4),
    case(t(7), 3, range=[-1.0, 1.0]),
    case(t(6, 4), 5, weight=positive(6, 4), density=True),
    case(t(5), 4, density=True),
)
give(
    "histogram.bins_tensor",
    case(t(5, 3), EDGES),
    case(t(8), SORTED, weight=positive(8)),
    case(t(5, 4), EDGES, weight=positive(5, 4), density=True),
)
give(
    "_histogramdd_bin_edges _histogramdd_from_bin_cts",
    case(t(5, 2), [3, 2]),
    case(t(6, 4, 3), [2, 3, 2], weight=positive(6, 4)),
    case(t(5, 2), [3, 4], range=[-1.0, 1.0, -2.0, 2.0], density=True),
)
give("_histogramdd_from_bin_cts", case(t(7, 2), [3, 2], density=True))
give(
    "_histogramdd_from_bin_tensors",
    case(t(5, 2), [EDGES, SORTED]),
    case(t(6, 4, 2), [EDGES, EDGES], weight=positive(6, 4), density=True),
)
without(
    "segment_reduce",
    "torch does not check lengths, and parts of a P are none, it would read out of bounds: "
    "test_verify.py runs its strategies alone",
)
