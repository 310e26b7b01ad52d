"""Patterns of public reports: what users of other libraries ran into.

Each test asks for the right value or a clear error. The numbers in the names are rows of the list
of reports.
"""

import torch
from handlers_support import tensor

import hyper_parallel as hp
from hyper_parallel import Partial, Replicate, Shard, distribute_tensor, init_device_mesh

__all__ = [
    "F",
    "Partial",
    "Replicate",
    "Shard",
    "f64",
    "hp",
    "mesh_of",
    "partial",
    "patterns",
    "same",
    "split",
    "tensor",
]

F = torch.nn.functional
f64 = torch.float64


def mesh_of(sizes=(4,)):
    return init_device_mesh("cpu", sizes, mesh_dim_names=("dp", "tp", "ep")[: len(sizes)])


def patterns():
    """Give a table of patterns that run on 4 ranks, and the decorator that adds one by its rows."""
    calls = {}

    def report(*rows):
        def keep(fn):
            calls[f"rows {' '.join(map(str, rows))}: {fn.__name__}"] = fn
            return fn

        return keep

    return calls, report


def split(value, *placements, sizes=(4,)):
    return distribute_tensor(value, mesh_of(sizes), list(placements))


def partial(value, op="sum"):
    """Make a P tensor with this value: parts with changing signs, the rest on the last rank."""
    g = torch.Generator().manual_seed(9)
    parts = [torch.randn(value.shape, generator=g, dtype=value.dtype) for _ in range(3)]
    parts.append(value - sum(parts))
    return hp.DTensor.from_local(parts[hp.rank()], mesh_of(), [Partial(op)])


def same(got, want, tolerance=1e-12):
    got = got.full_tensor() if isinstance(got, hp.DTensor) else got
    torch.testing.assert_close(got.detach(), want.detach(), rtol=tolerance, atol=tolerance)
