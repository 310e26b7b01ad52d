"""Ops that torch lacks."""

import torch

from hyper_parallel.verifier.case import case, ints, made, positive, t, uniform

from .table import give

give(
    "hyper_parallel::gather_nd",
    case(t(4, 3, 5), ints(0, 3, 5, 2)),
    case(t(5, 3), ints(0, 5, 4, 1)),
)
give(
    "hyper_parallel::scatter_nd_add",
    case(t(3, 4), ints(0, 3, 5, 1), t(5, 4)),
    case(t(5, 4), ints(-3, 4, 6, 2), t(6)),
)
give("hyper_parallel::squared_l2_norm", case(t(5, 3)), case(t(4)))
give(
    "hyper_parallel::slice",
    case(t(5, 4, 3), [1], [1], [3], []),
    case(t(5, 4, 3), [0, 1], [1, 0], [2, 3], [0]),
)
give(
    "hyper_parallel::group_norm",
    case(t(4, 6, 3), t(6), t(6), 3),
    case(t(6, 4, 3), None, None, 2),
)
give(
    "hyper_parallel::instance_norm",
    case(t(6, 4, 3), t(4), t(4)),
    case(t(4, 6, 5), t(6), None),
)
give(
    "hyper_parallel::rope",
    case(t(5, 3, 4, 6), t(5, 3, 4, 6), t(5, 3, 2, 6), t(1, 3, 1, 6), t(1, 3, 1, 6)),
    case(t(4, 6, 3, 2), t(4, 6, 3, 2), t(4, 6, 3, 2), t(6, 2), t(6, 2), ints(0, 6, 4, 6)),
)
give(
    "hyper_parallel::label_smooth",
    case(t(5, 3, 4), t(4)),
    case(t(5, 3), t(5, 3)),
    case(t(5, 3)),
)
give(
    "hyper_parallel::batch_norm",
    *(case(t(5, 6, 3), t(6), t(6), t(6), positive(6), training) for training in (False, True)),
)
give(
    "hyper_parallel::cross_entropy_with_softmax",
    case(t(5, 4), ints(0, 4, 5, 1), 1, False),
    case(t(5, 4, 3), uniform(0, 1, 5, 4, 3), 1, True),
)
give(
    "hyper_parallel::roi_align",
    *(
        case(
            t(3, 5, 6, 4),
            made(lambda g: 4 * torch.rand(4, 4, generator=g).double().cumsum(1), "boxes"),
            made(lambda g: torch.tensor([1, 0, 3]), "counts"),
            2,
            3,
            0.5,
            ratio,
        )
        for ratio in (-1, 2)
    ),
)
give("hyper_parallel::unique", case(ints(0, 5, 4, 3)))
