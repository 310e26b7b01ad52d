"""The answer to layouts that an op cannot take as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hyper_parallel.errors import UsageError, usage_error

_PLACEMENT = re.compile(r"[A-Z](?:\([^)]*\))?")
_NEAR = 3


def short(placement: Any) -> str:
    """Write a placement as rules do, without order and blocks: ``S(0)``, ``P(sum)``, ``R``."""
    if placement.is_shard():
        return f"S({placement.dim})"
    return f"P({placement.reduce_op})" if placement.is_partial() else "R"


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
    axis = next(
        i
        for i, (a, b) in enumerate(zip(before.placements, after.placements, strict=True))
        if a != b
    )
    has = before.placements[axis]
    state = (
        f"split on dim {has.dim}" if has.is_shard() else "partial" if has.is_partial() else "whole"
    )
    given = ["R" if x is None else short(x.placements[axis]) for x in layouts]

    def distance(line: Any) -> int:
        wanted = _PLACEMENT.findall(line.text.partition("->")[0])
        return sum(a != b for a, b in zip(wanted, given, strict=False))

    near = sorted(lines, key=distance)[:_NEAR]
    name = inference.mesh.names[axis]
    return usage_error(
        "HP-S037",
        f'{inference.op}: operand "{change.operand}" cannot be {state} on axis {name} here',
        has=str(change.before),
        needs=short(after.placements[axis]),
        why=change.reason,
        near="; ".join(" ".join(line.text.split()) for line in near),
        hint="redistribute the operand, or leave strict out",
    )
