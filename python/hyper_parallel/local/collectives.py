"""Collectives for code on local tensors, along mesh axes by name, all differentiable.

Inside ``custom_shard`` and ``DFunction`` the mesh is known; elsewhere give ``mesh=``. All ranks
along the axes must call the same collectives in the same order. Gradients are the true transposes:

    all_reduce      all_reduce            all_gather   reduce_scatter
    all_to_all      the inverse           broadcast    sum to the source
    permute         the inverse
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel._core import Mesh
from hyper_parallel.errors import UnsupportedError, make_error, usage_error
from hyper_parallel.launch.ranks import rank
from hyper_parallel.layouts.mesh import as_mesh
from hyper_parallel.local.moves import (
    REDUCTIONS,
    AllGather,
    AllReduce,
    AllToAll,
    Broadcast,
    Group,
    Move,
    Nothing,
    OnBytes,
    OnReal,
    Permute,
    ReduceScatter,
    apply_move,
)
from hyper_parallel.local.region import current_region

__all__ = [
    "Pending",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "axis_rank",
    "axis_size",
    "broadcast",
    "permute",
    "reduce_scatter",
]

Axis = str | Sequence[str]

# ---- The functions -------------------------------------------------------------------------


def all_reduce(
    x: torch.Tensor, axis: Axis, op: str = "sum", *, mesh: Any = None, async_op: bool = False
) -> Any:
    """Combine the tensors of all ranks along ``axis``; all get the result.

    Args:
        x: of one shape on all ranks.
        axis: a mesh axis, or several as one group.
        op: ``sum``, ``avg``, ``max``, ``min`` or ``prod``. Gradients flow through the first two.
        mesh: needed outside ``custom_shard`` and ``DFunction``.
        async_op: return a ``Pending`` at once.

    Raises:
        UsageError: no mesh, an unknown axis or reduction.
        UnsupportedError: another reduction than sum and avg of a tensor that requires grad.

    Cost:
        One all-reduce; backward another one.
    """
    if op not in REDUCTIONS:
        raise usage_error(
            "HP-C020", f'all_reduce: no reduction "{op}"', reductions=", ".join(REDUCTIONS)
        )
    if op not in ("sum", "avg") and x.requires_grad and torch.is_grad_enabled():
        raise make_error(
            UnsupportedError,
            "HP-C021",
            f"all_reduce: no gradient flows through {op}",
            hint="call it on x.detach()",
        )
    group = _group(axis, mesh, "all_reduce")
    return _run(AllReduce(group, op), x, async_op, group, joined=op in ("sum", "avg"))


def all_gather(
    x: torch.Tensor,
    axis: Axis,
    dim: int = 0,
    *,
    sizes: Sequence[int] | None = None,
    mesh: Any = None,
    async_op: bool = False,
) -> Any:
    """Join the parts of all ranks along ``axis`` in rank order.

        rank 0  [a b]               [a b c]
        rank 1  [c]    sizes [2, 1] [a b c]

    Args:
        dim: along which parts are joined.
        sizes: of the ranks' parts along ``dim``; all as this rank's by default.

    Cost:
        One all-gather; backward one reduce-scatter.
    """
    group = _group(axis, mesh, "all_gather")
    dim = _dim(x, dim, "all_gather")
    lengths = _lengths(sizes, group, "all_gather") or [x.shape[dim]] * group.size
    if lengths[group.index] != x.shape[dim]:
        raise usage_error(
            "HP-C022",
            f"all_gather: this rank's part has {x.shape[dim]} rows, sizes says "
            f"{lengths[group.index]}",
            sizes=lengths,
        )
    return _run(AllGather(group, dim, tuple(lengths)), x, async_op, group)


def reduce_scatter(
    x: torch.Tensor,
    axis: Axis,
    dim: int = 0,
    op: str = "sum",
    *,
    sizes: Sequence[int] | None = None,
    mesh: Any = None,
    async_op: bool = False,
) -> Any:
    """Combine the tensors of all ranks along ``axis``; each gets its part of the result.

    Args:
        dim: along which the result is cut.
        op: ``sum`` or ``avg``.
        sizes: of the ranks' parts along ``dim``; by default all are equal.

    Raises:
        UsageError: ``dim`` is not divisible by the number of ranks, or is not the sum of ``sizes``.

    Cost:
        One reduce-scatter; backward one all-gather.
    """
    if op not in ("sum", "avg"):
        raise usage_error("HP-C020", f'reduce_scatter: no reduction "{op}"', reductions="sum, avg")
    group = _group(axis, mesh, "reduce_scatter")
    dim = _dim(x, dim, "reduce_scatter")
    lengths = _lengths(sizes, group, "reduce_scatter")
    if lengths is None:
        if x.shape[dim] % group.size:
            raise usage_error(
                "HP-C022",
                f"reduce_scatter: {x.shape[dim]} rows cannot be cut evenly for {group.size} ranks",
                hint="sizes=[...], one a rank",
            )
        lengths = [x.shape[dim] // group.size] * group.size
    if sum(lengths) != x.shape[dim]:
        raise usage_error(
            "HP-C022", f"reduce_scatter: {x.shape[dim]} rows, sizes sums to {sum(lengths)}"
        )
    return _run(ReduceScatter(group, dim, tuple(lengths), op), x, async_op, group)


def all_to_all(
    x: torch.Tensor,
    axis: Axis,
    send_sizes: Sequence[int] | torch.Tensor | None = None,
    receive_sizes: Sequence[int] | torch.Tensor | None = None,
    *,
    mesh: Any = None,
    async_op: bool = False,
) -> Any:
    """Send rows of ``x`` to the ranks along ``axis``, and join what they send, in rank order.

        rank 0  [a b c]  send [1, 2]    [a d]
        rank 1  [d e]    send [1, 1]    [b c e]

    Args:
        x: rows are along dim 0; the other dims are equal on all ranks.
        send_sizes: rows for each rank, which may depend on data; equal shares by default.
        receive_sizes: rows from each rank; by default ranks tell each other.

    Raises:
        UsageError: ``send_sizes`` do not sum to the rows of ``x``, or there is not one a rank.

    Cost:
        One all-to-all; backward another one. Without ``receive_sizes`` one more of a number a rank,
        and a wait on the host.
    """
    group = _group(axis, mesh, "all_to_all")
    if x.dim() == 0:
        raise usage_error("HP-C022", "all_to_all: a tensor of no dims has no rows")
    send = _lengths(send_sizes, group, "all_to_all")
    receive = _lengths(receive_sizes, group, "all_to_all")
    if send is None:
        if x.shape[0] % group.size:
            raise usage_error(
                "HP-C022",
                f"all_to_all: {x.shape[0]} rows cannot be shared evenly by {group.size} ranks",
                hint="send_sizes=[...], one a rank",
            )
        send = [x.shape[0] // group.size] * group.size
        receive = receive or send
    if sum(send) != x.shape[0]:
        raise usage_error(
            "HP-C022", f"all_to_all: {x.shape[0]} rows, send_sizes sums to {sum(send)}"
        )
    if receive is None:
        receive = _exchanged(send, group, x.device)
    return _run(AllToAll(group, tuple(send), tuple(receive)), x, async_op, group)


def broadcast(
    x: torch.Tensor, axis: Axis, source: int = 0, *, mesh: Any = None, async_op: bool = False
) -> Any:
    """Get the tensor of the rank at place ``source`` along ``axis``.

    Args:
        x: of one shape on all ranks; its values count on the source only.

    Cost:
        One broadcast; backward one all-reduce.
    """
    group = _group(axis, mesh, "broadcast")
    _check_place(source, group, "broadcast")
    return _run(Broadcast(group, source), x, async_op, group)


def permute(
    x: torch.Tensor,
    axis: Axis,
    pairs: Sequence[tuple[int, int]],
    *,
    mesh: Any = None,
    async_op: bool = False,
) -> Any:
    """Send ``x`` from place to place along ``axis``; a place to which nothing comes gets zeros.

        permute(x, "cp", [(i, (i + 1) % n) for i in range(n)])     # a ring

    Args:
        x: of one shape on all ranks.
        pairs: (source, destination); each place at most once a source and once a destination.

    Cost:
        One all-to-all in which a rank sends its tensor once; backward another one.
    """
    group = _group(axis, mesh, "permute")
    made = tuple((int(source), int(target)) for source, target in pairs)
    for side in zip(*made, strict=True):
        for place in side:
            _check_place(place, group, "permute")
        if len(set(side)) < len(side):
            raise usage_error("HP-C023", "permute: a place is named twice", pairs=list(made))
    shape = (*x.shape, 2) if x.is_complex() else tuple(x.shape)
    return _run(Permute(group, made, shape), x, async_op, group)


def axis_rank(axis: Axis, *, mesh: Any = None) -> int:
    """Tell the calling rank's place along ``axis``, from 0."""
    return _group(axis, mesh, "axis_rank").index


