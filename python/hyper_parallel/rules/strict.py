"""The answer to layouts that an op cannot take as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyper_parallel._core import Replicate
from hyper_parallel.errors import UsageError, usage_error

_NEAR = 3


def _changed_axis(before: Any, after: Any) -> int | None:
    """Find the first axis that lies otherwise; None where only boundaries or an order do."""
    pairs = zip(before.placements, after.placements, strict=True)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), None)


def refusal(inference: Any, layouts: Sequence[Any], lines: Sequence[Any]) -> UsageError:
    """Make the error for an inference that changes operands.

    Args:
        inference: with at least one change.
        layouts: of all operands as they are, None for a plain or absent one.
        lines: the strategies of one mesh axis.

    Returns:
        An error that names the operand, its dim, and the strategies nearest to what there is.
    """
    change = inference.changes[0]
    before, after = change.before.layout, change.after.layout
    operand = f'{inference.op}: operand "{change.operand}"'
    axis = _changed_axis(before, after)
    if axis is None:
        return usage_error(
            "HP-S037",
            f"{operand} cannot be split at these boundaries or in this order of axes here",
            has=str(change.before),
            needs=str(after),
            why=change.reason,
            hint="redistribute the operand, or leave strict out",
        )
    has = before.placements[axis]
    state = (
        f"split on dim {has.dim}" if has.is_shard() else "partial" if has.is_partial() else "whole"
    )
    given = [Replicate() if x is None else x.placements[axis] for x in layouts]

    def distance(line: Any) -> int:
        return sum(a != b for a, b in zip(line.inputs, given, strict=False))

    near = sorted(lines, key=distance)[:_NEAR]
    name = inference.mesh.names[axis]
    return usage_error(
        "HP-S037",
        f"{operand} cannot be {state} on axis {name} here",
        has=str(change.before),
        needs=str(after.placements[axis]),
        why=change.reason,
        near="; ".join(" ".join(line.text.split()) for line in near),
        hint="redistribute the operand, or leave strict out",
    )
