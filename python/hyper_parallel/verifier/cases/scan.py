"""Ops along one dim: scans, sorting, softmax."""

import torch

from hyper_parallel.verifier.case import case, distinct, grid, ints, made, t

from .table import give

give("cumsum cumprod", *(case(t(5, 4, 3), d) for d in (0, 1, -1)), case(t(7), 0))
give("cumsum", case(ints(-9, 9, 5, 4), 1), case(t(5, 4), 0, dtype=torch.float32))
give("cummax cummin", *(case(distinct(5, 4, 3), d) for d in (0, 1, -1)))
give("logcumsumexp", *(case(t(5, 4, 3), d) for d in (0, 1, -1)))
give("sort argsort", case(distinct(5, 6)), *(case(distinct(5, 4, 3), d) for d in (0, 1)))
give("sort argsort", case(distinct(5, 6), 1, True))
give(
    "sort.stable argsort.stable",
    case(grid(5, 6), stable=True),
    case(grid(6, 5), stable=True, dim=0),
)
give("sort.stable argsort.stable", case(grid(5, 6), stable=True, dim=1, descending=True))
give("msort", case(distinct(5, 4)), case(distinct(3, 4, 5)))
give(
    "topk",
    case(distinct(5, 6), 2),
    case(distinct(6, 5), 3, 0),
    case(distinct(5, 4, 3), 2, 1, False),
    case(distinct(5, 8), 1, -1, True, True),
    case(distinct(5, 3), 3, 1),
)
give("softmax.int log_softmax.int special_softmax", *(case(t(5, 4, 3), d) for d in (0, 1, -1)))
give("special_log_softmax", *(case(t(5, 4, 3), d) for d in (0, 1, -1)))
give(
    "softmax.int log_softmax.int", case(t(5, 6), 1, torch.float32), case(t(7), 0), case(t(2, 5), 0)
)
give("_softmax _log_softmax", *(case(t(5, 4, 3), d, False) for d in (0, 1, -1)))
give("glu", case(t(5, 4)), case(t(6, 5), 0), case(t(2, 8, 3), 1))


def probabilities(log):
    def draw(g):
        x = torch.randn(5, 4, 3, generator=g, dtype=torch.float64)
        return torch.log_softmax(x, 1) if log else torch.softmax(x, 1)

    return made(draw, "probabilities[5, 4, 3]")


for log in (False, True):
    give(
        "_log_softmax_backward_data" if log else "_softmax_backward_data",
        case(t(5, 4, 3), probabilities(log), 1, torch.float64),
    )
