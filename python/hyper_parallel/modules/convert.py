"""From and to torch's own DTensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel._core import Layout_, Mesh
from hyper_parallel.dtensors.dtensor import DTensor
from hyper_parallel.errors import UnsupportedError, make_error, usage_error
from hyper_parallel.layouts.layout import Layout
from hyper_parallel.layouts.mesh import as_mesh

__all__ = ["from_torch", "to_torch"]


def from_torch(tensor: Any) -> DTensor:
    """Make a DTensor of one of torch's, of the same parts.

    A leaf gives a new leaf; a tensor with a graph stays in it. ``_StridedShard`` becomes the order
    in which axes cut a dim: ``[_StridedShard(0, sf=2), Shard(0)]`` is ``layout(("tp", "dp"))``.

    Raises:
        UsageError: not a DTensor of torch.

    Cost:
        Nothing is communicated, unless a ``_StridedShard`` cuts a dim that does not divide evenly:
        there torch's parts are other rows than ours, so that the dim is gathered.
    """
    if not type(tensor).__module__.startswith("torch.distributed.tensor"):
        raise usage_error(
            "HP-D023", f"from_torch takes a DTensor of torch, not a {type(tensor).__name__}"
        )
    leaf = tensor.is_leaf
    source = tensor.detach() if leaf else tensor
    layout, uneven = _layout_of(source)
    if uneven:
        from torch.distributed.tensor import Replicate

        source = source.redistribute(
            placements=[Replicate() if _cut_dim(p) in uneven else p for p in source.placements]
        )
    start = layout if not uneven else _layout_of(source)[0]
    made = DTensor.from_local(source.to_local(), Layout._of(start), shape=tensor.shape)
    made = _torch.redistribute(made, layout)
    return made.detach().requires_grad_(tensor.requires_grad) if leaf else made


def _cut_dim(placement: Any) -> int | None:
    """Tell the dim that one of torch's placements cuts."""
    strided = type(placement).__name__ == "_StridedShard"
    return placement.dim if strided or placement.is_shard() else None


def _layout_of(tensor: Any) -> tuple[Layout_, set[int]]:
    """Find the layout that torch's placements say, and the dims whose parts are other rows here."""
    mesh = as_mesh(tensor.device_mesh)
    orders: dict[int, list[int]] = {}
    strided: set[int] = set()
    for axis in reversed(range(mesh.ndim)):  # an axis is major to those right of it
        placement = tensor.placements[axis]
        dim = _cut_dim(placement)
        if dim is None:
            continue
        order = orders.setdefault(dim, [])
        before = getattr(placement, "split_factor", 1)
        place = next(
            (n for n in range(len(order) + 1) if _product(mesh, order[:n]) == before), None
        )
        if place is None:
            raise make_error(
                UnsupportedError,
                "HP-L023",
                f"{placement} is no order of the mesh's axes",
                mesh=mesh,
                placements=tensor.placements,
            )
        order.insert(place, axis)
        if before > 1:
            strided.add(dim)
    uneven = {dim for dim in strided if tensor.shape[dim] % _product(mesh, orders[dim])}
    partials = [p.reduce_op if p.is_partial() else None for p in tensor.placements]
    splits = [(dim, order, 1, []) for dim, order in sorted(orders.items())]
    return Layout_.of_splits(mesh, splits, partials), uneven


def _product(mesh: Mesh, axes: Sequence[int]) -> int:
    return math.prod(mesh.sizes[axis] for axis in axes)


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
    if not _sayable(layout, list(tensor.shape)):
        raise make_error(
            UnsupportedError,
            "HP-D024",
            "torch's placements cannot say this layout",
            layout=layout.to_string_with_mesh(),
            hint="redistribute() to one placement an axis; uneven dims in the order of the mesh",
        )
    if device_mesh is None:
        ranks = torch.tensor(mesh.ranks).reshape(list(mesh.sizes))
        device_mesh = TorchMesh(tensor.device.type, ranks, mesh_dim_names=tuple(mesh.names))
    elif as_mesh(device_mesh).ranks != mesh.ranks or as_mesh(device_mesh).sizes != mesh.sizes:
        raise usage_error("HP-L026", "to_torch: another mesh", tensor=mesh, given=device_mesh)
    placements = [_placement(layout, axis, theirs) for axis in range(mesh.ndim)]
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


def _sayable(layout: Layout_, sizes: Sequence[int]) -> bool:
    """Tell whether torch's placements can say a layout: no blocks or segments, and where axes cut
    a dim in another order than the mesh's, parts of one size."""
    if Layout_.get(layout.mesh, layout.placements) == layout:
        return True
    return all(
        split.block == 1
        and not split.segments
        and (
            split.axes == sorted(split.axes)
            or sizes[split.dim] % _product(layout.mesh, split.axes) == 0
        )
        for split in layout.splits
    )


def _placement(layout: Layout_, axis: int, theirs: Any) -> Any:
    placement = layout.placements[axis]
    if placement.is_replicate():
        return theirs.Replicate()
    if not placement.is_shard():
        return theirs.Partial(placement.reduce_op)
    order = next(split.axes for split in layout.splits if axis in split.axes)
    before = [other for other in order[: order.index(axis)] if other > axis]
    if not before:
        return theirs.Shard(placement.dim)
    from torch.distributed.tensor.placement_types import _StridedShard

    return _StridedShard(placement.dim, split_factor=_product(layout.mesh, before))
