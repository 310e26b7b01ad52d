"""Convolution and pooling over split space: results and all gradients are those of one device."""

import copy

import pytest
import torch
import torch.nn.functional as F
from handlers_support import close, compare, tensor, whole
from torch import nn

import hyper_parallel as hp
from hyper_parallel import Replicate, Shard, distribute_tensor, init_device_mesh, run_local

LINES = {n: ((n,), ("tp",)) for n in (2, 3, 4)}
GRID = ((2, 2), ("dp", "tp"))
on_lines = pytest.mark.parametrize("ranks", LINES)


def fetched(fn, operands, cuts, mesh, **options):
    """Compare as ``compare`` does, and check that no rank gathered the first operand."""

    def watched(*given):
        if not isinstance(given[0], hp.DTensor):
            return fn(*given)
        with hp.comm_report() as report:
            out = fn(*given)
        assert report.count(kind="all_gather") == 0, report.table()
        return out

    compare(watched, operands, cuts, mesh, **options)


def cut_first(operands, cut):
    return [cut, *[(None,)] * (len(operands) - 1)]


def values(shapes):
    return [tensor(*shape, seed=i) for i, shape in enumerate(shapes)]


# ---- Convolution -------------------------------------------------------------------------------


def conv2d(**options):
    return lambda x, w, b=None: F.conv2d(x, w, b, **options)


CONV2D = {
    "padded": (conv2d(padding=1), [(2, 4, 13, 12), (6, 4, 3, 3), (6,)]),
    "without padding": (conv2d(), [(2, 4, 13, 12), (6, 4, 3, 3), (6,)]),
    "stride": (conv2d(stride=2, padding=1), [(2, 4, 13, 12), (6, 4, 3, 3), (6,)]),
    "stride beyond the kernel": (conv2d(stride=3), [(2, 4, 13, 12), (6, 4, 2, 2), (6,)]),
    "stride of a kernel of 1": (conv2d(stride=2), [(2, 4, 13, 12), (6, 4, 1, 1), (6,)]),
    "dilation": (conv2d(padding=(2, 3), dilation=(2, 3)), [(2, 4, 13, 12), (6, 4, 3, 3), (6,)]),
    "groups": (conv2d(padding=1, groups=2), [(2, 4, 13, 12), (6, 2, 3, 3), (6,)]),
    "depthwise": (conv2d(padding=1, groups=4), [(2, 4, 13, 12), (4, 1, 3, 3), (4,)]),
    "same": (conv2d(padding="same"), [(2, 4, 13, 12), (6, 4, 4, 3), (6,)]),
    "same, dilated": (
        conv2d(padding="same", dilation=(1, 3)), [(2, 4, 13, 12), (6, 4, 3, 2), (6,)],
    ),
    "valid": (conv2d(padding="valid", stride=2), [(2, 4, 13, 12), (6, 4, 3, 3), (6,)]),
    "over several neighbours": (conv2d(padding=4), [(2, 3, 17, 16), (2, 3, 9, 9), (2,)]),
    "without bias": (conv2d(padding=1), [(2, 4, 13, 12), (6, 4, 3, 3)]),
    "one image": (conv2d(padding=1), [(4, 13, 12), (6, 4, 3, 3), (6,)]),
}  # fmt: skip


@on_lines
@pytest.mark.parametrize("dim", [-2, -1])
@pytest.mark.parametrize("name", CONV2D)
def test_conv2d(name, dim, ranks):
    fn, shapes = CONV2D[name]
    operands = values(shapes)
    cut = (operands[0].dim() + dim,)
    fetched(fn, operands, cut_first(operands, cut), LINES[ranks])


@pytest.mark.parametrize("name", CONV2D)
@pytest.mark.parametrize("cut", [(-2, -1), (-1, -2), (-2, -2)], ids=str)
def test_conv2d_on_two_axes(name, cut):
    fn, shapes = CONV2D[name]
    operands = values(shapes)
    cut = tuple(operands[0].dim() + dim for dim in cut)
    fetched(fn, operands, cut_first(operands, cut), GRID)


def test_axes_on_one_dim_in_another_order():
    fn, shapes = CONV2D["padded"]
    cuts = ["dp=2 tp=2: S(2, 1) S(2, 0)", (None,), (None,)]
    fetched(fn, values(shapes), cuts, GRID)


