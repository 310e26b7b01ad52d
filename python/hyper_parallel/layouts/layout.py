"""Layouts: a mesh and, for each tensor dim, the axes that cut it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from hyper_parallel._core import Layout_, Mesh, Placement
from hyper_parallel._core import Partial as _partial
from hyper_parallel.errors import usage_error
from hyper_parallel.layouts.mesh import DeviceMesh, as_mesh
from hyper_parallel.layouts.placement import as_placements, is_placement

__all__ = ["Layout"]

# Equal objects have one hash, and every layout equals torch.strided.
_HASH = hash(torch.strided)

Entry = str | None | Sequence[str]


class Layout:
    """Name the axes of a mesh, then say how tensors lie on it.

        layout = Layout((2, 4), ("dp", "tp"))    # a mesh of 8 ranks
        layout("dp", "None")                     # dim 0 cut by dp, dim 1 whole: S(0) R
        layout(("dp", "tp"), "None")             # dim 0 cut by dp, each chunk by tp
        layout()                                 # a tensor of no dims
        layout(Shard(0), Partial())              # one placement an axis

    A call gives a configured layout; nothing is ever changed. One made from names has one entry a
    tensor dim, and fits tensors of that many dims only.

    Args:
        mesh_shape: ranks along each axis.
        alias_name: one name an axis.
        rank_list: the ranks row by row; 0, 1, 2, ... by default.

    Raises:
        UsageError: names or ranks do not fit or repeat. From a call: an unknown name, a name used
            twice, a wrong number of placements.
    """

    __slots__ = ("_entries", "_layout", "_made", "_mesh", "_ndim", "_placements")

    _mesh: Mesh
    _layout: Layout_ | None  # None: not configured, or dims still count from the end
    _entries: tuple[tuple[str, ...], ...] | None  # the names for each dim, of a layout by names
    _placements: tuple[Placement, ...] | None  # as given, of a layout by placements
    _ndim: int  # of the tensor that it was asked of; 0: not known
    _made: dict[Any, Any]  # calls and, for placements, dims seen before

    def __init__(
        self,
        mesh_shape: int | Sequence[int],
        alias_name: str | Sequence[str],
        rank_list: Sequence[int] | None = None,
    ) -> None:
        sizes = [mesh_shape] if isinstance(mesh_shape, int) else list(mesh_shape)
        names = [alias_name] if isinstance(alias_name, str) else list(alias_name)
        self._set(Mesh.get(sizes, names, list(rank_list or [])))

    def _set(
        self,
        mesh: Mesh,
        layout: Layout_ | None = None,
        entries: tuple[tuple[str, ...], ...] | None = None,
        placements: tuple[Placement, ...] | None = None,
        ndim: int = 0,
    ) -> None:
        self._ndim = ndim
        self._mesh = mesh
        self._layout = layout
        self._entries = entries
        self._placements = placements
        self._made = {}

    @classmethod
    def _new(cls, mesh: Mesh, **parts: Any) -> Layout:
        layout = cls.__new__(cls)
        layout._set(mesh, **parts)
        return layout

    @classmethod
    def _of(cls, layout: Layout_, ndim: int = 0) -> Layout:
        return cls._new(layout.mesh, layout=layout, ndim=ndim)

    @classmethod
    def from_device_mesh(cls, device_mesh: Any) -> Layout:
        """Make a layout to be called from a mesh, ours or torch's."""
        return cls._new(as_mesh(device_mesh))

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Read the text form, such as ``dp=2 tp=4: S(0) R``."""
        return cls._of(Layout_.parse(text))

    def __call__(self, *entries: Any) -> Layout:
        """Configure: an entry for each tensor dim, or a placement for each axis.

        Args:
            entries: for each dim ``"None"`` (or None), the name of an axis, or a tuple of names,
                major to minor. Or placements, one an axis, also as one list.
        """
        try:
            made = self._made.get(entries)
        except TypeError:  # lists among the entries
            return self._configure(entries)
        if made is None:
            made = self._made[entries] = self._configure(entries)
        return made

    def _configure(self, entries: tuple[Any, ...]) -> Layout:
        first = entries[0] if len(entries) == 1 else None
        if isinstance(first, (list, tuple)) and first and is_placement(first[0]):
            entries = tuple(first)
        if any(is_placement(entry) for entry in entries):
            return self._by_placements(as_placements(entries))
        names = tuple(_names_of(entry, dim) for dim, entry in enumerate(entries))
        layout = Layout_.from_names(self._mesh, [list(each) for each in names])
        return self._new(self._mesh, layout=layout, entries=names)

    def _by_placements(self, placements: tuple[Placement, ...]) -> Layout:
        from_end = any(p.is_shard() and p.dim < 0 for p in placements)
        if from_end and len(placements) == self._mesh.ndim:
            return self._new(self._mesh, placements=placements)
        layout = Layout_.get(self._mesh, placements)
        return self._new(self._mesh, layout=layout, placements=placements)

    def with_partial(self, axis: str, reduce_op: str = "sum") -> Layout:
        """Make this layout with a pending reduction over ``axis``.

        Raises:
            UsageError: an unknown axis, or one that cuts a dim.
        """
        layout = self._need_layout()
        number = self._mesh.axis(axis)
        if layout.placements[number].is_shard():
            raise usage_error(
                "HP-L024", f'mesh axis "{axis}" cuts a dim, it cannot be partial too', layout=self
            )
        made = layout.with_axis(number, _partial(reduce_op))
        return self._new(self._mesh, layout=made, entries=self._entries)

    def with_segments(self, dim: int, *sizes: int) -> Layout:
        """Make this layout with ``dim`` a row of parts of these sizes, each cut on its own.

        For fused weights: with ``layout("tp", "None").with_segments(0, 64, 32, 32)`` a rank holds
        its piece of q, of k and of v.

        Raises:
            UsageError: ``dim`` is not cut.
        """
        layout = self._need_layout()
        splits = [[s.dim, s.axes, s.block, s.segments] for s in layout.splits]
        for split in splits:
            if split[0] == dim:
                split[3] = list(sizes)
                break
        else:
            raise usage_error("HP-L030", f"dim {dim} is not cut, so it has no parts", layout=self)
        partials = [p.reduce_op if p.is_partial() else None for p in layout.placements]
        made = Layout_.of_splits(self._mesh, [tuple(split) for split in splits], partials)
        return self._new(self._mesh, layout=made, entries=self._entries)

    @property
    def configured(self) -> bool:
        """Whether it says how a tensor lies, or is a mesh only."""
        return self._layout is not None or self._placements is not None

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh of the layout."""
        return DeviceMesh._of(self._mesh, "cpu")

    @property
    def mesh_shape(self) -> tuple[int, ...]:
        """The number of ranks along each mesh axis."""
        return tuple(self._mesh.sizes)

    @property
    def alias_name(self) -> tuple[str, ...]:
        """The names of the mesh axes."""
        return tuple(self._mesh.names)

    @property
    def rank_list(self) -> tuple[int, ...]:
        """The ranks of the mesh, row by row: the last axis varies fastest."""
        return tuple(self._mesh.ranks)

    @property
    def placements(self) -> tuple[Placement, ...]:
        """One placement an axis, in the order of the mesh."""
        if self._placements is not None:
            return self._placements
        return tuple(self._need_layout().placements)

    @property
    def alias_tensor_map(self) -> tuple[str | tuple[str, ...], ...]:
        """For each dim ``"None"``, the axis that cuts it, or a tuple of axes, major to minor.

        One that was made neither from names nor by a tensor ends at its last cut dim.
        """
        return tuple(
            "None" if not names else names[0] if len(names) == 1 else names
            for names in self._dim_names()
        )

    @property
    def tensor_map(self) -> tuple[int | tuple[int, ...], ...]:
        """As ``alias_tensor_map``, in numbers: axes count from the last, which is 0; -1 is none."""
        last = self._mesh.ndim - 1
        numbers = [
            tuple(last - self._mesh.axis(name) for name in names) for names in self._dim_names()
        ]
        return tuple(-1 if not each else each[0] if len(each) == 1 else each for each in numbers)

    @property
    def partial(self) -> tuple[str | None, ...]:
        """For each axis the pending reduction, or None."""
        return tuple(p.reduce_op if p.is_partial() else None for p in self.placements)

    @property
    def has_partial(self) -> bool:
        """True if values are pending on some mesh axis."""
        return any(p.is_partial() for p in self.placements)

    @property
    def replicas(self) -> int:
        """The number of ranks that hold copies: product of the sizes of the axes that are R."""
        return self._need_layout().replicas

    def to_dict(self) -> dict[str, Any]:
        """Describe it in plain values."""
        return {
            "mesh_shape": self.mesh_shape,
            "alias_name": self.alias_name,
            "rank_list": self.rank_list,
            "tensor_map": self.tensor_map,
            "partial": self.partial,
        }

    def resolve(self, ndim: int) -> Layout_:
        """Get the interned layout for a tensor of ``ndim`` dims.

        Raises:
            UsageError: not configured, another number of entries, a dim out of range.
        """
        if self._entries is not None and len(self._entries) != ndim:
            raise usage_error(
                "HP-L021",
                f"the layout has {len(self._entries)} entries, the tensor {ndim} dims",
                layout=repr(self),
                hint="one entry a tensor dim, as in layout" + str(("dp",) + ("None",) * (ndim - 1))
                if ndim > 0
                else "layout() for a tensor of no dims",
            )
        if self._placements is None:
            layout = self._need_layout()
            return (
                layout
                if layout.max_dim < ndim
                else Layout_.get(self._mesh, layout.placements, ndim)
            )
        layout = self._made.get(ndim)
        if layout is None:
            layout = self._made[ndim] = Layout_.get(self._mesh, self._placements, ndim)
        return layout

    def _need_layout(self) -> Layout_:
        if self._layout is None and self._placements is not None:
            raise usage_error(
                "HP-L025", "dims that count from the end need a tensor first", layout=repr(self)
            )
        if self._layout is None:
            raise usage_error(
                "HP-L020",
                "this layout says nothing about tensors yet",
                mesh=self._mesh,
                hint='call it: layout("dp", "None"), one entry a tensor dim',
            )
        return self._layout

    def _dim_names(self) -> tuple[tuple[str, ...], ...]:
        if self._entries is not None:
            return self._entries
        layout = self._need_layout()
        names: list[tuple[str, ...]] = [()] * max(layout.max_dim + 1, self._ndim)
        for split in layout.splits:
            names[split.dim] = tuple(self._mesh.names[axis] for axis in split.axes)
        return tuple(names)

    def _key(self) -> tuple[Any, ...]:
        if self._layout is not None:
            return (self._mesh, self._layout)
        return (self._mesh, self._placements)

    def __eq__(self, other: object) -> bool:
        """Compare mesh and placements; entries that name no axis do not count.

        Code for plain tensors asks ``x.layout == torch.strided``: parts are strided tensors.
        """
        if isinstance(other, torch.layout):
            return other is torch.strided
        if not isinstance(other, Layout):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return _HASH

    def __str__(self) -> str:
        if self._layout is not None:
            return self._layout.to_string_with_mesh()
        if self._placements is not None:
            return f"{self._mesh}: " + " ".join(str(p) for p in self._placements)
        return str(self._mesh)

    def __repr__(self) -> str:
        mesh = f"Layout({self.mesh_shape}, {self.alias_name}"
        if self.rank_list != tuple(range(len(self.rank_list))):
            mesh += f", {self.rank_list}"
        mesh += ")"
        if not self.configured:
            return mesh
        plain = not self.has_partial and "=" not in str(self._layout or "")
        if self._entries is not None and plain:
            return mesh + f"({', '.join(repr(entry) for entry in self.alias_tensor_map)})"
        if self._placements is not None:
            return mesh + f"({', '.join(repr(p) for p in self._placements)})"
        return f"Layout.parse({str(self)!r})"

    def __copy__(self) -> Layout:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Layout:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        layout = self._layout.to_string_with_mesh() if self._layout is not None else None
        return _rebuild_layout, (str(self._mesh), layout, self._entries, self._placements)


def _names_of(entry: Entry, dim: int) -> tuple[str, ...]:
    names: Iterable[Any]
    if entry is None:
        names = ()
    elif isinstance(entry, str):
        names = (entry,)
    elif isinstance(entry, (list, tuple)):
        names = tuple(entry)
    else:
        names = (entry,)
    for name in names:
        if not isinstance(name, str):
            raise usage_error(
                "HP-L029",
                f"entry {dim} of the layout is {entry!r}",
                hint='the name of an axis, a tuple of names, or "None"',
            )
    return tuple(name for name in names if name != "None")


def _rebuild_layout(
    mesh: str,
    layout: str | None,
    entries: tuple[tuple[str, ...], ...] | None,
    placements: tuple[Placement, ...] | None,
) -> Layout:
    core = Layout_.parse(layout) if layout is not None else None
    return Layout._new(Mesh.parse(mesh), layout=core, entries=entries, placements=placements)
