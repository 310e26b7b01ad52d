"""Handlers of means, variances, vector norms and sums along a split dim."""

import pytest
import torch
from handlers_support import MESHES, compare, every_mesh, split, tensor, whole

import hyper_parallel as hp
from hyper_parallel import Shard, distribute_tensor, init_device_mesh, run_local


@every_mesh
@split
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_mean(cut, size, mesh):
    x = tensor(4, size)
    compare(torch.mean, [x], [cut], mesh)
    compare(lambda x: x.mean(1), [x], [cut], mesh)
    compare(lambda x: x.mean((0, 1), keepdim=True), [x], [cut], mesh)
    compare(lambda x: x.mean(1, dtype=torch.float64), [x.float()], [cut], mesh)


def test_mean_of_half_types_does_not_overflow():
    compare(torch.mean, [torch.full((2000,), 100.0, dtype=torch.float16)], [(0,)], MESHES[0])


@every_mesh
@split
@pytest.mark.parametrize("op", [torch.var, torch.std])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_var(op, cut, size, mesh):
    x = tensor(4, size)
    compare(op, [x], [cut], mesh)
    compare(lambda x: op(x, 1), [x], [cut], mesh)
    compare(lambda x: op(x, 1, keepdim=True, correction=0), [x], [cut], mesh)
    compare(lambda x: op(x, (0, 1), unbiased=False), [x], [cut], mesh)


def test_std_of_equal_values_has_gradient_zero():
    compare(lambda x: torch.std(x, 1), [torch.ones(2, 5, dtype=torch.float64)], [(1,)], MESHES[0])


def test_var_twice_differentiable():
    compare(lambda x: torch.var(x, 1), [tensor(3, 5)], [(1,)], MESHES[0], create_graph=True)


@every_mesh
@split
@pytest.mark.parametrize("p", [2, 1, 3, 0.5, 0, -1, torch.inf, -torch.inf])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_vector_norm(cut, p, size, mesh):
    x = tensor(4, size)
    compare(lambda x: torch.linalg.vector_norm(x, p, 1), [x], [cut], mesh)
    compare(lambda x: torch.linalg.vector_norm(x, p), [x], [cut], mesh)
    compare(lambda x: torch.norm(x, p, 1, keepdim=True), [x], [cut], mesh)


@pytest.mark.parametrize("p", [2, 1, 3, torch.inf])
def test_vector_norm_at_zero_and_at_equal_values(p):
    compare(
        lambda x: torch.linalg.vector_norm(x, p, 1),
        [torch.zeros(2, 5, dtype=torch.float64)],
        [(1,)],
        MESHES[1],
    )
    compare(
        lambda x: torch.linalg.vector_norm(x, p, 1),
        [torch.ones(2, 5, dtype=torch.float64)],
        [(1,)],
        MESHES[1],
    )


def test_vector_norm_of_nan():
    x = tensor(2, 5)
    x[0, 4] = torch.nan

    def on_rank():
        mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
        return whole(torch.linalg.vector_norm(distribute_tensor(x, mesh, [Shard(1)]), torch.inf, 1))

    for result in run_local(on_rank, 4):
        torch.testing.assert_close(
            result, torch.linalg.vector_norm(x, torch.inf, 1), equal_nan=True
        )


@every_mesh
@pytest.mark.parametrize("p", [2, 1, torch.inf])
@pytest.mark.parametrize("grad", [True, False])
def test_foreach_norm(p, grad, mesh):
    compare(
        lambda *x: torch._foreach_norm(x, p),
        [tensor(4, 5), tensor(7), tensor(2, 3), tensor(6, 2)],
        [(1,), (0,), (None,), (0, 0)],
        mesh,
        grad=grad,
    )


def test_foreach_norm_is_one_collective():
    def on_rank():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        tensors = [distribute_tensor(tensor(4, n), mesh, [Shard(1)]) for n in (3, 4, 5, 6)]
        with hp.comm_report() as report:
            torch._foreach_norm(tensors)
        return [r.kind for r in report.rows]

    assert run_local(on_rank, 2) == [["all_reduce"]] * 2


@every_mesh
@split
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_cumsum(cut, size, mesh):
    compare(lambda x: torch.cumsum(x, 1), [tensor(4, size)], [cut], mesh)
    compare(lambda x: torch.cumsum(x, 1), [torch.arange(4 * size).view(4, size).int()], [cut], mesh)
    compare(
        lambda x: torch.cumsum(x, 1, dtype=torch.float64), [tensor(4, size).float()], [cut], mesh
    )


def test_cumsum_twice_differentiable():
    compare(lambda x: torch.cumsum(x, 1) ** 2, [tensor(3, 5)], [(1,)], MESHES[1], create_graph=True)


@every_mesh
def test_squeeze_looks_at_global_sizes(mesh):
    for fn in (
        lambda x: x.squeeze(),
        lambda x: x.squeeze(1),
        lambda x: x.squeeze((0, 1)),
    ):
        compare(fn, [tensor(4, 1, 2)], [(0,)], mesh)


@every_mesh
@split
@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cut", [(0,), (1,), (1, 1), (1, 0)])
def test_histogram(cut, weighted, density, size, mesh):
    operands = [tensor(4, size)] + [tensor(4, size, seed=1).abs()] * weighted

    def counts(*bins, **options):
        return lambda x, *w: torch.histogram(
            x, *bins, weight=w[0] if w else None, density=density, **options
        )

    for fn in (
        counts(5),
        counts(4, range=(-1.0, 0.5)),
        counts(torch.tensor([-1.0, 0, 2]).double()),
    ):
        compare(fn, operands, [cut] * len(operands), mesh, grad=False)


@every_mesh
@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("cut", [(0,), (1,), (0, 1)])
def test_histogramdd(cut, density, mesh):
    def counts(x):
        hist, edges = torch.histogramdd(x, [3, 2], density=density)
        return hist, *edges

    compare(counts, [tensor(5, 2)], [cut], mesh, grad=False)


def test_a_histogram_of_nan_is_refused():
    x = tensor(5)
    x[1] = torch.nan

    def on_rank():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        torch.histogram(distribute_tensor(x, mesh, [Shard(0)]), 3)

    with pytest.raises(RuntimeError, match="finite"):
        run_local(on_rank, 2)
