"""New DTensors of a given size, made part by part.

All take the options of torch's functions of the same names: dtype, device, requires_grad.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel.dtensors.dtensor import DTensor
from hyper_parallel.errors import usage_error
from hyper_parallel.launch.ranks import rank
from hyper_parallel.layouts.layout_specs import layout_of_arguments

__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]

Fill = Callable[[DTensor], object]


def zeros(*size: Any, device_mesh: Any = None, placements: Any = None, **options: Any) -> DTensor:
    """Make a DTensor of zeros.

    zeros(4, 8, device_mesh=mesh, placements=[Shard(0)])
    zeros((4, 8), device_mesh=layout("dp", "None"))
    """
    return _made(size, device_mesh, placements, options, lambda t: t.zero_())


def ones(*size: Any, device_mesh: Any = None, placements: Any = None, **options: Any) -> DTensor:
    """Make a DTensor of ones."""
    return _made(size, device_mesh, placements, options, lambda t: t.fill_(1))


def empty(*size: Any, device_mesh: Any = None, placements: Any = None, **options: Any) -> DTensor:
    """Make a DTensor whose values are arbitrary."""
    return _made(size, device_mesh, placements, options, lambda t: t)


def rand(*size: Any, device_mesh: Any = None, placements: Any = None, **options: Any) -> DTensor:
    """Make a DTensor of numbers between 0 and 1, those that one device would draw."""
    return _made(size, device_mesh, placements, options, lambda t: t.uniform_())


def randn(*size: Any, device_mesh: Any = None, placements: Any = None, **options: Any) -> DTensor:
    """Make a DTensor of normal numbers, those that one device would draw."""
    return _made(size, device_mesh, placements, options, lambda t: t.normal_())


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
    return _made((size,), device_mesh, placements, options, lambda t: t.fill_(fill_value))


def _made(
    size: tuple[Any, ...], device_mesh: Any, placements: Any, options: dict[str, Any], fill: Fill
) -> DTensor:
    sizes = list(size[0]) if len(size) == 1 and not isinstance(size[0], int) else list(size)
    layout = layout_of_arguments(device_mesh, placements, len(sizes))
    place = layout.mesh.coordinate(rank())
    if place is None:
        raise usage_error("HP-M032", f"rank {rank()} is not in the mesh", mesh=layout.mesh)
    options.setdefault("device", getattr(device_mesh, "device_type", None))
    requires_grad = options.pop("requires_grad", False)
    with torch.no_grad():
        part = torch.empty(layout.local_shape(sizes, place), **options)
        whole = _torch.wrap(part, layout.reduced(), sizes)
        fill(whole)
        made = _torch.redistribute(whole, layout)
    return made.requires_grad_(requires_grad)
