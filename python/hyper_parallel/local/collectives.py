"""Collectives for code on local tensors, along mesh axes by name, all differentiable.

Inside ``custom_shard`` and ``DFunction`` the mesh is known; elsewhere give ``mesh=``. All ranks
along the axes must call the same collectives in the same order. Gradients are the true transposes,
any number of times. With ranks 0 and 1, values a b c d, gradients u v w x:

                    forward                      backward
    all_reduce      P -> R                       P -> R
                    [a] [b]     -> [a+b] [a+b]   [u] [v]     -> [u+v] [u+v]
    all_gather      S -> R                       P -> S
                    [a] [b]     -> [a b] [a b]   [u v] [w x] -> [u+w] [v+x]
    reduce_scatter  P -> S                       S -> R
                    [a b] [c d] -> [a+c] [b+d]   [u] [v]     -> [u v] [u v]
    all_to_all      S -> S                       S -> S
                    [a b] [c d] -> [a c] [b d]   [u v] [w x] -> [u w] [v x]
    broadcast       one -> R                     P -> one
                    [a] [b]     -> [a] [a]       [u] [v]     -> [u+v] [0]
    permute (0, 1)  S -> S, zeros elsewhere      S -> S
                    [a] [b]     -> [0] [a]       [u] [v]     -> [v] [0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel._core import Mesh
from hyper_parallel._torch import Pending
from hyper_parallel.layouts.mesh import as_mesh

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
    return _torch.all_reduce(x, _names(axis), op, _mesh(mesh), async_op)


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
    return _torch.all_gather(x, _names(axis), dim, _numbers(sizes), _mesh(mesh), async_op)


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
    return _torch.reduce_scatter(x, _names(axis), dim, op, _numbers(sizes), _mesh(mesh), async_op)


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
    return _torch.all_to_all(
        x, _names(axis), _numbers(send_sizes), _numbers(receive_sizes), _mesh(mesh), async_op
    )


def broadcast(
    x: torch.Tensor, axis: Axis, source: int = 0, *, mesh: Any = None, async_op: bool = False
) -> Any:
    """Get the tensor of the rank at place ``source`` along ``axis``.

    Args:
        x: of one shape on all ranks; its values count on the source only.

    Cost:
        One broadcast; backward one all-reduce.
    """
    return _torch.broadcast(x, _names(axis), source, _mesh(mesh), async_op)


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
    made = [(int(source), int(target)) for source, target in pairs]
    return _torch.permute(x, _names(axis), made, _mesh(mesh), async_op)


def axis_rank(axis: Axis, *, mesh: Any = None) -> int:
    """Tell the calling rank's place along ``axis``, from 0."""
    return _torch.axis_rank(_names(axis), _mesh(mesh))


def axis_size(axis: Axis, *, mesh: Any = None) -> int:
    """Tell the number of ranks along ``axis``."""
    return _torch.axis_size(_names(axis), _mesh(mesh))


def _names(axis: Axis) -> list[str]:
    return [axis] if isinstance(axis, str) else list(axis)


def _mesh(mesh: Any) -> Mesh | None:
    return None if mesh is None else as_mesh(mesh)


def _numbers(sizes: Sequence[int] | torch.Tensor | None) -> list[int] | None:
    if sizes is None:
        return None
    return [int(n) for n in (sizes.tolist() if isinstance(sizes, torch.Tensor) else sizes)]
