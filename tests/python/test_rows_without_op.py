"""Rows of ops that torch lacks are true for plain implementations of these ops.

The verifier runs every strategy of such a row on ranks, forward and backward, on an implementation
that is written here. Strategies with a handler wait for the library's own implementation; a list
says which they are.
"""

import pytest
import torch
import torch.nn.functional as F

from hyper_parallel import _core, verify
from hyper_parallel.verifier import case, ints, made, positive, t

MESHES = ((2,), (3,), (2, 2))
SPACE = "hyper_parallel"


def indexed(index):
    return tuple(index.unbind(-1))


def gather_nd(x, index):
    return x[indexed(index)]


def scatter_nd_add(x, index, updates):
    return x.index_put(indexed(index), updates, accumulate=True)


def squared_l2_norm(x):
    return (x * x).sum()


def slices(x, axes, starts, ends, decrease_axis):
    for axis, start, end in zip(axes, starts, ends, strict=True):
        x = x.narrow(axis, start, min(end, x.shape[axis]) - start)
    for axis in sorted(decrease_axis, reverse=True):
        x = x.squeeze(axis)
    return x


def by_channel(x, channels):
    return channels.reshape([1, -1] + [1] * (x.dim() - 2))


def group_norm(x, weight, bias, num_groups):
    rest = x[0, 0].numel() if x.numel() else 1
    rows = x.reshape(x.shape[0], num_groups, x.shape[1] // max(num_groups, 1) * rest)
    mean, var = rows.mean(-1), rows.var(-1, correction=0)
    y = ((rows - mean[..., None]) / (var[..., None] + 1e-5).sqrt()).reshape(x.shape)
    y = y if weight is None else y * by_channel(x, weight)
    return (y if bias is None else y + by_channel(x, bias)), mean, var


def instance_norm(x, weight, bias):
    return group_norm(x, weight, bias, x.shape[1])


def turned(x, sin, cos):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def rope(q, k, v, sin, cos, position_ids=None):
    sin, cos = (each.reshape(-1, each.shape[-1]) for each in (sin, cos))
    if position_ids is None:
        sin, cos = sin[None, :, None], cos[None, :, None]
    else:
        sin, cos = sin[position_ids][:, :, None], cos[position_ids][:, :, None]
    return tuple(turned(x, sin, cos) for x in (q, k, v))


def label_smooth(label, prior=None, epsilon=0.1):
    return (1 - epsilon) * label + epsilon * (1 / label.shape[-1] if prior is None else prior)


def batch_norm(x, weight, bias, mean, var, training):
    y = F.batch_norm(
        x, None if training else mean, None if training else var, weight, bias, training
    )
    return y, mean * 1, var * 1, mean * 1, var * 1


def cross_entropy_with_softmax(logits, label, dim, soft_label):
    log = logits.log_softmax(dim)
    loss = -(log * label).sum(dim, keepdim=True) if soft_label else -log.gather(dim, label)
    return log.exp(), loss


def roi_align(x, boxes, boxes_num, pooled_height, pooled_width):
    owner = torch.arange(len(boxes_num)).repeat_interleave(boxes_num)
    picked = x[owner] * boxes.sum(-1)[:, None, None, None]
    return F.adaptive_avg_pool2d(picked, (pooled_height, pooled_width))


THREE = "(Tensor, Tensor, Tensor)"
FIVE = "(Tensor, Tensor, Tensor, Tensor, Tensor)"
OPS = {
    "gather_nd(Tensor self, Tensor index) -> Tensor": (
        gather_nd,
        [case(t(4, 3, 5), ints(0, 3, 5, 2)), case(t(5, 3), ints(0, 5, 4, 1))],
    ),
    "scatter_nd_add(Tensor self, Tensor index, Tensor updates) -> Tensor": (
        scatter_nd_add,
        [case(t(3, 4), ints(0, 3, 5, 1), t(5, 4))],
    ),
    "squared_l2_norm(Tensor self) -> Tensor": (squared_l2_norm, [case(t(5, 3))]),
    "slice(Tensor self, int[] axes, int[] starts, int[] ends, int[] decrease_axis) -> Tensor": (
        slices,
        [case(t(5, 4, 3), [1], [1], [3], []), case(t(5, 4, 3), [0, 1], [1, 0], [2, 3], [0])],
    ),
    f"group_norm(Tensor input, Tensor? weight, Tensor? bias, int num_groups) -> {THREE}": (
        group_norm,
        [case(t(4, 6, 3), t(6), t(6), 3), case(t(6, 4, 3), None, None, 2)],
    ),
    f"instance_norm(Tensor input, Tensor? weight, Tensor? bias) -> {THREE}": (
        instance_norm,
        [case(t(6, 4, 3), t(4), t(4)), case(t(4, 6, 5), t(6), None)],
    ),
    "rope(Tensor q, Tensor k, Tensor v, Tensor sin, Tensor cos, Tensor? position_ids=None) "
    f"-> {THREE}": (
        rope,
        [
            case(t(5, 3, 4, 6), t(5, 3, 4, 6), t(5, 3, 2, 6), t(1, 3, 1, 6), t(1, 3, 1, 6)),
            case(t(4, 6, 3, 2), t(4, 6, 3, 2), t(4, 6, 3, 2), t(6, 2), t(6, 2), ints(0, 6, 4, 6)),
        ],
    ),
    "label_smooth(Tensor label, Tensor? prior=None, float epsilon=0.1) -> Tensor": (
        label_smooth,
        [case(t(5, 3, 4), t(4)), case(t(5, 3), t(5, 3)), case(t(5, 3))],
    ),
    "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, "
    f"bool training) -> {FIVE}": (
        batch_norm,
        [
            case(t(5, 6, 3), t(6), t(6), t(6), positive(6), False),
            case(t(5, 6, 3), t(6), t(6), t(6), positive(6), True),
        ],
    ),
    "cross_entropy_with_softmax(Tensor logits, Tensor label, int dim, bool soft_label) "
    "-> (Tensor, Tensor)": (
        cross_entropy_with_softmax,
        [case(t(5, 4), ints(0, 4, 5, 1), 1, False), case(t(5, 4, 3), t(5, 4, 3), 1, True)],
    ),
    "roi_align(Tensor input, Tensor boxes, Tensor boxes_num, int pooled_height, "
    "int pooled_width) -> Tensor": (
        roi_align,
        [case(t(3, 5, 6, 4), t(4, 4), made(lambda g: torch.tensor([1, 0, 3]), "counts"), 2, 2)],
    ),
}

# Handlers that no implementation has yet.
WAITING = {
    "batch_norm": "batch_norm",
    "cross_entropy_with_softmax": "softmax_cross_entropy",
    "label_smooth": "label_smooth",
}

# Strategies that hold and that the rows lack, with the reason.
MISSING = {
    "batch_norm": "linear in weight and bias together; parameters are R or S",
    "group_norm": "linear in weight and bias together; parameters are R or S",
    "instance_norm": "linear in weight and bias together; parameters are R or S",
    "roi_align": "linear in the sum of a box as it is written here, not in coordinates",
    "rope": "q, k and v are independent: one may be P or split by heads alone",
    "cross_entropy_with_softmax": "linear in soft labels; labels are R or S",
}


@pytest.fixture(scope="module", autouse=True)
def library():
    lib = torch.library.Library(SPACE, "FRAGMENT")
    for schema, (function, _) in OPS.items():
        lib.define(schema)
        lib.impl(schema.partition("(")[0], function, "CompositeImplicitAutograd")
    yield
    lib._destroy()


@pytest.mark.parametrize("schema", OPS, ids=lambda schema: schema.partition("(")[0])
def test_every_strategy_of_the_row_is_true(schema):
    name = schema.partition("(")[0]
    report = verify(f"{SPACE}::{name}", cases=OPS[schema][1], meshes=MESHES, dispatch=False)
    refusal = f'no handler "{WAITING.get(name)}"'
    assert [str(f) for f in report.wrong if refusal not in f.detail] == []
    assert bool(report.wrong) == (name in WAITING)
    assert report.total("forced") > 0
    if name not in MISSING:
        assert [str(f) for f in report.missing] == []


def test_all_rows_without_an_op_are_here():
    rows = {op for _, op, _, _ in _core.rule_rows() if op.startswith(f"{SPACE}::")}
    # unique has no strategy but the whole one.
    assert rows == {f"{SPACE}::{s.partition('(')[0]}" for s in OPS} | {f"{SPACE}::unique"}
