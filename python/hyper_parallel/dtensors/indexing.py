"""``x[index] = value`` where the index picks from a split dim."""

from __future__ import annotations

from typing import Any

import torch

from hyper_parallel import _torch


def needs_coordinates(tensor: torch.Tensor, index: Any, value: Any) -> bool:
    """Tell whether torch's own way cannot write into the parts.

    Where a number or a slice takes a part of a split dim torch writes through a view, which would
    need communication. A mask has as many values as it has ones: unless it is one number, each
    rank has to know which are its own.
    """
    split = {p.dim for p in _torch.layout(tensor).placements if p.is_shard()}
    if not split:
        return False
    items = list(index) if isinstance(index, tuple) else [index]
    used = sum(map(_dims_taken, items))
    dim = 0
    for item in items:
        if item is Ellipsis:
            dim += tensor.dim() - used
            continue
        number = isinstance(item, int) and not isinstance(item, bool)
        part = isinstance(item, slice) and item != slice(None)
        if (number or part) and dim in split:
            return True
        if _is_mask(item) and (len(items) > 1 or getattr(value, "ndim", 0) > 0):
            return True
        dim += _dims_taken(item)
    return False


def _is_mask(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8)


def _dims_taken(item: Any) -> int:
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.dim() if _is_mask(item) else 1


def put(tensor: torch.Tensor, index: Any, value: Any) -> None:
    """Write by the coordinates of the elements that ``index`` picks: each rank those it holds."""
    plain = tuple(map(_whole, index)) if isinstance(index, tuple) else _whole(index)
    coordinates = []
    for dim, size in enumerate(tensor.shape):
        shape = [1] * tensor.dim()
        shape[dim] = size
        line = torch.arange(size, device=tensor.device).view(shape)
        coordinates.append(line.expand(tensor.shape)[plain])
    target = coordinates[0].shape
    if not isinstance(value, torch.Tensor):
        value = torch.as_tensor(value, dtype=tensor.dtype, device=tensor.device)
    while value.dim() > len(target) and value.shape[0] == 1:
        value = value[0]
    if value.dtype != tensor.dtype:
        value = value.to(tensor.dtype)
    tensor.index_put_(tuple(coordinates), value.expand(target))


def _whole(item: Any) -> Any:
    whole = getattr(item, "full_tensor", None)
    return item if whole is None else whole().detach()
