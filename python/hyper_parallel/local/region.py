"""Code that runs on local tensors: its mesh, its borders, and the shapes that it gives back.

Inside ``custom_shard``, ``DFunction`` and ``DistributedOp`` tensors are parts, and gradients are in
the dual layout: that of a replicated value is each rank's own contribution.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel._core import Layout_, Mesh
from hyper_parallel.errors import usage_error
from hyper_parallel.launch.ranks import rank

_MOST_DIMS = 8


class Region:
    """One run of local code.

    Args:
        mesh: over which its collectives run.
        joined: make all results depend on all collectives, as data may decide what a rank uses.
    """

    def __init__(self, mesh: Mesh | None, joined: bool = True) -> None:
        self.mesh = mesh
        self.joined = joined
        self.ties: list[torch.Tensor] = []
        self._since = _torch.graph_mark()
        self._entered: list[torch.Tensor] = []
        self._anchor: torch.Tensor | None = None

    def enter(self, locals: list[torch.Tensor]) -> list[torch.Tensor]:
        """Give the locals as the code uses them."""
        entered = _torch.enter_region(locals, self.mesh)
        self._entered += [t for t in entered if t.requires_grad]
        return entered

    def anchor(self) -> torch.Tensor | None:
        """Get the tensor that collectives hang on, if any input requires grad."""
        if not self.joined or not self._entered or not torch.is_grad_enabled():
            return None
        if self._anchor is None:
            self._anchor = _torch.region_anchor(self._entered)
        return self._anchor

    def reaches_outside(self, results: list[torch.Tensor]) -> bool:
        """Tell whether the code used tensors that require grad and are no inputs."""
        return torch.is_grad_enabled() and _torch.reaches_outside(
            [*results, *self.ties], self._since
        )

    def leave(self, results: list[torch.Tensor]) -> list[torch.Tensor]:
        """Give the results as the outside uses them."""
        anchor = self.anchor()
        ties = self.ties if anchor is None else [anchor, *self.ties]
        return _torch.leave_region(results, ties, self.joined, self.mesh)


_current: contextvars.ContextVar[Region | None] = contextvars.ContextVar("region", default=None)
_raw: contextvars.ContextVar[bool] = contextvars.ContextVar("raw", default=False)


def current_region() -> Region | None:
    return _current.get()


def is_raw() -> bool:
    """Tell whether ``to_local`` gives parts as the library's own code uses them."""
    return _raw.get()


@contextlib.contextmanager
def running(region: Region) -> Iterator[Region]:
    """Make ``region`` the current one."""
    token = _current.set(region)
    try:
        yield region
    finally:
        _current.reset(token)


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
    if _torch.is_dtensor(value):
        return _torch.local_for_use(value)
    if value.requires_grad and torch.is_grad_enabled():
        whole = Layout_.replicated(mesh)
        return _torch.local_for_use(_torch.from_local(value, whole, list(value.shape)))
    return value


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
    sizes = _global_sizes(parts, layouts, what, names)
    if parts and _is_checking():
        _check_copies(parts, layouts, what, names)
    return [
        _torch.wrap(part, layout, size)
        for part, layout, size in zip(parts, layouts, sizes, strict=True)
    ]


def _is_checking() -> bool:
    before = _torch.set_check_mode(False)
    _torch.set_check_mode(before)
    return before


def _check_copies(
    parts: Sequence[torch.Tensor], layouts: Sequence[Layout_], what: str, names: Sequence[str]
) -> None:
    """Compare the copies that ranks hold along axes that are R."""
    mesh = layouts[0].mesh
    marks = gather_numbers([_mark(part) for part in parts], mesh)
    for i, layout in enumerate(layouts):
        first: dict[tuple[int, ...], int] = {}
        for member, row in zip(mesh.ranks, marks, strict=True):
            place = mesh.coordinate(member) or []
            cut = zip(place, layout.placements, strict=True)
            group = tuple(-1 if p.is_replicate() else n for n, p in cut)
            holder = first.setdefault(group, member)
            if marks[mesh.ranks.index(holder)][i] != row[i]:
                raise usage_error(
                    "HP-F015",
                    f"{what}: {names[i]} should be the same on ranks {holder} and {member}",
                    layout=layout.to_string_with_mesh(),
                    hint="all_reduce() inside, or a layout with Partial() there",
                )


