"""Handlers of losses over split classes and tokens."""

import pytest
import torch
import torch.nn.functional as F
from handlers_support import MESHES, compare, every_mesh, split, tensor

import hyper_parallel as hp
from hyper_parallel import Shard, distribute_tensor, init_device_mesh, run_local

TARGET = torch.tensor([0, 2, -100, 1, 2, 0])


@every_mesh
@split
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    "cut, target", [((1,), (None,)), ((1, 1), (None,)), ((1, 0), (None, 0)), ((0,), (0,))]
)
def test_cross_entropy(cut, target, smoothing, weighted, reduction, size, mesh):
    weight = [tensor(size).abs() + 0.1] if weighted else []
    compare(
        lambda x, t, *w: F.cross_entropy(
            x, t, *(u.detach() for u in w), reduction=reduction, label_smoothing=smoothing
        ),
        [tensor(6, size), TARGET, *weight],
        [cut, target, *([None] if weighted else [])],
        mesh,
    )


@every_mesh
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    "cut, target", [((1,), (None,)), ((1, 0), (None, 0)), ((2,), (1,)), ((1, 2), (None, 1))]
)
def test_cross_entropy_with_more_dims(cut, target, smoothing, reduction, mesh):
    targets = torch.tensor([[0, 4, 1], [3, -1, 2], [1, 1, 0], [2, 4, -1]])
    compare(
        lambda x, t: F.cross_entropy(
            x, t, ignore_index=-1, reduction=reduction, label_smoothing=smoothing
        ),
        [tensor(4, 5, 3), targets],
        [cut, target],
        mesh,
    )


@every_mesh
def test_cross_entropy_of_one_token(mesh):
    compare(F.cross_entropy, [tensor(5), torch.tensor(3)], [(0,), None], mesh)


@every_mesh
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("cut", [(1,), (0,), (1, 1), (1, 0)])
def test_cross_entropy_with_distributions(cut, smoothing, reduction, mesh):
    target = torch.softmax(tensor(6, 5, seed=3), 1)
    compare(
        lambda x, t, w: F.cross_entropy(
            x, t, w.detach(), reduction=reduction, label_smoothing=smoothing
        ),
        [tensor(6, 5), target, tensor(5).abs()],
        [cut, cut, None],
        mesh,
    )


@pytest.mark.parametrize("mesh", MESHES[:1] + MESHES[2:], ids=["2", "2x2"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_twice_differentiable(smoothing, mesh):
    compare(
        lambda x, t: F.cross_entropy(x, t, label_smoothing=smoothing),
        [tensor(6, 5), TARGET],
        [(1, 0), (None, 0)],
        mesh,
        create_graph=True,
    )


def test_cross_entropy_where_every_token_is_ignored():
    compare(
        lambda x, t: F.cross_entropy(x, t, reduction="sum"),
        [tensor(2, 5), torch.full((2,), -100)],
        [(1,), None],
        MESHES[0],
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_cross_entropy_of_half_types(dtype):
    compare(F.cross_entropy, [tensor(6, 37, dtype=dtype), TARGET], [(1,), None], MESHES[0])


def test_cross_entropy_refuses_targets_outside_the_classes():
    def on_rank():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        F.cross_entropy(distribute_tensor(tensor(2, 5), mesh, [Shard(1)]), torch.tensor([0, 5]))

    with pytest.raises(IndexError, match="Target 5 is out of bounds"):
        run_local(on_rank, 2)


def test_cross_entropy_moves_two_numbers_a_token_and_nothing_backward():
    def on_rank():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        x = distribute_tensor(tensor(6, 5), mesh, [Shard(1)]).requires_grad_()
        with hp.comm_report() as forward:
            loss = F.cross_entropy(x, TARGET)
        with hp.comm_report() as backward:
            loss.backward()
        return loss.layout, [r.kind for r in forward.rows], [r.kind for r in backward.rows]

    for layout, forward, backward in run_local(on_rank, 2):
        assert str(layout.placements) and forward == ["all_reduce", "all_reduce"] and backward == []


@every_mesh
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cut, target", [((1,), (None,)), ((1, 0), (None, 0)), ((0,), (0,))])
def test_nll_loss(cut, target, weighted, reduction, mesh):
    weight = [tensor(5).abs() + 0.1] if weighted else []
    compare(
        lambda x, t, *w: F.nll_loss(x, t, *(u.detach() for u in w), reduction=reduction),
        [tensor(6, 5), TARGET, *weight],
        [cut, target, *([None] if weighted else [])],
        mesh,
    )


@every_mesh
@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
@pytest.mark.parametrize("cut", [(0,), (1,), (1, 0), (0, 0)])
def test_mean_of_losses_of_pairs(loss, cut, mesh):
    compare(loss, [tensor(5, 3), tensor(5, 3, seed=1)], [cut, cut], mesh)


@every_mesh
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("as_tensors", [False, True])
@pytest.mark.parametrize("batch", [5, 3])
@pytest.mark.parametrize("cut, target", [((1,), None), ((1, 1), (0,)), ((0, 1), (None, 0))])
def test_ctc_loss(cut, target, batch, as_tensors, flat, reduction, mesh):
    lengths = [7, 6, 7, 5, 7][:batch], [2, 1, 3, 2, 0][:batch]
    labels = torch.arange(batch * 3).view(batch, 3) % 3 + 1
    if flat:
        labels = torch.cat([row[:n] for row, n in zip(labels, lengths[1], strict=True)])
        target = None if target is None else (None,)

    def loss(x, t):
        sizes = [torch.tensor(n) for n in lengths] if as_tensors else lengths
        return F.ctc_loss(x.log_softmax(-1), t, *sizes, reduction=reduction)

    compare(loss, [tensor(7, batch, 4), labels], [cut, target], mesh)


@every_mesh
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("cut, target", [((0,), (0,)), ((0, 0), (0, 0)), ((1, 0), (None, 0))])
def test_chunked_linear_cross_entropy(cut, target, reduction, mesh):
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2, chunking_method=None)

    def loss(x, w, t, b):
        return F.linear_cross_entropy(x, w, t, linear_bias=b, reduction=reduction, options=options)

    compare(
        loss,
        [tensor(6, 4), tensor(5, 4, seed=1), TARGET, tensor(5, seed=2)],
        [cut, (0,), target, (None,)],
        mesh,
    )


def test_chunked_mean_in_half_precision_whose_sum_is_out_of_range():
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2, chunking_method=None)
    x = torch.zeros(6, 4, dtype=torch.float16)
    x[:, 0] = 200
    w = torch.zeros(5, 4, dtype=torch.float16)
    w[0, 0] = 100
    target = torch.tensor([1, 2, 3, 4, -100, 1])

    def on_rank():
        mesh = init_device_mesh("cpu", (3,), mesh_dim_names=("dp",))
        a, t = (distribute_tensor(v, mesh, [Shard(0)]) for v in (x, target))
        return F.linear_cross_entropy(a, w, t, options=options).full_tensor()

    want = F.linear_cross_entropy(x, w, target, options=options)
    assert want.isfinite()
    for result in run_local(on_rank, 3):
        torch.testing.assert_close(result, want, rtol=2e-3, atol=0)