@pytest.mark.parametrize(
    "cuts",
    [
        [(2, 0), (None,), (None,)],  # batch
        [(2, 1), (None, 1), (None,)],  # channels that are summed: the bias counts once
        [(2, 1), (None, 1), None],
        [(2, None), (None, 0), (None, 0)],  # channels of the result
        [(1, 2), (1,), (None,)],
    ],
    ids=str,
)
def test_space_beside_other_dims(cuts):
    fetched(conv2d(padding=1), values([(3, 4, 13, 12), (6, 4, 3, 3), (6,)]), cuts, GRID)


def test_space_beside_split_groups():
    cuts = [(2, 1), (None, 0), (None, 0)]
    fetched(conv2d(padding=1, groups=4), values([(2, 4, 9, 8), (4, 1, 3, 3), (4,)]), cuts, GRID)


@on_lines
@pytest.mark.parametrize("stride", [1, 2])
def test_conv1d_and_conv3d(stride, ranks):
    one = values([(2, 4, 14), (6, 4, 5), (6,)])
    fetched(
        lambda x, w, b: F.conv1d(x, w, b, stride=stride, padding=2),
        one, cut_first(one, (2,)), LINES[ranks],
    )  # fmt: skip
    three = values([(2, 2, 5, 11, 4), (3, 2, 3, 3, 2), (3,)])
    fetched(
        lambda x, w, b: F.conv3d(x, w, b, stride=(1, stride, 1), padding=(0, 1, 1)),
        three, cut_first(three, (3,)), LINES[ranks],
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 5, 6])
@pytest.mark.parametrize("stride", [1, 2])
def test_some_ranks_have_nothing(size, stride):
    """Of the input, of the result, or of both; whichever way is chosen."""
    operands = values([(2, 3, size, 4), (2, 3, 3, 3), (2,)])
    for ranks in LINES:
        compare(conv2d(stride=stride, padding=1), operands, cut_first(operands, (2,)), LINES[ranks])
    compare(conv2d(stride=stride, padding=1), operands, cut_first(operands, (2, 3)), GRID)


@pytest.mark.parametrize("stride", [3, 5])
def test_fewer_results_than_ranks(stride):
    operands = values([(2, 3, 13), (2, 3, 2), (2,)])
    fetched(
        lambda x, w, b: F.conv1d(x, w, b, stride=stride), operands, cut_first(operands, (2,)),
        LINES[4],
    )  # fmt: skip


def test_channels_last():
    def fn(x, w, b):
        x = x.contiguous(memory_format=torch.channels_last)
        out = F.max_pool2d(F.conv2d(x, w, b, padding=1), 3, 1, 1)
        mine = out.to_local() if isinstance(out, hp.DTensor) else out
        assert mine.is_contiguous(memory_format=torch.channels_last)
        return out

    operands = values([(2, 4, 13, 12), (6, 4, 3, 3), (6,)])
    fetched(fn, operands, cut_first(operands, (2,)), LINES[3])
    fetched(fn, operands, cut_first(operands, (2, 3)), GRID)