def _mark(part: torch.Tensor) -> int:
    """Make a number of shape and bits."""
    plain = part.detach().resolve_conj().resolve_neg().cpu().contiguous()
    digest = hashlib.sha1(repr(tuple(plain.shape)).encode(), usedforsecurity=False)
    digest.update(bytes(plain.reshape(-1).view(torch.uint8).numpy()))
    return int.from_bytes(digest.digest()[:7], "big")


def _global_sizes(
    parts: Sequence[torch.Tensor], layouts: Sequence[Layout_], what: str, names: Sequence[str]
) -> list[list[int]]:
    mine = [list(part.shape) for part in parts]
    if not any(layout.splits for layout in layouts):
        return mine
    mesh = layouts[0].mesh
    everyone = gather_numbers([n for size in mine for n in _padded(size)], mesh)
    width = _MOST_DIMS + 1
    out: list[list[int]] = []
    for i, layout in enumerate(layouts):
        shapes = [row[i * width + 1 : i * width + 1 + row[i * width]] for row in everyone]
        whole = _joined(shapes, layout)
        for member, shape in zip(mesh.ranks, shapes, strict=True):
            place = mesh.coordinate(member)
            want = layout.local_shape(whole, place) if len(shape) == len(mine[i]) else None
            if want != shape:
                raise usage_error(
                    "HP-F010",
                    f"{what}: {names[i]} does not have the shape that its layout says",
                    layout=layout.to_string_with_mesh(),
                    shapes="; ".join(
                        f"rank {r}: {s}" for r, s in zip(mesh.ranks, shapes, strict=True)
                    ),
                    hint=f"rank {member} should hold {want}: chunk i of n has ceil(size / n) rows, "
                    "the last ones fewer or none",
                )
        out.append(whole)
    return out


def _joined(shapes: list[list[int]], layout: Layout_) -> list[int]:
    """Sum the sizes of cut dims over the ranks that cut them, with the first rank's coordinates."""
    mesh = layout.mesh
    whole = list(shapes[0])
    for split in layout.splits:
        if split.dim >= len(whole):
            continue
        members = [
            i
            for i, member in enumerate(mesh.ranks)
            if all(
                place == 0 or axis in split.axes
                for axis, place in enumerate(mesh.coordinate(member) or [])
            )
        ]
        whole[split.dim] = sum(shapes[i][split.dim] for i in members if split.dim < len(shapes[i]))
    return whole


def _padded(size: list[int]) -> list[int]:
    if len(size) > _MOST_DIMS:
        raise usage_error(
            "HP-F011", f"a result of local code has {len(size)} dims", most=_MOST_DIMS
        )
    return [len(size), *size, *[0] * (_MOST_DIMS - len(size))]


def gather_numbers(numbers: list[int], mesh: Mesh) -> list[list[int]]:
    """Get the numbers of all ranks of a mesh, in the order of its rank list."""
    count = len(mesh.ranks)
    if count == 1:
        return [numbers]
    with torch.no_grad():
        mine = torch.tensor(numbers, dtype=torch.int64)
        device = communication_device()
        group = _torch._group_name(list(mesh.group(list(range(mesh.ndim)), rank())))
        axes = list(range(mesh.ndim))
        _torch.note_collective("all_gather", mesh, axes, mine, (count - 1) * 8 * len(numbers))
        functional = torch.ops._c10d_functional
        raw = functional.all_gather_into_tensor(mine.to(device), count, group)
        return functional.wait_tensor(raw).reshape(count, -1).tolist()


def communication_device() -> torch.device:
    """Choose where numbers for other ranks lie: with NCCL alone they must be on a GPU."""
    dist = torch.distributed
    if _torch._inside_run_local() or not dist.is_initialized():
        return torch.device("cpu")
    if "gloo" in str(dist.get_backend_config()):
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())
