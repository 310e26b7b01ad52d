"""Compare an op on split operands with the op on one device, forward and backward.

Meshes have 2 and 4 ranks and 2 x 2 ranks. A dim of 5 is cut unevenly, and of 3 over 4 ranks some
get nothing.
"""

import functools

import pytest
import torch

import hyper_parallel as hp
from hyper_parallel import Replicate, Shard, distribute_tensor, init_device_mesh, run_local

MESHES = [((2,), ("tp",)), ((4,), ("tp",)), ((2, 2), ("dp", "tp"))]
EXACT = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def tensor(*sizes, dtype=torch.float64, seed=0):
    """Make values that lie apart, so that no two are equal."""
    generator = torch.Generator().manual_seed(seed + sum(s * 7**i for i, s in enumerate(sizes)))
    return torch.randn(sizes, generator=generator, dtype=torch.float64).to(dtype)


def placements(ndim, cut):
    """Give one placement an axis; ``cut`` names a dim (or None) for each, from the last axis."""
    dims = [None] * ndim
    for i, dim in enumerate(cut[:ndim]):
        dims[ndim - 1 - i] = dim
    return [Replicate() if dim is None else Shard(dim) for dim in dims]


def close(actual, expected, dtype, what):
    tolerance = EXACT.get(expected.dtype, EXACT.get(dtype, 0))
    torch.testing.assert_close(
        actual, expected, rtol=tolerance, atol=tolerance, msg=lambda m: f"{what}: {m}"
    )


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def compare(fn, operands, cuts, mesh_sizes, *, grad=True, create_graph=False, strict=True):
    """Run ``fn(*operands)`` on one device and on ranks; compare results and gradients.

    ``cuts`` has for each operand a tuple of dims, a layout as text, or None for a plain one.
    """
    sizes, names = mesh_sizes

    def leaves(values):
        return [v.clone().requires_grad_(grad and v.is_floating_point()) for v in values]

    def loss_of(results):
        parts = [r for r in results if r.is_floating_point() and r.requires_grad]
        total = 0.0
        for i, r in enumerate(parts):
            weight = tensor(*r.shape, seed=50 + i, dtype=r.dtype)
            total = total + (r * weight).sum()
        return total if parts else None

    single = leaves(operands)
    expected = as_list(fn(*single))
    expected_grads = gradients(loss_of(expected), single, create_graph)

    def on_rank():
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
        wrapped = []
        for leaf, cut in zip(leaves(operands), cuts, strict=True):
            if cut is None:
                wrapped.append(leaf)
            else:
                if isinstance(cut, str):
                    value = distribute_tensor(leaf.detach(), hp.Layout.parse(cut))
                else:
                    value = distribute_tensor(leaf.detach(), mesh, placements(len(sizes), cut))
                wrapped.append(value.requires_grad_(leaf.requires_grad))
        with hp.policy("strict" if strict else "auto"):
            results = as_list(fn(*wrapped))
            loss = loss_of(results)
            grads = gradients(loss, wrapped, create_graph)
        return [whole(r) for r in results], [whole(g) for g in grads]

    for rank, (results, grads) in enumerate(
        run_local(on_rank, functools.reduce(int.__mul__, sizes))
    ):
        for i, (a, e) in enumerate(zip(results, expected, strict=True)):
            assert a.dtype == e.dtype
            close(a, e.detach(), operands[0].dtype, f"rank {rank} result {i}")
        for i, (a, e) in enumerate(zip(grads, expected_grads, strict=True)):
            assert (a is None) == (e is None), f"rank {rank} gradient {i}"
            if e is not None:
                close(a, e, operands[0].dtype, f"rank {rank} gradient {i}")


def gradients(loss, leaves, create_graph):
    wanted = [x for x in leaves if x.requires_grad]
    if loss is None or not wanted:
        return []
    grads = torch.autograd.grad(loss, wanted, create_graph=create_graph, allow_unused=True)
    if not create_graph:
        return list(grads)
    # A second time, of a function of the first gradients that is not linear in them.
    square = sum((g * g).sum() for g in grads if g is not None)
    return [*grads, *torch.autograd.grad(square, wanted, allow_unused=True)]


def whole(t):
    if t is None:
        return None
    return (t.full_tensor() if isinstance(t, hp.DTensor) else t).detach()


every_mesh = pytest.mark.parametrize("mesh", MESHES, ids=["2", "4", "2x2"])
split = pytest.mark.parametrize("size", [5, 3], ids=["uneven", "empty"])