def test_twice_differentiable():
    operands = values([(2, 2, 9, 6), (3, 2, 3, 3), (3,)])
    for cut, mesh in (((2,), LINES[3]), ((2, 3), GRID)):
        cuts = cut_first(operands, cut)
        fetched(conv2d(stride=2, padding=1), operands, cuts, mesh, create_graph=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_types(dtype):
    operands = [v.to(dtype) for v in values([(2, 4, 13, 12), (6, 4, 3, 3), (6,)])]
    fetched(conv2d(padding=1), operands, cut_first(operands, (2,)), LINES[3], grad=False)


# ---- Transposed convolution ----------------------------------------------------------------------


def transposed2d(**options):
    return lambda x, w, b=None: F.conv_transpose2d(x, w, b, **options)


TRANSPOSED = {
    "plain": (transposed2d(), [(2, 4, 9, 8), (4, 3, 3, 3), (3,)]),
    "padded": (transposed2d(padding=1), [(2, 4, 9, 8), (4, 3, 3, 3), (3,)]),
    "stride": (
        transposed2d(stride=2, padding=1, output_padding=1), [(2, 4, 9, 8), (4, 3, 3, 3), (3,)],
    ),
    "stride of the kernel": (transposed2d(stride=2), [(2, 4, 9, 8), (4, 3, 2, 2), (3,)]),
    "stride beyond the kernel": (
        transposed2d(stride=3, output_padding=2), [(2, 4, 9, 8), (4, 3, 2, 2), (3,)],
    ),
    "dilation": (
        transposed2d(stride=2, dilation=(2, 3), padding=1, output_padding=(1, 2)),
        [(2, 4, 9, 8), (4, 3, 3, 2), (3,)],
    ),
    "groups": (transposed2d(stride=2, groups=2), [(2, 4, 9, 8), (4, 3, 3, 3), (6,)]),
    "depthwise": (transposed2d(stride=2, groups=4), [(2, 4, 9, 8), (4, 1, 3, 3), (4,)]),
    "one image": (transposed2d(stride=2), [(4, 9, 8), (4, 3, 3, 3)]),
}  # fmt: skip


@on_lines
@pytest.mark.parametrize("dim", [-2, -1])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_conv_transpose2d(name, dim, ranks):
    fn, shapes = TRANSPOSED[name]
    operands = values(shapes)
    fetched(fn, operands, cut_first(operands, (operands[0].dim() + dim,)), LINES[ranks])


@pytest.mark.parametrize("name", TRANSPOSED)
@pytest.mark.parametrize("cut", [(-2, -1), (-2, -2)], ids=str)
def test_conv_transpose2d_on_two_axes(name, cut):
    fn, shapes = TRANSPOSED[name]
    operands = values(shapes)
    cut = tuple(operands[0].dim() + dim for dim in cut)
    fetched(fn, operands, cut_first(operands, cut), GRID)


@on_lines
def test_conv_transpose1d_and_3d(ranks):
    one = values([(2, 4, 11), (4, 3, 4), (3,)])
    fetched(
        lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1),
        one, cut_first(one, (2,)), LINES[ranks],
    )  # fmt: skip
    three = values([(2, 2, 3, 8, 2), (2, 3, 2, 3, 2), (3,)])
    fetched(
        lambda x, w, b: F.conv_transpose3d(x, w, b, stride=(1, 2, 1), padding=(0, 1, 0)),
        three, cut_first(three, (3,)), LINES[ranks],
    )  # fmt: skip


def test_transposed_sums_over_channels_count_the_bias_once():
    operands = values([(2, 4, 9, 8), (4, 3, 3, 3), (3,)])
    fetched(transposed2d(stride=2), operands, [(2, 1), (None, 0), (None,)], GRID)


# ---- Pooling -------------------------------------------------------------------------------------

POOLS = {
    "average": (lambda x: F.avg_pool2d(x, 2), (2, 3, 13, 12)),
    "average, aligned": (lambda x: F.avg_pool2d(x, 2), (2, 3, 16, 16)),
    "average, padded": (lambda x: F.avg_pool2d(x, 3, 1, 1), (2, 3, 13, 12)),
    "average, padding not counted": (
        lambda x: F.avg_pool2d(x, (3, 4), 1, (1, 2), count_include_pad=False), (2, 3, 13, 12),
    ),
    "average, ceil": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 3, 14, 12)),
    "average, ceil, padding not counted": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), (2, 3, 14, 12),
    ),
    "average, own divisor": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), (2, 3, 13, 12),
    ),
    "average of one image": (lambda x: F.avg_pool2d(x, 3, 2, 1), (3, 13, 12)),
    "maximum": (lambda x: F.max_pool2d(x, 2), (2, 3, 13, 12)),
    "maximum, padded": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 13, 12)),
    "maximum, dilated": (lambda x: F.max_pool2d(x, 3, 1, 1, dilation=2), (2, 3, 13, 12)),
    "maximum, ceil": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 3, 14, 12)),
    "maximum, with places": (
        lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (2, 3, 13, 12),
    ),
    "maximum, ceil, with places": (
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True), (2, 3, 14, 12),
    ),
    "adaptive average": (lambda x: F.adaptive_avg_pool2d(x, (6, 4)), (2, 3, 12, 16)),
    "adaptive average of as many": (lambda x: F.adaptive_avg_pool2d(x, (13, 12)), (2, 3, 13, 12)),
    "mean of the whole": (lambda x: F.adaptive_avg_pool2d(x, 1), (2, 3, 13, 12)),
    "mean along one dim": (lambda x: F.adaptive_avg_pool2d(x, (1, 4)), (2, 3, 13, 12)),
    "adaptive maximum, with places": (
        lambda x: F.adaptive_max_pool2d(x, (6, 4), return_indices=True), (3, 12, 16),
    ),
    "maximum along one dim, with places": (
        lambda x: F.max_pool2d(x, (1, 3), (1, 2), return_indices=True), (2, 3, 13, 12),
    ),
    "maximum of one image, with places": (
        lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (3, 13, 12),
    ),
}  # fmt: skip


