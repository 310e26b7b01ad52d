"""From and to torch's own DTensor."""

from __future__ import annotations

from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel._core import Layout_
from hyper_parallel.dtensor import DTensor
from hyper_parallel.errors import UnsupportedError, make_error, usage_error
from hyper_parallel.mesh import as_mesh

__all__ = ["from_torch", "to_torch"]


def from_torch(tensor: Any) -> DTensor:
    """Make a DTensor of one of torch's, of the same parts; nothing is communicated.

    A leaf gives a new leaf; a tensor with a graph stays in it.

    Raises:
        UsageError: not a DTensor of torch.
        UnsupportedError: a ``_StridedShard``.
    """
    if not type(tensor).__module__.startswith("torch.distributed.tensor"):
        raise usage_error(
            "HP-D023", f"from_torch takes a DTensor of torch, not a {type(tensor).__name__}"
        )
    leaf = tensor.is_leaf
    part = tensor.to_local() if not leaf else tensor.to_local().detach()
    made = DTensor.from_local(part, tensor.device_mesh, tensor.placements, shape=tensor.shape)
    return made.requires_grad_(tensor.requires_grad) if leaf else made


def to_torch(tensor: torch.Tensor, device_mesh: Any = None) -> Any:
    """Make one of torch's DTensors, of the same parts; nothing is communicated.

    Args:
        device_mesh: torch's mesh of the same ranks; made by default.

    Raises:
        UsageError: not a DTensor, or a mesh of other ranks.
        UnsupportedError: a layout that torch's placements cannot say.
    """
    from torch.distributed import tensor as theirs
    from torch.distributed.device_mesh import DeviceMesh as TorchMesh

    if not _torch.is_dtensor(tensor):
        raise usage_error("HP-D020", "to_torch needs a DTensor", given=_torch.describe(tensor))
    layout = _torch.layout(tensor)
    mesh = layout.mesh
    if Layout_.get(mesh, layout.placements) != layout:
        raise make_error(
            UnsupportedError,
            "HP-D024",
            "torch's placements cannot say this layout",
            layout=layout.to_string_with_mesh(),
            hint="redistribute() to one placement an axis, each dim cut in the order of the mesh",
        )
    if device_mesh is None:
        ranks = torch.tensor(mesh.ranks).reshape(list(mesh.sizes))
        device_mesh = TorchMesh(tensor.device.type, ranks, mesh_dim_names=tuple(mesh.names))
    elif as_mesh(device_mesh).ranks != mesh.ranks or as_mesh(device_mesh).sizes != mesh.sizes:
        raise usage_error("HP-L026", "to_torch: another mesh", tensor=mesh, given=device_mesh)
    placements = [_placement(p, theirs) for p in layout.placements]
    leaf = tensor.is_leaf
    part = _torch.local(tensor) if leaf else tensor.to_local()  # type: ignore[attr-defined]
    made = theirs.DTensor.from_local(
        part,
        device_mesh,
        placements,
        run_check=False,
        shape=tensor.shape,
        stride=torch.empty(tensor.shape, device="meta").stride(),
    )
    return made.requires_grad_(tensor.requires_grad) if leaf else made


def _placement(placement: Any, theirs: Any) -> Any:
    if placement.is_shard():
        return theirs.Shard(placement.dim)
    return theirs.Replicate() if placement.is_replicate() else theirs.Partial(placement.reduce_op)
