"""Losses."""

import torch
import torch.nn.modules.linear_cross_entropy  # registers its ops

from hyper_parallel.verifier.case import case, ints, made, positive, t, uniform

from .table import give

for kind in (0, 1, 2):
    give(
        "cross_entropy_loss",
        case(t(5, 4), ints(0, 4, 5), None, kind),
        case(t(2, 5, 3), ints(0, 5, 2, 3), positive(5), kind),
        case(t(5, 4), uniform(0, 1, 5, 4), None, kind),
        case(t(4), ints(0, 4), None, kind),
        case(t(6, 4), ints(0, 4, 6), None, kind, 1),
        case(t(6, 4), ints(0, 4, 6), positive(4), kind, 2, 0.1),
        case(t(5, 4), uniform(0, 1, 5, 4), positive(4), kind, -100, 0.2),
    )
    give(
        "nll_loss nll_loss_nd",
        case(t(5, 4), ints(0, 4, 5), None, kind),
        case(t(5, 4), ints(0, 4, 5), positive(4), kind, 1),
    )
    give(
        "nll_loss_nd",
        case(t(4), ints(0, 4), None, kind),
        case(t(2, 5, 3), ints(0, 5, 2, 3), None, kind),
    )
    give(
        "nll_loss2d",
        case(t(2, 5, 3, 2), ints(0, 5, 2, 3, 2), None, kind),
        case(t(3, 4, 2, 2), ints(0, 4, 3, 2, 2), positive(4), kind, 1),
    )
    give("mse_loss l1_loss smooth_l1_loss huber_loss", case(t(5, 3), t(5, 3), kind))
    # The mean of broadcast operands has no gradient to compare with: torch 2.13 divides that of the
    # smaller operand by its own size, not by that of the loss (F.mse_loss broadcasts before).
    give("mse_loss smooth_l1_loss huber_loss", case(t(2, 4, 3), t(4, 3), kind, grad=kind != 1))
    give("l1_loss", case(t(2, 4, 3), t(4, 3), kind))
    give(
        "soft_margin_loss",
        case(
            t(5, 3),
            made(
                lambda g: torch.where(torch.rand(5, 3, generator=g) < 0.5, 1.0, -1.0).double(),
                "signs[5, 3]",
            ),
            kind,
        ),
    )
    give(
        "kl_div",
        case(t(5, 3), uniform(0.1, 1, 5, 3), kind),
        case(t(5, 3), t(5, 3), kind, log_target=True),
    )
    give("binary_cross_entropy", case(uniform(0.1, 0.9, 5, 3), uniform(0, 1, 5, 3), None, kind))
    give(
        "binary_cross_entropy",
        case(uniform(0.1, 0.9, 5, 3), uniform(0, 1, 5, 3), positive(3), kind),
    )
    give(
        "binary_cross_entropy_with_logits",
        case(t(5, 3), uniform(0, 1, 5, 3), None, None, kind),
        case(t(5, 3), uniform(0, 1, 5, 3), positive(5, 1), positive(3), kind),
    )
for reduction in (0, 1, 2):
    give("multi_margin_loss", case(t(5, 3), ints(0, 3, 5), reduction=reduction))
    give("multilabel_margin_loss_forward", case(t(5, 3), ints(-1, 3, 5, 3), reduction))

for kind in (0, 1, 2):
    give(
        "ctc_loss.IntList",
        case(t(6, 5, 4), ints(1, 4, 5, 2), [6, 5, 6, 4, 6], [2, 1, 2, 2, 0], 0, kind),
        case(t(6, 4, 5), ints(1, 5, 6), [6, 6, 5, 6], [1, 2, 2, 1], 0, kind, True),
        case(t(6, 4), ints(1, 4, 2), [6], [2], 0, kind),
    )
    give(
        "ctc_loss.Tensor",
        case(
            t(6, 4, 5),
            ints(1, 5, 4, 3),
            made(lambda g: torch.tensor([6, 5, 6, 6]), "lengths"),
            made(lambda g: torch.tensor([2, 3, 1, 2]), "lengths"),
            0,
            kind,
        ),
        case(
            t(6, 3, 5),
            ints(1, 5, 6),
            made(lambda g: torch.tensor([6, 5, 6]), "lengths"),
            made(lambda g: torch.tensor([2, 3, 1]), "lengths"),
            0,
            kind,
        ),
    )

CHUNKED = "torch_nn::_linear_cross_entropy_batch_chunked"
for kind in ("mean", "sum"):
    for weight in (None, positive(5)):
        give(
            CHUNKED,
            case(t(6, 4), t(5, 4), ints(0, 5, 6), t(5), weight, kind, 2, 0.0, 2, "compact",
                 torch.float64, True, True, True, True),
        )  # fmt: skip
give(
    f"{CHUNKED}_no_reduction",
    case(t(6, 4), t(5, 4), ints(0, 5, 6), t(5), None, 2, 2, "compact", torch.float64),
    case(t(5, 4), t(6, 4), ints(0, 6, 5), None, positive(6), -100, 4, "compact", torch.float64),
)
