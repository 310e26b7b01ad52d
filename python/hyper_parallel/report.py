"""Reports of what ranks exchanged: how much, and why."""

from __future__ import annotations

import dataclasses
import html
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from hyper_parallel import _torch
from hyper_parallel.errors import usage_error

__all__ = ["CommReport", "CommRow", "comm_report", "explain"]


R = TypeVar("R", bound="CommReport")


@dataclasses.dataclass(frozen=True)
class CommRow:
    """One collective that the calling rank took part in."""

    kind: str  # all_reduce, all_gather, reduce_scatter, all_to_all, permute, broadcast
    axes: tuple[str, ...]  # of the mesh
    bytes: int  # that one rank sends, the largest over ranks
    phase: str  # forward or backward
    op: str = ""  # for which it was issued, such as aten::linear; empty if the program asked
    reason: str = ""  # the argument, and what the op needs
    tensor: str = ""  # the whole tensor, such as f32[4, 8]
    source: str = ""  # its placements before
    target: str = ""  # and after
    ranks: int = 1  # of the group
    joined: int = 0  # rows of one number, if not 0, went out as one collective


class CommReport:
    """Record the collectives of the calling rank inside a ``with`` block.

    with comm_report() as report:
        loss = model(tokens)
        loss.backward()
    print(report.table())
    report.count(kind="all_reduce", phase="forward")
    """

    def __init__(self) -> None:
        self._rows: list[CommRow] = []

    @property
    def rows(self) -> list[CommRow]:
        """The collectives so far, in order."""
        if self in _recording():
            _collect()
            _torch.start_record()
        return self._rows

    def __enter__(self) -> Self:
        if self in _recording():
            raise usage_error("HP-R020", "this report is being recorded already")
        _collect()
        _recording().append(self)
        _torch.start_record()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _collect()
        _recording().remove(self)
        if _recording():
            _torch.start_record()

    def select(
        self,
        *,
        kind: str | None = None,
        phase: str | None = None,
        axes: str | tuple[str, ...] | None = None,
        op: str | None = None,
    ) -> list[CommRow]:
        """List the rows that fit all that is given."""
        if isinstance(axes, str):
            axes = (axes,)
        return [
            row
            for row in self.rows
            if (kind is None or row.kind == kind)
            and (phase is None or row.phase == phase)
            and (axes is None or row.axes == tuple(axes))
            and (op is None or row.op == op)
        ]

    def count(
        self,
        *,
        kind: str | None = None,
        phase: str | None = None,
        axes: str | tuple[str, ...] | None = None,
        op: str | None = None,
    ) -> int:
        """Count collectives; those that went out as one count once."""
        rows = self.select(kind=kind, phase=phase, axes=axes, op=op)
        together = {row.joined for row in rows if row.joined}
        return sum(not row.joined for row in rows) + len(together)

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
        lines = [("phase", "collective", "axes", "count", "bytes a rank"), *self._sums()]
        return _aligned(lines, right=(3, 4))

    def to_html(self, path: str | Path, title: str = "Communication") -> None:
        """Write a page with the sums, and every collective with its cause."""
        columns = ("phase", "collective", "axes", "ranks", "tensor", "bytes a rank", "op", "why")
        details = [
            (
                row.phase,
                row.kind,
                " ".join(row.axes),
                str(row.ranks),
                _moved(row),
                f"{row.bytes:,}",
                row.op,
                row.reason,
            )
            for row in self.rows
        ]
        sums = _html_table(("phase", "collective", "axes", "count", "bytes a rank"), self._sums())
        page = _PAGE.format(
            title=html.escape(title), sums=sums, details=_html_table(columns, details)
        )
        Path(path).write_text(page, encoding="utf-8")

    def _sums(self) -> list[tuple[str, ...]]:
        groups: dict[tuple[str, str, tuple[str, ...]], None] = {}
        for row in sorted(self.rows, key=lambda row: row.phase != "forward"):
            groups[row.phase, row.kind, row.axes] = None
        sums = [
            (
                phase,
                kind,
                " ".join(axes),
                str(self.count(kind=kind, phase=phase, axes=axes)),
                f"{self.bytes(kind=kind, phase=phase, axes=axes):,}",
            )
            for phase, kind, axes in groups
        ]
        return [*sums, ("total", "", "", str(self.count()), f"{self.bytes():,}")]

    def __str__(self) -> str:
        return self.table()


class Explanation(CommReport):
    """Record why each collective was issued; printed, one a line in order."""

    def __str__(self) -> str:
        """Show phase, collective, axes, tensor, bytes, op, and the argument with its layouts."""
        lines = [
            (
                row.phase,
                f"{row.kind} over {' '.join(row.axes)}",
                _moved(row),
                f"{row.bytes:,} bytes",
                _cause(row),
            )
            for row in self.rows
        ]
        return _aligned(lines, right=(3,)) if lines else "no collective was issued"


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


_threads = threading.local()


def _recording() -> list[CommReport]:
    """List the reports that the calling thread records, outer ones first."""
    if not hasattr(_threads, "reports"):
        _threads.reports = []
    return _threads.reports


def _collect() -> None:
    """Give what was recorded to all reports, and end the record."""
    rows = [CommRow(**{**row, "bytes": round(row["bytes"])}) for row in _torch.stop_record()]
    for report in _recording():
        report._rows += rows


def _moved(row: CommRow) -> str:
    return f"{row.tensor} {row.source} -> {row.target}" if row.source else row.tensor


def _cause(row: CommRow) -> str:
    if row.op:
        return f"for {row.op}: {row.reason}"
    if row.reason:
        return row.reason
    return "for a gradient" if row.phase == "backward" else "asked for by the program"


def _aligned(lines: list[tuple[str, ...]], right: tuple[int, ...]) -> str:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    texts = []
    for line in lines:
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        texts.append("  ".join(cells).rstrip())
    return "\n".join(texts)


def _html_table(columns: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>\n"
        for line in lines
    )
    return f"<table>\n<tr>{head}</tr>\n{body}</table>"


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem; }}
table {{ border-collapse: collapse; margin-bottom: 2rem; }}
th, td {{ border-bottom: 1px solid #ccc; padding: .2rem .8rem; text-align: left; }}
</style>
<h1>{title}</h1>
{sums}
<h2>Each collective</h2>
{details}
</html>
"""