def axis_size(axis: Axis, *, mesh: Any = None) -> int:
    """Tell the number of ranks along ``axis``."""
    return _group(axis, mesh, "axis_size").size


class Pending:
    """A collective under way: ``wait`` gives its result."""

    def __init__(self, move: Move, x: torch.Tensor, joined: bool) -> None:
        self._move, self._x, self._joined = move, x, joined
        with torch.no_grad():
            self._raw = move.start(x.detach())
        self._result: torch.Tensor | None = None

    def wait(self) -> torch.Tensor:
        """Get the result. The graph is made here: all ranks must wait in the same order."""
        if self._result is None:
            self._result = apply_move(self._move, self._x, self._raw, self._joined)
        return self._result


# ---- Arguments ------------------------------------------------------------------------------


def _group(axis: Axis, mesh: Any, what: str) -> Group:
    core = _mesh(mesh, what)
    names = [axis] if isinstance(axis, str) else list(axis)
    axes = [core.axis(name) for name in names]
    if core.coordinate(rank()) is None:
        raise usage_error("HP-M032", f"{what}: rank {rank()} is not in the mesh", mesh=core)
    ranks = tuple(core.group(axes, rank()))
    return Group(core, tuple(axes), ranks, ranks.index(rank()))


def _mesh(mesh: Any, what: str) -> Mesh:
    if mesh is not None:
        return as_mesh(mesh)
    region = current_region()
    found = region.mesh if region is not None else _torch.backward_mesh()
    if found is None:
        raise usage_error(
            "HP-C024",
            f"{what}: which mesh? outside custom_shard and DFunction it is not known",
            hint=f"{what}(..., mesh=mesh)",
        )
    return found


