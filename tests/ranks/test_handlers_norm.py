"""Handlers of softmax, norms and addends: where the row or the sum is split."""

import pytest
import torch
import torch.nn.functional as F
from handlers_support import MESHES, compare, every_mesh, split, tensor, whole

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
