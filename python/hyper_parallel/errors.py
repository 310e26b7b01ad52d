"""The four classes of errors, and how Python code of this package raises them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from hyper_parallel._core import (
    CommError,
    InternalError,
    UnsupportedError,
    UsageError,
    near_names,
)

__all__ = ["CommError", "InternalError", "UnsupportedError", "UsageError"]


class UsageTypeError(UsageError, TypeError):
    """A caller's mistake about a type: Python programs expect a ``TypeError`` there."""


_E = TypeVar("_E", UsageError, UnsupportedError, CommError, InternalError)


def make_error(kind: type[_E], code: str, first_line: str, **facts: object) -> _E:
    """Make an error in the library's form: code, first line, facts, the way out.

    Args:
        facts: shown in order, one a line; ``hint`` is shown as ``try``.
    """
    named = [("try" if name == "hint" else name, str(value)) for name, value in facts.items()]
    width = max((len(name) for name, _ in named), default=0)
    lines = [f"[{code}] {first_line}"]
    lines += [f"  {name:<{width}}  {value}" for name, value in named]
    error = kind("\n".join(lines))
    error.code = code
    return error


def usage_error(code: str, first_line: str, **facts: object) -> UsageError:
    """Make the error of a caller's mistake."""
    return make_error(UsageError, code, first_line, **facts)


def placed(error: _E, where: str) -> _E:
    """Say where an error stands: ``[HP-S050] ops.yaml:3: ...``."""
    made = type(error)(str(error).replace("] ", f"] {where}: ", 1))
    made.code = error.code
    return made


def near_facts(label: str, name: str, known: Iterable[str]) -> dict[str, str]:
    """Make the facts that help where ``name`` is not among ``known``."""
    names = list(known)
    near = near_names(name, names)
    if near:
        return {"near": ", ".join(near)}
    shown = ", ".join(names[:20]) + (f", ... ({len(names)} in all)" if len(names) > 20 else "")
    return {label: shown or "none"}
