"""Handlers of maxima, top k and sort along a split dim."""

import pytest
import torch
from handlers_support import compare, every_mesh, split, tensor, whole

from hyper_parallel import Shard, distribute_tensor, init_device_mesh, run_local


@every_mesh
@split
@pytest.mark.parametrize("op", [torch.argmax, torch.argmin])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_argmax(op, cut, size, mesh):
    x = tensor(4, size)
    for keepdim in (False, True):
        compare(lambda x, k=keepdim: op(x, 1, k), [x], [cut], mesh, strict=False)
        compare(lambda x, k=keepdim: op(x, None, k), [x], [cut], mesh, strict=False)
    compare(lambda x: op(x, 1), [(x * 3).round().long()], [cut], mesh, strict=False)


# With 9 over 4 ranks the last one has none, and candidates are still cheaper than a gather.
@every_mesh
@pytest.mark.parametrize("size", [5, 9])
@pytest.mark.parametrize("op", [torch.max, torch.min])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_minmax_dim(op, cut, size, mesh):
    for keepdim in (False, True):
        compare(lambda x, k=keepdim: op(x, 1, keepdim=k), [tensor(4, size)], [cut], mesh)
    compare(lambda x: op(x, 1), [(tensor(4, size) * 2).round().int()], [cut], mesh)


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("op", [torch.max, torch.min])
def test_minmax_of_equal_values_and_nan(op, world):
    x = torch.tensor(
        [
            [1.0, 1, 1, 1, 1, 1, 1, 1, 1],
            [0, torch.nan, 3, torch.nan, 1, 2, 3, 4, torch.nan],
            [torch.inf] * 9,
            [-torch.inf] * 9,
        ],
        dtype=torch.float64,
    )

    def on_rank():
        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
        return [whole(r) for r in op(distribute_tensor(x, mesh, [Shard(1)]), 1)]

    for values, indices in run_local(on_rank, world):
        torch.testing.assert_close(values, op(x, 1).values, equal_nan=True)
        assert indices.tolist() == op(x, 1).indices.tolist()


@every_mesh
@pytest.mark.parametrize("size", [5, 9])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_topk(cut, largest, k, size, mesh):
    compare(lambda x: torch.topk(x, k, 1, largest), [tensor(4, size)], [cut], mesh)
    x = torch.randperm(4 * size, generator=torch.Generator().manual_seed(1)).view(4, size)
    compare(lambda x: torch.topk(x, k, 1, largest), [x], [cut], mesh)


@pytest.mark.parametrize("world, k", [(2, 1), (4, 1), (8, 2)])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_of_nan_and_infinity(largest, world, k):
    """Of 36 over 8 ranks the last one has one candidate only, and fills up."""
    x = tensor(6, 36)
    x[0, ::2] = torch.nan
    x[1] = -torch.inf
    x[2] = torch.inf
    x[3] = torch.nan
    x[3, 35] = 1
    x[4] = torch.inf
    x[4, 35] = torch.nan
    x[5] = -torch.inf
    x[5, 35] = torch.nan

    def on_rank():
        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
        values, indices = torch.topk(distribute_tensor(x, mesh, [Shard(1)]), k, 1, largest)
        return whole(values), whole(indices)

    for values, indices in run_local(on_rank, world):
        torch.testing.assert_close(values, torch.topk(x, k, 1, largest).values, equal_nan=True)
        torch.testing.assert_close(x.gather(1, indices), values, equal_nan=True)
        assert all(len(set(row)) == k for row in indices.tolist())


@every_mesh
@split
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("cut", [(1,), (1, 1), (1, 0)])
def test_sort(cut, descending, size, mesh):
    x = tensor(4, size)
    compare(lambda x: torch.sort(x, 1, descending), [x], [cut], mesh)
    compare(lambda x: torch.argsort(x, 1, descending), [x], [cut], mesh)
    compare(lambda x: torch.sort(x, dim=1, stable=True), [(x * 2).round()], [cut], mesh)
