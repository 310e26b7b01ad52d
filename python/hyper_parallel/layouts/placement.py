"""Placements: how one tensor lies along one mesh axis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hyper_parallel import _core
from hyper_parallel._core import Placement
from hyper_parallel.errors import UnsupportedError, make_error, usage_error

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class _Kind(type):
    """Makes ``isinstance(p, Shard)`` true for the placements that ``Shard(...)`` makes."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Placement) and cls.holds(value)  # type: ignore[attr-defined]


class Replicate(metaclass=_Kind):
    """Every rank holds the whole tensor. Text form: ``R``."""

    def __new__(cls) -> Placement:  # type: ignore[misc]
        return _core.Replicate()

    @staticmethod
    def holds(value: Placement) -> bool:
        """Tell whether ``value`` is of this kind."""
        return value.is_replicate()


class Shard(metaclass=_Kind):
    """Rank i holds chunk i of ``dim``. Text form: ``S(0)``.

    Chunks are ``ceil(size / ranks)`` long, so the last ones may be shorter or empty.

    Args:
        dim: negative dims count from the end of the tensor that the placement is used for.
    """

    def __new__(cls, dim: int) -> Placement:  # type: ignore[misc]
        return _core.Shard(dim)

    @staticmethod
    def holds(value: Placement) -> bool:
        """Tell whether ``value`` is of this kind."""
        return value.is_shard()


class Partial(metaclass=_Kind):
    """Every rank holds a whole-shaped value; their sum is the tensor. Text form: ``P(sum)``.

    Args:
        reduce_op: ``sum``, ``avg``, ``max``, ``min`` or ``prod``.
    """

    def __new__(cls, reduce_op: str = "sum") -> Placement:  # type: ignore[misc]
        return _core.Partial(reduce_op)

    @staticmethod
    def holds(value: Placement) -> bool:
        """Tell whether ``value`` is of this kind."""
        return value.is_partial()


def is_placement(value: object) -> bool:
    """Tell whether ``value`` is a placement, ours or torch's."""
    return isinstance(value, Placement) or _is_torch_placement(value)


def as_placement(value: Any) -> Placement:
    """Take one placement, ours or torch's.

    Raises:
        UsageError: something else.
        UnsupportedError: torch's ``_StridedShard``; see the text for what takes its place.
    """
    if isinstance(value, Placement):
        return value
    if _is_torch_placement(value):
        if type(value).__name__ == "_StridedShard":
            raise make_error(
                UnsupportedError,
                "HP-L023",
                "torch's _StridedShard is not taken",
                hint='layout(("tp", "dp"), "None") names the axes of a dim, major to minor',
            )
        if value.is_shard():
            return _core.Shard(value.dim)
        if value.is_replicate():
            return _core.Replicate()
        return _core.Partial(value.reduce_op)
    raise usage_error(
        "HP-L022",
        f"{value!r} is not a placement",
        hint="Shard(dim), Replicate() or Partial(reduce_op)",
    )


def as_placements(values: Iterable[Any]) -> tuple[Placement, ...]:
    """Take one placement an axis, ours or torch's."""
    return tuple(as_placement(value) for value in values)


def _is_torch_placement(value: object) -> bool:
    return type(value).__module__.startswith("torch.distributed.tensor") and hasattr(
        value, "is_replicate"
    )
