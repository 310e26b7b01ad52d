"""Ops of no larger family."""

import torch

from hyper_parallel.verifier.case import case, made, t

from .table import COMPLEX, SORTED, dominant, give, half

give(
    "_fft_c2c",
    case(t(5, 4, dtype=COMPLEX), [1], 0, True),
    case(t(3, 4, 2, dtype=COMPLEX), [0, 2], 1, False),
)
give("linalg_cross", case(t(5, 3), t(5, 3)), case(t(3, 4), t(3, 4), dim=0))
give(
    "linalg_solve_triangular",
    case(dominant(3, 4, 4), t(3, 4, 5), upper=True),
    case(dominant(4, 4), t(5, 4), upper=False, left=False),
)
give(
    "_grouped_mm",
    case(
        half(8, 16),
        half(3, 16, 16),
        made(lambda g: torch.tensor([3, 5, 8], dtype=torch.int32), "offsets[3]"),
    ),
    case(half(3, 8, 16), half(3, 16, 16)),
)
give("_fft_r2c", case(t(5, 4), [1], 0, True), case(t(3, 4, 2), [0, 2], 1, False))
give("_fft_c2r", case(t(5, 4, dtype=COMPLEX), [1], 0, 6), case(t(4, 3, dtype=COMPLEX), [0], 1, 7))
give("trace", case(t(5, 3)), case(t(4, 4)))
give("renorm", case(t(5, 3), 2.0, 0, 1.0), case(t(4, 5, 2), 1.0, -1, 1.5))
give(
    "searchsorted.Tensor",
    case(SORTED, t(5, 3)),
    case(made(lambda g: torch.randn(4, 6, generator=g).double().sort()[0], "rows[4, 6]"), t(4, 5)),
)
