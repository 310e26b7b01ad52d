"""What inference says an op moves is what the ranks move."""

import pytest
import torch
import torch.nn.functional as F

import hyper_parallel as hp
from hyper_parallel import run_local

NAMES = {torch.float32: "f32", torch.int64: "i64"}


def floats(*sizes):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(1))


def indices(below, *sizes):
    return torch.randint(0, below, sizes, generator=torch.Generator().manual_seed(2))


ROWS = floats(8, 6)
LABELS = indices(6, 8)
IMAGE = floats(8, 4, 6)

# An op, the same as a function, operands, their placements, attributes.
SAMPLES = [
    ("relu", F.relu, [ROWS], ["P(sum)"], {}),
    ("add.Tensor", torch.add, [ROWS, ROWS], ["S(0)", "S(1)"], {}),
    ("mm", torch.mm, [ROWS, floats(6, 4)], ["S(0)", "S(1)"], {}),
    ("mm", torch.mm, [ROWS, floats(6, 4)], ["S(1)", "R"], {}),
    ("reshape", lambda x: x.reshape(12, 4), [floats(4, 12)], ["S(1)"], {"shape": [12, 4]}),
    ("softmax.int", lambda x: F.softmax(x, 1), [ROWS], ["S(1)"], {"dim": 1}),
    ("log_softmax.int", lambda x: F.log_softmax(x, 1), [ROWS], ["S(1)"], {"dim": 1}),
    ("logsumexp", lambda x: torch.logsumexp(x, 1), [ROWS], ["S(1)"], {"dim": [1]}),
    (
        "layer_norm",
        lambda x, w, b: F.layer_norm(x, (6,), w, b),
        [ROWS, floats(6), floats(6)],
        ["S(1)", "S(0)", "S(0)"],
        {"normalized_shape": [6]},
    ),
    (
        "rms_norm",
        lambda x, w: F.rms_norm(x, (6,), w),
        [ROWS, floats(6)],
        ["S(1)", "S(0)"],
        {"normalized_shape": [6]},
    ),
    (
        "batch_norm",
        lambda x: F.batch_norm(x, None, None, training=True),
        [IMAGE, None, None, None, None],
        ["S(0)"],
        {"training": True},
    ),
    ("group_norm", lambda x: F.group_norm(x, 2), [IMAGE, None, None], ["S(2)"], {"num_groups": 2}),
    ("cumsum", lambda x: x.cumsum(1), [ROWS], ["S(1)"], {"dim": 1}),
    ("sort", lambda x: x.sort(1)[0], [ROWS], ["S(1)"], {"dim": 1}),
    ("argmax", lambda x: x.argmax(0), [floats(48, 2)], ["S(0)"], {"dim": 0}),
    ("max.dim", lambda x: x.max(0)[0], [floats(48, 2)], ["S(0)"], {"dim": 0}),
    ("topk", lambda x: x.topk(2, 0)[0], [floats(48, 2)], ["S(0)"], {"dim": 0, "k": 2}),
    ("var.correction", lambda x: x.var(0), [floats(48, 2)], ["S(0)"], {"dim": [0]}),
    (
        "linalg_vector_norm",
        lambda x: torch.linalg.vector_norm(x, dim=1),
        [ROWS],
        ["S(1)"],
        {"dim": [1]},
    ),
    ("mean.dim", lambda x: x.mean(1), [ROWS], ["S(1)"], {"dim": [1]}),
    ("amax", lambda x: x.amax(1), [ROWS], ["S(1)"], {"dim": [1]}),
    ("cross_entropy_loss", F.cross_entropy, [ROWS, LABELS], ["S(1)", "R"], {}),
    ("cross_entropy_loss", F.cross_entropy, [ROWS, LABELS], ["S(0)", "S(0)"], {}),
    ("nll_loss", F.nll_loss, [ROWS, LABELS], ["S(0)", "S(0)"], {}),
    (
        "embedding",
        lambda w, i: F.embedding(i, w),
        [ROWS, indices(8, 4, 3)],
        ["S(0)", "R"],
        {},
    ),
    (
        "index_select",
        lambda x, i: x.index_select(0, i),
        [ROWS, indices(8, 4)],
        ["S(0)", "R"],
        {"dim": 0},
    ),
    (
        "conv2d",
        lambda x, w: F.conv2d(x, w, padding=1),
        [floats(2, 4, 16, 8), floats(4, 4, 3, 3)],
        ["S(2)", "R"],
        {"padding": [1, 1]},
    ),
]


def check(sample, mesh, ranks, per_axis):
    """Compare the price of a call with the bytes of the rank that moves most."""
    op, function, operands, placements, attrs = sample
    given = [v for v in operands if v is not None]
    texts = [per_axis(p) for p in placements]
    specs = [
        f"{NAMES[v.dtype]}{list(v.shape)} on {mesh}: {text}"
        for v, text in zip(given, texts, strict=True)
    ]
    specs += [None] * (len(operands) - len(given))
    price = hp.infer_forward(f"aten::{op}", specs, attrs)
    assert price == hp.infer_forward(
        f"aten::{op}", specs, attrs, outputs=[None] * len(price.outputs)
    )

    def on_rank():
        laid = [
            hp.distribute_tensor(v, hp.Layout.parse(f"{mesh}: {text}"))
            for v, text in zip(given, texts, strict=True)
        ]
        with hp.comm_report() as report:
            function(*laid)
        return sum(row.bytes for row in report.rows), len(report.rows)

    ran = run_local(on_rank, ranks)
    most, rows = max(ran)
    # A report rounds each row to whole bytes.
    assert abs(most - price.bytes) <= rows / 2, f"{price}\nran {ran}"


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s[0])
def test_one_axis(sample, ranks):
    check(sample, f"x={ranks}", ranks, str)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s[0])
def test_two_axes_on_one_dim(sample):
    check(sample, "x=2 y=2", 4, lambda text: f"{text} {text}")