def _dim(x: torch.Tensor, dim: int, what: str) -> int:
    if not -x.dim() <= dim < x.dim():
        raise usage_error("HP-C022", f"{what}: dim {dim} is out of range", shape=list(x.shape))
    return dim % x.dim()


def _lengths(sizes: Any, group: Group, what: str) -> list[int] | None:
    if sizes is None:
        return None
    lengths = [int(n) for n in (sizes.tolist() if isinstance(sizes, torch.Tensor) else sizes)]
    if len(lengths) != group.size or any(n < 0 for n in lengths):
        raise usage_error(
            "HP-C022", f"{what}: one size a rank is needed", ranks=group.size, sizes=lengths
        )
    return lengths


def _check_place(place: int, group: Group, what: str) -> None:
    if not 0 <= place < group.size:
        raise usage_error(
            "HP-C023", f"{what}: no place {place} among {group.size} ranks", hint="places from 0"
        )


def _exchanged(send: list[int], group: Group, device: torch.device) -> list[int]:
    """Tell each rank how much it will get."""
    if group.size == 1:
        return list(send)
    with torch.no_grad():
        counts = torch.tensor(send, dtype=torch.int64, device=device)
        return AllToAll(group, (1,) * group.size, (1,) * group.size).run(counts).tolist()


def _run(move: Move, x: torch.Tensor, async_op: bool, group: Group, joined: bool = True) -> Any:
    if _torch.is_dtensor(x):
        raise usage_error(
            "HP-C025",
            "collectives of local code take plain tensors",
            given=_torch.describe(x),
            hint="redistribute() moves a DTensor; inside custom_shard tensors are plain",
        )
    if group.size == 1:
        move = Nothing(group)
    elif x.is_complex():
        move = OnReal(move)
    elif x.dtype == torch.bool:
        if isinstance(move, AllReduce) and move.op in ("sum", "avg", "prod"):
            raise usage_error(
                "HP-C020", f"all_reduce: booleans have no {move.op}", hint="max is or, min is and"
            )
        move = OnBytes(move)
    return Pending(move, x, joined) if async_op else apply_move(move, x, None, joined)
