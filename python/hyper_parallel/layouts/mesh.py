"""Meshes: ranks in a grid with named axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from hyper_parallel import _torch
from hyper_parallel._core import Mesh
from hyper_parallel.errors import usage_error
from hyper_parallel.launch.ranks import init_process_group, rank

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Arrange ranks in a grid with named axes.

        mesh = DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))

              tp=0  tp=1
        dp=0   0     1
        dp=1   2     3

    Equal meshes are equal objects. Making one does not communicate, and needs no ranks: a mesh
    may be made outside ``run_local`` and used inside. A mesh larger than the world raises where
    it is first used.

    Args:
        device_type: where tensors lie, ``cpu`` or ``cuda``.
        mesh: ranks as nested lists, an array or a tensor.
        mesh_dim_names: one name an axis; ``dim_0``, ``dim_1``, ... by default.

    Raises:
        UsageError: no axis, names that repeat or do not fit, a rank listed twice.
    """

    __slots__ = ("_core", "_device_type")

    def __init__(
        self, device_type: str, mesh: Any, *, mesh_dim_names: Sequence[str] | None = None
    ) -> None:
        try:
            ranks = torch.as_tensor(mesh, dtype=torch.int64, device="cpu")
        except (TypeError, ValueError, RuntimeError) as error:
            raise usage_error(
                "HP-M031", "a mesh is made of ranks: nested lists of one length", given=repr(mesh)
            ) from error
        names = _names(mesh_dim_names, ranks.ndim)
        self._core = Mesh.get(list(ranks.shape), names, ranks.flatten().tolist())
        self._device_type = str(device_type)

    @classmethod
    def _of(cls, core: Mesh, device_type: str) -> DeviceMesh:
        mesh = cls.__new__(cls)
        mesh._core = core
        mesh._device_type = device_type
        return mesh

    @property
    def device_type(self) -> str:
        """Where the ranks compute: ``"cpu"`` or ``"cuda"``."""
        return self._device_type

    @property
    def mesh(self) -> torch.Tensor:
        """The ranks as an integer tensor of the mesh's shape."""
        return torch.tensor(self._core.ranks).reshape(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of ranks along each axis."""
        return tuple(self._core.sizes)

    @property
    def mesh_shape(self) -> tuple[int, ...]:
        """The same as ``shape``."""
        return self.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._core.ndim

    @property
    def mesh_dim_names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(self._core.names)

    @property
    def rank_list(self) -> tuple[int, ...]:
        """The ranks, row by row: the last axis varies fastest."""
        return tuple(self._core.ranks)

    def size(self, mesh_dim: int | str | None = None) -> int:
        """Count the ranks along one axis, or all."""
        return self._core.size() if mesh_dim is None else self._core.size(self._axis(mesh_dim))

    def get_rank(self) -> int:
        """Tell the number of the calling rank in the world."""
        return rank()

    def get_coordinate(self) -> list[int] | None:
        """Tell the calling rank's place, one number an axis; None if it is not a member."""
        return self._core.coordinate(rank())

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Tell the calling rank's place along one axis; the axis may be left out if it is the only.

        Raises:
            UsageError: several axes and none named, or the calling rank is not a member.
        """
        axis = self._axis(mesh_dim)
        place = self.get_coordinate()
        if place is None:
            raise usage_error("HP-M032", f"rank {rank()} is not in the mesh", mesh=self._core)
        return place[axis]

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Get the process group of the calling rank along one axis.

        It is made by the first call, which only its members make.

        Raises:
            UsageError: several axes and none named, or an axis of one rank, which has no group.
        """
        from torch.distributed.distributed_c10d import _resolve_process_group

        axis = self._axis(mesh_dim)
        if self._core.size(axis) == 1:
            raise usage_error(
                "HP-M033",
                f'mesh axis "{self._core.names[axis]}" has one rank, so it has no process group',
                mesh=self._core,
            )
        return _resolve_process_group(_torch._group_name(self._core.group([axis], rank())))

    def flatten(self, name: str | None = None) -> DeviceMesh:
        """Merge all axes into one, by default named with the names joined by ``_``.

        ``mesh["dp", "tp"].flatten("dp_tp")`` merges some.
        """
        core = self._core.flatten(list(self._core.names), name or "")
        return DeviceMesh._of(core, self._device_type)

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """Take the part of the mesh along ``names`` that holds the calling rank.

        Raises:
            UsageError: an unknown name, or the calling rank is not a member.
        """
        if isinstance(names, str):
            names = (names,)
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise usage_error(
                "HP-M034",
                f"mesh[{names!r}]: a mesh is indexed by names of axes",
                axes=", ".join(self._core.names),
            )
        return DeviceMesh._of(self._core.sub_mesh(list(names), rank()), self._device_type)

    def _axis(self, axis: int | str | None) -> int:
        """Get the number of an axis given by name or number, or of the only one."""
        if isinstance(axis, str):
            return self._core.axis(axis)
        if axis is None:
            if self.ndim == 1:
                return 0
            raise usage_error(
                "HP-M035", "which axis? this mesh has several", axes=", ".join(self._core.names)
            )
        if not -self.ndim <= axis < self.ndim:
            raise usage_error("HP-M010", f"no mesh axis number {axis}", mesh=self._core)
        return axis % self.ndim

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return self._core == other._core and self._device_type == other._device_type

    def __hash__(self) -> int:
        return hash((self._core, self._device_type))

    def __str__(self) -> str:
        return str(self._core)

    def __repr__(self) -> str:
        return (
            f"DeviceMesh({self._device_type!r}, {self.mesh.tolist()}, "
            f"mesh_dim_names={self.mesh_dim_names})"
        )

    def __copy__(self) -> DeviceMesh:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceMesh:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_mesh, (self._device_type, str(self._core))


def init_device_mesh(
    device_type: str,
    mesh_shape: int | Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    rank_list: Sequence[int] | None = None,
) -> DeviceMesh:
    """Make a mesh of ``mesh_shape``.

        mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))

    Under torchrun it also starts torch.distributed if the program did not.

    Args:
        device_type: where tensors lie, ``cpu`` or ``cuda``.
        mesh_shape: ranks along each axis.
        mesh_dim_names: one name an axis; ``dim_0``, ``dim_1``, ... by default.
        rank_list: the ranks row by row; 0, 1, 2, ... by default.

    Raises:
        UsageError: names or ranks do not fit the shape, or repeat.
    """
    init_process_group()
    sizes = [mesh_shape] if isinstance(mesh_shape, int) else list(mesh_shape)
    core = Mesh.get(sizes, _names(mesh_dim_names, len(sizes)), list(rank_list or []))
    return DeviceMesh._of(core, str(device_type))


def as_mesh(value: Any) -> Mesh:
    """Take a mesh: ours, the mesh of a ``Layout``, or torch's DeviceMesh."""
    if isinstance(value, Mesh):
        return value
    core = getattr(value, "_core", None)
    if isinstance(core, Mesh):
        return core
    core = getattr(value, "_mesh", None)
    if isinstance(core, Mesh):
        return core
    if type(value).__module__.startswith("torch.distributed"):
        names = list(value.mesh_dim_names or [])
        return DeviceMesh(value.device_type, value.mesh, mesh_dim_names=names or None)._core
    raise usage_error(
        "HP-M030",
        f"a mesh is needed, not {type(value).__name__}",
        hint='init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))',
    )


def _names(names: Sequence[str] | None, ndim: int) -> list[str]:
    if names is None:
        return [f"dim_{axis}" for axis in range(ndim)]
    return [names] if isinstance(names, str) else list(names)


def _rebuild_mesh(device_type: str, text: str) -> DeviceMesh:
    return DeviceMesh._of(Mesh.parse(text), device_type)
