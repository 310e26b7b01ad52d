"""Handlers of softmax, norms and addends: where the row or the sum is split."""

import math

import pytest
import torch
import torch.nn.functional as F
from handlers_support import MESHES, compare, every_mesh, placements, split, tensor, whole

import hyper_parallel as hp
from hyper_parallel import Shard, distribute_tensor, init_device_mesh, run_local

# ---- Softmax ------------------------------------------------------------------------------------


@every_mesh
@split
@pytest.mark.parametrize("op", [torch.softmax, torch.log_softmax])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_softmax(op, cut, size, mesh):
    compare(lambda x: op(x, 1), [tensor(4, size)], [cut], mesh)


@every_mesh
@pytest.mark.parametrize("op", [torch.softmax, torch.log_softmax])
def test_softmax_converts_its_input_to_dtype(op, mesh):
    compare(
        lambda x: op(x, -1, dtype=torch.float64),
        [tensor(4, 5, dtype=torch.float32)],
        [(1, 0)],
        mesh,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("op", [torch.softmax, torch.log_softmax])
def test_softmax_of_half_types(op, dtype):
    compare(lambda x: op(x, 1), [tensor(4, 37, dtype=dtype)], [(1,)], MESHES[0], grad=False)


def test_softmax_of_infinities():
    x = tensor(4, 5)
    x[0] = -torch.inf
    x[1, 2] = torch.inf
    x[2, :3] = -torch.inf
    x[3, 1] = torch.nan
    sizes, names = MESHES[1]

    def on_rank():
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
        return whole(torch.softmax(distribute_tensor(x, mesh, [Shard(1)]), 1))

    for result in run_local(on_rank, 4):
        torch.testing.assert_close(result, torch.softmax(x, 1), equal_nan=True)


@every_mesh
def test_softmax_twice_differentiable(mesh):
    compare(lambda x: torch.softmax(x, 1), [tensor(3, 5)], [(1,)], mesh, create_graph=True)


@every_mesh
@split
@pytest.mark.parametrize("dims, keepdim", [(1, False), (1, True), ((0, 1), False)])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_logsumexp(dims, keepdim, cut, size, mesh):
    compare(lambda x: torch.logsumexp(x, dims, keepdim), [tensor(4, size)], [cut], mesh)


def test_logsumexp_of_a_row_of_minus_infinity():
    x = tensor(3, 5)
    x[1] = -torch.inf
    compare(lambda x: torch.logsumexp(x, 1), [x], [(1,)], MESHES[1], grad=False)


# ---- Norms --------------------------------------------------------------------------------------


@every_mesh
@split
@pytest.mark.parametrize("cut", [(2,), (2, 2), (2, 0), (1, 2)])
def test_layer_norm(cut, size, mesh):
    parameter = tuple(None if d is None else d - 1 if d > 0 else None for d in cut)
    compare(
        lambda x, w, b: F.layer_norm(x, (4, size), w, b),
        [tensor(3, 4, size), tensor(4, size, seed=1), tensor(4, size, seed=2)],
        [cut, parameter, parameter],
        mesh,
    )


@every_mesh
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_layer_norm_with_plain_parameters(cut, mesh):
    compare(
        lambda x, w, b: F.layer_norm(x, (5,), w, b, eps=1e-3),
        [tensor(4, 5), tensor(5, seed=1), tensor(5, seed=2)],
        [cut, None, None],
        mesh,
    )


@every_mesh
@split
@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_rms_norm(cut, eps, size, mesh):
    parameter = tuple(0 if d == 1 else None for d in cut)
    compare(
        lambda x, w: F.rms_norm(x, (size,), w, eps),
        [tensor(4, size), tensor(size, seed=1)],
        [cut, parameter],
        mesh,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rms_norm_epsilon_of_half_types(dtype):
    compare(
        lambda x: F.rms_norm(x, (6,)),
        [tensor(3, 6, dtype=dtype) * 1e-3],
        [(1,)],
        MESHES[0],
        grad=False,
    )


def test_layer_norm_twice_differentiable():
    compare(lambda x: F.layer_norm(x, (5,)), [tensor(3, 5)], [(1,)], MESHES[0], create_graph=True)


def test_layer_norm_is_exact_far_from_zero():
    """One device is wrong by 1e-3 here, so the reference is in float64."""
    x = tensor(3, 64, dtype=torch.float32) + 1e4

    def on_rank():
        mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
        return whole(F.layer_norm(distribute_tensor(x, mesh, [Shard(1)]), (64,)))

    for result in run_local(on_rank, 4):
        torch.testing.assert_close(
            result.double(), F.layer_norm(x.double(), (64,)), rtol=0, atol=1e-6
        )


CHANNELS = {
    "as the input": ("batch", (0,), (0,)),
    "channels": ("channels", (0,), (0,)),
    "whole": ("batch", (None,), (None,)),
    "unlike each other": ("batch", (0,), (None,)),
    "whole beside channels": ("channels", (None,), (None,)),
    "two axes": ("batch", (0, 0), (None, 0)),
}


@every_mesh
@pytest.mark.parametrize("policy", ["auto", "strict"])
@pytest.mark.parametrize("size", [5, 3], ids=["uneven", "empty"])
@pytest.mark.parametrize("what", CHANNELS)
def test_running_statistics_in_any_layout(what, size, policy, mesh):
    """They are updated where they are; plain ones too. Then they serve without training."""
    sizes, names = mesh
    split_of, mean_cut, var_cut = CHANNELS[what]
    dim = 1 if split_of == "channels" else 0
    x, w = tensor(4, size, 3), tensor(size, seed=1)
    starts = tensor(size, seed=2), tensor(size, seed=3).abs()

    def run(x, w, statistics):
        y = F.batch_norm(x, *statistics, w, training=True, momentum=0.3)
        return y, F.batch_norm(x, *statistics, w), *statistics

    plain = x.clone().requires_grad_(), w.clone().requires_grad_()
    want = run(*plain, [t.clone() for t in starts])
    (want[0] * want[1]).sum().backward()

    def on_rank():
        device_mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
        a = distribute_tensor(x, device_mesh, placements(len(sizes), (dim,))).requires_grad_()
        b = distribute_tensor(w, device_mesh, placements(len(sizes), (None,))).requires_grad_()
        cuts = (placements(len(sizes), cut) for cut in (mean_cut, var_cut))
        split_ones = [
            distribute_tensor(t, device_mesh, c) for t, c in zip(starts, cuts, strict=True)
        ]
        layouts = [t.placements for t in split_ones]
        with hp.policy(policy):
            got = run(a, b, split_ones)
            (got[0] * got[1]).sum().backward()
            plain_ones = [t.clone() for t in starts]
            run(a.detach(), b.detach(), plain_ones)
        assert [t.placements for t in split_ones] == layouts
        return [whole(t) for t in (*got, *plain_ones, a.grad, b.grad)]

    for result in run_local(on_rank, math.prod(sizes)):
        wanted = (*want, *want[2:], plain[0].grad, plain[1].grad)
        for i, (g, e) in enumerate(zip(result, wanted, strict=True)):
            torch.testing.assert_close(
                g, e.detach(), rtol=1e-12, atol=1e-12, msg=lambda m, i=i: f"{i}: {m}"
            )


@every_mesh
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("cut", [(0,), (1,), (2,), (0, 1), (0, 0)])
def test_native_batch_norm(cut, training, mesh):
    channels = tuple(0 if d == 1 else None for d in cut)

    def native(x, w, b):
        mean, var = tensor(5, seed=3), tensor(5, seed=4).abs()
        out = torch.native_batch_norm(x, w, b, mean, var, training, 0.1, 1e-5)
        return out if training else out[:1]

    compare(
        native,
        [tensor(4, 5, 3), tensor(5, seed=1), tensor(5, seed=2)],
        [cut, channels, channels],
        mesh,
    )


@every_mesh
@pytest.mark.parametrize("cut", [(0,), (1,), (0, 2), (0, 0)])
def test_native_group_norm(cut, mesh):
    compare(
        lambda x, w, b: torch.native_group_norm(x, w, b, 5, 6, 3, 3, 1e-5),
        [tensor(5, 6, 3), tensor(6, seed=1), tensor(6, seed=2)],
        [cut, (None,), (0,)],
        mesh,
    )


@every_mesh
@pytest.mark.parametrize("cut", [(0,), (1,), (2,), (0, 1)])
def test_instance_norm_with_running_statistics(cut, mesh):
    def run(x, w):
        mean, var = w.detach() * 2, w.detach().abs() + 1
        return F.instance_norm(x, mean, var, w, use_input_stats=True), mean, var

    compare(run, [tensor(4, 5, 3), tensor(5, seed=1)], [cut, (0,)], mesh)


# ---- Linear -------------------------------------------------------------------------------------


@every_mesh
@split
def test_linear_with_a_split_sum(size, mesh):
    compare(
        F.linear,
        [tensor(4, size), tensor(3, size, seed=1), tensor(3, seed=2)],
        [(1,), (1,), (None,)],
        mesh,
    )


@every_mesh
def test_linear_bias_of_infinity_is_not_nan(mesh):
    bias = torch.tensor([torch.inf, 1.0, -torch.inf], dtype=torch.float64)
    compare(
        F.linear,
        [tensor(4, 5), tensor(3, 5, seed=1), bias],
        [(1,), (1,), (None,)],
        mesh,
        grad=False,
    )


@every_mesh
def test_addmm_keeps_alpha_and_beta(mesh):
    compare(
        lambda c, a, b: torch.addmm(c, a, b, alpha=2, beta=3),
        [tensor(4, 3), tensor(4, 5, seed=1), tensor(5, 3, seed=2)],
        [(None,), (1,), (0,)],
        mesh,
    )


@every_mesh
def test_addmv_and_baddbmm(mesh):
    compare(torch.addmv, [tensor(4), tensor(4, 5), tensor(5)], [(None,), (1,), (0,)], mesh)
    compare(
        torch.baddbmm,
        [tensor(2, 4, 3), tensor(2, 4, 5), tensor(2, 5, 3)],
        [(None,), (2,), (1,)],
        mesh,
    )
