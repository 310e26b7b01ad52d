"""Keys of sharding plans: dotted names with wildcards, matched against the names of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypeVar

from hyper_parallel.errors import near_facts, usage_error

T = TypeVar("T")


def matches(pattern: str, name: str) -> bool:
    """Tell whether ``pattern`` names ``name``.

    ``*`` and ``?`` stand for letters within one part of a dotted name, ``**`` for any number of
    parts: ``layers.*.q_proj.weight``, ``**.norm.weight``.
    """
    return _matches(pattern.split("."), name.split("."))


def _matches(pattern: list[str], name: list[str]) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "**":
        return any(_matches(pattern[1:], name[skip:]) for skip in range(len(name) + 1))
    return bool(name) and fnmatchcase(name[0], pattern[0]) and _matches(pattern[1:], name[1:])


def assign(
    patterns: Mapping[str, T], names: Iterable[str], *, part: str, kind: str
) -> dict[str, tuple[str, T]]:
    """Give each name the pattern that names it most closely, and its value.

    Fewer ``**`` are closer, then fewer parts with wildcards, then more plain letters.

    Args:
        part: the part of the plan, for errors.
        kind: what names are, for errors.

    Raises:
        UsageError: a pattern that matches nothing, or two that are equally close.
    """
    known = list(names)
    chosen: dict[str, tuple[str, T]] = {}
    for pattern, value in patterns.items():
        found = [name for name in known if matches(pattern, name)]
        if not found:
            raise usage_error(
                "HP-S001",
                f'sharding plan: "{pattern}" in "{part}" matches no {kind}',
                **near_facts(f"{kind}s", pattern, known),
            )
        for name in found:
            other = chosen.get(name)
            if other is None or _closeness(pattern) > _closeness(other[0]):
                chosen[name] = (pattern, value)
            elif _closeness(pattern) == _closeness(other[0]):
                raise usage_error(
                    "HP-S002",
                    f'sharding plan: two keys of "{part}" are equally close to {kind} "{name}"',
                    keys=f'"{other[0]}", "{pattern}"',
                    hint="name it whole, or make one key closer",
                )
    return chosen


def _closeness(pattern: str) -> tuple[int, int, int]:
    parts = pattern.split(".")
    wild = sum(any(sign in part for sign in "*?[") for part in parts)
    letters = sum(sign not in "*?" for sign in pattern)
    return -parts.count("**"), -wild, letters
