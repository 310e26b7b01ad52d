"""Code that runs on local tensors: its mesh, its borders, and the DTensors that it gives back.

Inside ``custom_shard``, ``DFunction`` and ``DistributedOp`` tensors are parts, and gradients are in
the dual layout: that of a replicated value is each rank's own contribution.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel._core import Layout_, Mesh
from hyper_parallel._torch import Region

_raw: contextvars.ContextVar[bool] = contextvars.ContextVar("raw", default=False)


def is_raw() -> bool:
    """Tell whether ``to_local`` gives parts as the library's own code uses them."""
    return _raw.get()


@contextlib.contextmanager
def running(region: Region) -> Iterator[Region]:
    """Make ``region`` the current one, which collectives inside ask for their mesh."""
    before = _torch.set_current_region(region)
    try:
        yield region
    finally:
        _torch.set_current_region(before)


@contextlib.contextmanager
def raw_locals() -> Iterator[None]:
    """Make ``to_local`` and ``local`` agree on gradients with the code inside a region."""
    token = _raw.set(True)
    try:
        yield
    finally:
        _raw.reset(token)


def local_of(value: torch.Tensor, mesh: Mesh) -> torch.Tensor:
    """Get the part that local code uses. A plain tensor counts as the same value on every rank."""
    return _torch.part_for(value, mesh)


def wrap_results(
    parts: Sequence[torch.Tensor], layouts: Sequence[Layout_], what: str, names: Sequence[str]
) -> list[Any]:
    """Make DTensors of the parts that local code gave.

    Raises:
        UsageError: parts of ranks that do not fit together in these layouts.

    Cost:
        One all-gather of sizes over the mesh if some layout cuts a dim. With ``checking`` one more
        and a read of the values, to compare copies.
    """
    return _torch.wrap_parts(list(parts), list(layouts), what, list(names))
