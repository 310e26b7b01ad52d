"""Descriptions of layouts as arguments: layouts, placements, names of axes."""

from __future__ import annotations

from typing import Any

from hyper_parallel._core import Layout_, Mesh
from hyper_parallel.errors import usage_error
from hyper_parallel.layouts.layout import Layout
from hyper_parallel.layouts.mesh import as_mesh
from hyper_parallel.layouts.placement import as_placement, is_placement


def is_layout_spec(value: Any) -> bool:
    """Tell whether ``value`` describes the layout of one tensor.

    True for layouts, placements, sequences of placements, and sequences of names such as
    ``("dp", "None")``; a sequence of those describes several tensors.
    """
    if isinstance(value, (Layout, Layout_)) or is_placement(value):
        return True
    if not isinstance(value, (list, tuple)) or not value:
        return False
    if all(is_placement(each) for each in value):
        return True
    return any(isinstance(each, str) for each in value) and all(
        each is None or isinstance(each, str) or _is_names(each) for each in value
    )


def mesh_of_spec(value: Any) -> Mesh | None:
    """Get the mesh that a description of a layout brings along, if it does."""
    if isinstance(value, Layout):
        return value._mesh
    return value.mesh if isinstance(value, Layout_) else None


def resolve_layout(value: Any, mesh: Mesh | None, ndim: int) -> Layout_:
    """Get the layout that ``value`` describes for a tensor of ``ndim`` dims.

    Args:
        value: see ``is_layout_spec``.
        mesh: needed where ``value`` brings none.

    Raises:
        UsageError: no mesh, another mesh, or a description that does not fit.
    """
    own = mesh_of_spec(value)
    if own is not None:
        if mesh is not None and own != mesh:
            raise usage_error("HP-L026", "the layout is on another mesh", layout=value, mesh=mesh)
        return (value if isinstance(value, Layout) else Layout._of(value)).resolve(ndim)
    if mesh is None:
        raise usage_error(
            "HP-L027",
            f"{value!r} needs a mesh",
            hint="give a mesh, or a Layout in its place",
        )
    if is_placement(value):
        value = (value,)
    if not isinstance(value, (list, tuple)):
        raise usage_error(
            "HP-L028",
            f"{value!r} describes no layout",
            hint='layout("dp", "None"), (Shard(0), Replicate()) or ("dp", "None")',
        )
    if value and all(is_placement(each) for each in value):
        return Layout_.get(mesh, [as_placement(each) for each in value], ndim)
    return Layout._new(mesh)(*value).resolve(ndim)


def layout_of_arguments(device_mesh: Any, placements: Any, ndim: int) -> Layout_:
    """Get the layout that ``device_mesh`` and ``placements`` give, as in torch's functions.

    Either may be a configured ``Layout`` and the other left out; placements left out are R.
    """
    if placements is None:
        only_mesh = isinstance(device_mesh, Layout) and not device_mesh.configured
        if not only_mesh and is_layout_spec(device_mesh):
            return resolve_layout(device_mesh, None, ndim)
        return Layout_.replicated(as_mesh(device_mesh))
    mesh = None if device_mesh is None else as_mesh(device_mesh)
    return resolve_layout(placements, mesh, ndim)


def _is_names(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)