@on_lines
@pytest.mark.parametrize("dim", [-2, -1])
@pytest.mark.parametrize("name", POOLS)
def test_pool2d(name, dim, ranks):
    fn, shape = POOLS[name]
    fetched(fn, [tensor(*shape)], [(len(shape) + dim,)], LINES[ranks])


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("cut", [(-2, -1), (-1, -2), (-1, -1)], ids=str)
def test_pool2d_on_two_axes(name, cut):
    fn, shape = POOLS[name]
    fetched(fn, [tensor(*shape)], [tuple(len(shape) + dim for dim in cut)], GRID)


REPEATS = {
    "twice": (lambda x: F.interpolate(x, scale_factor=2), (2, 3, 7, 6)),
    "by size": (lambda x: F.interpolate(x, size=(28, 12)), (2, 3, 7, 6)),
    "exact": (lambda x: F.interpolate(x, scale_factor=4, mode="nearest-exact"), (2, 3, 7, 6)),
    # 7 * 2.1 is 14 too, but other rows are read.
    "by a scale of its own": (lambda x: F.interpolate(x, scale_factor=(2.1, 2)), (2, 3, 7, 6)),
    "once": (lambda x: F.interpolate(x, scale_factor=(1, 1.1)), (2, 3, 7, 6)),
}


@pytest.mark.parametrize("name", REPEATS)
def test_nearest(name):
    fn, shape = REPEATS[name]
    for ranks in LINES:
        for dim in (2, 3):
            compare(fn, [tensor(*shape)], [(dim,)], LINES[ranks])
    compare(fn, [tensor(*shape)], [(2, 3)], GRID)
    compare(fn, [tensor(*shape)], [(2, 2)], GRID)


@on_lines
def test_nearest_moves_little(ranks):
    mesh = LINES[ranks]
    fetched(lambda x: F.interpolate(x, scale_factor=2), [tensor(2, 3, 13)], [(2,)], mesh)
    fetched(lambda x: F.interpolate(x, scale_factor=2), [tensor(2, 3, 2, 13, 2)], [(3,)], mesh)


@on_lines
def test_pool1d_and_pool3d(ranks):
    mesh = LINES[ranks]
    one, three = tensor(2, 3, 14), tensor(2, 3, 4, 13, 4)
    fetched(lambda x: F.avg_pool1d(x, 3, 2, 1), [one], [(2,)], mesh)
    fetched(lambda x: F.max_pool1d(x, 3, 2, 1), [one], [(2,)], mesh)
    fetched(lambda x: F.max_pool1d(x, 3, 2, 1, return_indices=True), [one], [(2,)], mesh)
    fetched(lambda x: F.avg_pool3d(x, 2, (1, 2, 1)), [three], [(3,)], mesh)
    fetched(lambda x: F.max_pool3d(x, 3, 2, 1), [three], [(3,)], mesh)
    fetched(lambda x: F.max_pool3d(x, 3, 2, 1, return_indices=True), [three], [(3,)], mesh)


@pytest.mark.parametrize("cut, mesh", [((2,), LINES[3]), ((2, 3), GRID)], ids=["3", "2x2"])
def test_maximum_among_equals_and_infinities(cut, mesh):
    """Padding must not win: the gradient goes where it goes on one device."""
    x = tensor(2, 2, 11, 8).mul(2).round() / 2
    x[:, :, :3] = -torch.inf
    x[:, :, -2:, 3:] = -torch.inf
    x[0, 1, 1, 0] = torch.nan
    for options in ({}, {"return_indices": True}, {"dilation": 2, "return_indices": True}):

        def fn(x, options=options):
            out = F.max_pool2d(x, 3, 2, 1, **options)
            value, *place = out if isinstance(out, tuple) else (out,)
            return [value.nan_to_num(0.5, 0, 0.25), *place]

        fetched(fn, [x], [cut], mesh)


def test_maximum_of_integers():
    x = (tensor(2, 2, 11, 8) * 10).to(torch.int64) - 50
    fetched(lambda x: F.max_pool2d(x, 3, 2, 1), [x], [(2,)], LINES[3])


# ---- What moves ----------------------------------------------------------------------------------


