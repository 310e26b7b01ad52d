"""New DTensors of a given size, made part by part.

All take torch's options: ``dtype``, ``device``, ``requires_grad``, ``layout``, ``pin_memory``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel.dtensors.dtensor import DTensor
from hyper_parallel.layouts.layout_specs import layout_of_arguments

__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]


def zeros(*size: Any, device_mesh: Any = None, placements: Any = None, **options: Any) -> DTensor:
    """Make a DTensor of zeros.

    zeros(4, 8, device_mesh=mesh, placements=[Shard(0)])
    zeros((4, 8), device_mesh=layout("dp", "None"))
    """
    return _made("zeros", size, device_mesh, placements, options)


def ones(*size: Any, device_mesh: Any = None, placements: Any = None, **options: Any) -> DTensor:
    """Make a DTensor of ones."""
    return _made("ones", size, device_mesh, placements, options)


def empty(*size: Any, device_mesh: Any = None, placements: Any = None, **options: Any) -> DTensor:
    """Make a DTensor whose values are arbitrary."""
    return _made("empty", size, device_mesh, placements, options)


def rand(*size: Any, device_mesh: Any = None, placements: Any = None, **options: Any) -> DTensor:
    """Make a DTensor of numbers between 0 and 1, those that one device would draw."""
    return _made("rand", size, device_mesh, placements, options)


def randn(*size: Any, device_mesh: Any = None, placements: Any = None, **options: Any) -> DTensor:
    """Make a DTensor of normal numbers, those that one device would draw."""
    return _made("randn", size, device_mesh, placements, options)


def full(
    size: Sequence[int],
    fill_value: Any,
    *,
    device_mesh: Any = None,
    placements: Any = None,
    **options: Any,
) -> DTensor:
    """Make a DTensor of one value; its element type is that of ``fill_value`` by default."""
    options.setdefault("dtype", torch.full((), fill_value).dtype)
    return _made("full", (size,), device_mesh, placements, options, fill_value)


def _made(
    name: str,
    size: tuple[Any, ...],
    device_mesh: Any,
    placements: Any,
    options: dict[str, Any],
    value: Any = 0,
) -> DTensor:
    sizes = list(size[0]) if len(size) == 1 and not isinstance(size[0], int) else list(size)
    layout = layout_of_arguments(device_mesh, placements, len(sizes))
    options.setdefault("device", getattr(device_mesh, "device_type", None))
    requires_grad = options.pop("requires_grad", False)
    # torch reads the options: its defaults, its names of devices, its errors.
    like = torch.empty(0, **options)
    number = torch.full((), value, dtype=like.dtype, device="cpu")
    return _torch.make_filled(name, sizes, layout, like, number, requires_grad)
