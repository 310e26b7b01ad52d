"""Reports of what ranks exchanged: how much, and why. A saved report is read without torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from hyper_parallel import _core
from hyper_parallel._core import CommRow
from hyper_parallel.errors import usage_error

if TYPE_CHECKING:
    from hyper_parallel._torch import CommReport_

__all__ = ["CommReport", "CommRow", "comm_report", "explain"]


R = TypeVar("R", bound="CommReport")
_KIND = "hyper_parallel.comm"
_VERSION = 1


class CommReport:
    """Record the collectives of the calling rank inside a ``with`` block.

        with comm_report() as report:
            loss = model(tokens)
            loss.backward()
        print(report.table())
        report.count(kind="all_reduce", phase="forward")

    Reports nest: each has all collectives of its time.
    """

    def __init__(self, rows: Iterable[CommRow] = ()) -> None:
        self._known = list(rows)
        self._record: CommReport_ | None = None

    @property
    def rows(self) -> list[CommRow]:
        """The collectives so far, in order."""
        return self._known + (self._record.rows if self._record else [])

    def __enter__(self) -> Self:
        if self._record is None:
            from hyper_parallel import _torch

            self._record = _torch.CommReport_()
        self._record.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._record is not None
        self._record.stop()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.rows,)

    def select(
        self,
        *,
        kind: str | None = None,
        phase: str | None = None,
        axes: str | tuple[str, ...] | None = None,
        op: str | None = None,
    ) -> list[CommRow]:
        """List the rows that fit all that is given."""
        return _core.select_rows(
            self.rows, kind, phase, (axes,) if isinstance(axes, str) else axes, op
        )

    def count(
        self,
        *,
        kind: str | None = None,
        phase: str | None = None,
        axes: str | tuple[str, ...] | None = None,
        op: str | None = None,
    ) -> int:
        """Count collectives; those that went out as one count once."""
        return _core.count_rows(self.select(kind=kind, phase=phase, axes=axes, op=op))

    def bytes(
        self,
        *,
        kind: str | None = None,
        phase: str | None = None,
        axes: str | tuple[str, ...] | None = None,
        op: str | None = None,
    ) -> int:
        """Add up the bytes that one rank sends."""
        return sum(row.bytes for row in self.select(kind=kind, phase=phase, axes=axes, op=op))

    def table(self) -> str:
        """Show counts and bytes by phase, kind and axes."""
        return _core.rows_table(self.rows)

    def why(self) -> str:
        """Show phase, collective, axes, tensor, bytes, op, and the argument with its layouts."""
        return _core.rows_why(self.rows)

    def to_html(self, path: str | Path, title: str = "Communication") -> None:
        """Write a page with the sums, and every collective with its cause; it stands alone."""
        Path(path).write_text(_core.rows_html(self.rows, title), encoding="utf-8")

    def to_json(self, path: str | Path) -> None:
        """Write the rows, for ``from_json`` and ``hyper_parallel explain``."""
        Path(path).write_text(_core.rows_json(self.rows), encoding="utf-8")

    @classmethod
    def from_json(cls, path: str | Path) -> Self:
        """Read a file of ``to_json``.

        Raises:
            UsageError: HP-R021, no file there, or not of this kind and version.
        """
        try:
            made = json.loads(Path(path).read_text(encoding="utf-8"))
            if (made["report"], made["version"]) != (_KIND, _VERSION):
                raise ValueError(f"report {made['report']!r}, version {made['version']!r}")
            return cls(CommRow(**row) for row in made["rows"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            why = str(error).partition("\n")[0] or type(error).__name__
            raise usage_error(
                "HP-R021",
                f"{path} holds no report of this library",
                found=why if isinstance(error, (OSError, ValueError)) else "other fields",
                expected=f'"report": "{_KIND}", "version": {_VERSION}, "rows": [...]',
                hint="CommReport.to_json(path) writes one",
            ) from error

    def __str__(self) -> str:
        return self.table()


class Explanation(CommReport):
    """Record why each collective was issued; printed, one a line in order."""

    def __str__(self) -> str:
        return self.why()


def comm_report(fn: Callable[[], object] | None = None) -> CommReport:
    """Record all collectives of the calling rank, in a ``with`` block or while ``fn()`` runs."""
    return _recorded(CommReport(), fn)


def explain(fn: Callable[[], object] | None = None) -> Explanation:
    """Record why each collective is issued: op, argument, layouts, bytes.

        with explain() as why:
            model(tokens)
        print(why)

    Args:
        fn: run and recorded at once, in place of a ``with`` block.
    """
    return _recorded(Explanation(), fn)


def _recorded(report: R, fn: Callable[[], object] | None) -> R:
    if fn is not None:
        with report:
            fn()
    return report