def test_a_halo_moves_less_than_a_gather():
    """Of 16 rows over 4 ranks those in the middle lack 2 of 256 bytes; a gather brings 12.

    Every rank reports the bytes of the rank that moves most.
    """
    x, w = (v.float() for v in values([(2, 4, 16, 8), (4, 4, 3, 3)]))

    def on_rank():
        mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
        split = distribute_tensor(x, mesh, [Shard(2)]).requires_grad_()
        weight = distribute_tensor(w, mesh, [Replicate()])
        with hp.comm_report() as report:
            out = F.conv2d(split, weight, padding=1)
            out.sum().backward()
        assert list(out.placements) == [Shard(2)]
        return [(r.kind, r.phase, r.op, r.reason, r.bytes) for r in report.rows if r.op]

    why = "halo, where a gather moves 3072 bytes"
    most = [
        ("all_to_all", "forward", "aten::conv2d", why, 512),
        ("all_to_all", "backward", "aten::conv2d", why, 512),
    ]
    assert run_local(on_rank, 4) == [most] * 4
    made = hp.infer_forward("conv2d", ["f32[2, 4, 16, 8] on x=4: S(2)", "f32[4, 4, 3, 3]"],
                            {"padding": [1, 1]})  # fmt: skip
    assert (made.handler, made.bytes) == ("halo", 512)


def test_nothing_moves_where_windows_do_not_cross():
    x = tensor(2, 4, 16, 8)

    def on_rank():
        mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
        split = distribute_tensor(x, mesh, [Shard(2)])
        with hp.comm_report() as report:
            F.max_pool2d(split, 2)
            F.conv2d(split, torch.ones(3, 4, 4, 4, dtype=torch.float64), stride=4)
            F.conv2d(split, torch.ones(3, 4, 1, 1, dtype=torch.float64))
        return report.rows

    assert run_local(on_rank, 4) == [[]] * 4


def test_a_window_over_all_is_gathered():
    x = tensor(1, 2, 8)

    def on_rank():
        mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
        split = distribute_tensor(x, mesh, [Shard(2)])
        with hp.comm_report() as report:
            out = F.conv1d(split, tensor(3, 2, 8))
        assert list(out.placements) == [Replicate()]
        return [r.kind for r in report.rows]

    assert run_local(on_rank, 4) == [["all_gather"]] * 4


def test_bad_windows_are_refused_as_on_one_device():
    x, w = tensor(1, 2, 8), tensor(3, 2, 3)
    bad = [
        lambda x: F.max_pool1d(x, 3, 1, 2),
        lambda x: F.avg_pool1d(x, 3, 1, 2),
        lambda x: F.conv1d(x, tensor(3, 2, 9)),
        lambda x: F.conv1d(x, tensor(3, 2, 10), stride=3),
        lambda x: F.conv1d(x, w, padding=-1),
        lambda x: F.conv1d(x, w, stride=0),
        lambda x: F.conv1d(x, w, padding="same", stride=2),
        lambda x: F.conv_transpose1d(x, tensor(2, 3, 3), stride=2, output_padding=2),
    ]
    for fn in bad:
        with pytest.raises((RuntimeError, ValueError)):
            fn(x)

        def on_rank(fn=fn):
            mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
            with pytest.raises((RuntimeError, ValueError)):
                fn(distribute_tensor(x, mesh, [Shard(2)]))

        run_local(on_rank, 2)


# ---- A net ---------------------------------------------------------------------------------------


def conv_net():
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(6, 8, 5, stride=2, padding=2, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 4 * 3, 5),
    ).double()


def train(net, images, labels):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loss = F.cross_entropy(net(images), labels)
    loss.backward()
    grads = [p.grad.clone() for p in net.parameters()]
    optimizer.step()
    return loss, grads, [*net.state_dict().values()]


@pytest.mark.parametrize(
    "sizes, cut",
    [((2,), [2]), ((3,), [2]), ((3,), [3]), ((2, 2), [2, 3]), ((2, 2), [2, 2]), ((2, 2), [0, 2])],
    ids=str,
)
def test_a_net_trains_as_on_one_device(sizes, cut):
    net = conv_net()
    images = tensor(4, 3, 33, 26)
    labels = torch.arange(4)
    expected = train(copy.deepcopy(net), images, labels)

    def on_rank():
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=("a", "b")[: len(sizes)])
        mine = hp.distribute_module(copy.deepcopy(net), mesh)
        split = distribute_tensor(images, mesh, [Shard(d) for d in cut])
        loss, grads, state = train(mine, split, labels)
        return whole(loss), [whole(g) for g in grads], [whole(s) for s in state]

    world = torch.Size(sizes).numel()
    for loss, grads, state in run_local(on_rank, world):
        close(loss, expected[0].detach(), torch.float64, "loss")
        for i, (a, e) in enumerate(zip(grads, expected[1], strict=True)):
            close(a, e, torch.float64, f"gradient {i}")
        for i, (a, e) in enumerate(zip(state, expected[2], strict=True)):
            close(a, e, torch.float64, f"state {i}")
