"""``x[index] = value`` where the index picks from a split dim."""

from __future__ import annotations

from typing import Any

import torch

from hyper_parallel import _torch


def assign(tensor: torch.Tensor, index: Any, value: Any) -> bool:
    """Write by coordinates if torch's own way cannot write into the parts; tell whether it did."""
    try:
        items = [_item(each) for each in (index if isinstance(index, tuple) else (index,))]
    except (TypeError, ValueError, RuntimeError):
        return False  # no index: torch says so
    if not _torch.needs_coordinates(tensor, items, getattr(value, "ndim", 0)):
        return False
    if not isinstance(value, torch.Tensor):
        value = torch.as_tensor(value, dtype=tensor.dtype, device=tensor.device)
    _torch.assign_by_coordinates(tensor, items, value)
    return True


def _item(item: Any) -> Any:
    """Give one of the kinds that torch's C++ knows; a list or an array becomes a tensor."""
    if item is None or item is Ellipsis or isinstance(item, (bool, slice, torch.Tensor)):
        return item
    return item.__index__() if hasattr(item, "__index__") else torch.as_tensor(item)
