"""Check rules: is every strategy true, and is one missing?

    verify("aten::mm")                          # one op, with its cases from the table
    verify()                                    # every row
    verify("my::op", (x, y))                    # a rule of your own, with arguments like these
    verify(MyFunction, (x, y))                  # a DFunction, by its rule or its DistributedOp

A strategy is run rank by rank on real tensors; results are joined as their layouts say and compared
with the unsplit op, and so are gradients. On the command line: ``python -m hyper_parallel verify``.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import torch

from hyper_parallel import _torch
from hyper_parallel.errors import usage_error
from hyper_parallel.own_ops.distributed_op import find_distributed_op
from hyper_parallel.verifier.case import (
    Case,
    Table,
    case_like,
    in_place_name,
    load_table,
    schema_of,
)
from hyper_parallel.verifier.functions import function_named, verify_function

__all__ = ["Report", "verify", "verify_all"]

MESHES: tuple[tuple[int, ...], ...] = ((1,), (2,), (3,), (4,), (2, 2))


# ---- Reports -------------------------------------------------------------------------------


@dataclasses.dataclass
class Finding:
    """Something wrong, or a strategy that holds and is not in the rule."""

    op: str
    case: str
    mesh: str
    kind: str
    line: str
    detail: str

    def __str__(self) -> str:
        head = f"{self.kind}: {self.op} on {self.mesh}: {self.line}"
        return f"{head}\n    case    {self.case}\n    detail  {self.detail}"


@dataclasses.dataclass
class OpReport:
    """What was run for one op."""

    op: str
    spec: str
    cases: int = 0
    forced: int = 0
    refused: int = 0
    dispatched: int = 0
    backward: int = 0
    trials: int = 0
    drawn: bool = False
    error: float = 0.0
    strategies: list[str] = dataclasses.field(default_factory=list)
    mutations: list[str] = dataclasses.field(default_factory=list)
    wrong: list[Finding] = dataclasses.field(default_factory=list)
    missing: list[Finding] = dataclasses.field(default_factory=list)
    without: str = ""


@dataclasses.dataclass
class Report:
    """What a run of the verifier found."""

    ops: dict[str, OpReport] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0

    @property
    def wrong(self) -> list[Finding]:
        """Strategies with other values, gradients or layouts than their rule says."""
        return [f for op in self.ops.values() for f in op.wrong]

    @property
    def missing(self) -> list[Finding]:
        """Strategies that hold and that no rule has."""
        return [f for op in self.ops.values() for f in op.missing]

    @property
    def without_cases(self) -> list[str]:
        """Ops that no case runs, and that have no reason for it."""
        return [op.op for op in self.ops.values() if not op.cases and not op.without]

    def total(self, field: str) -> int:
        """The sum of a count of ``OpReport`` over all ops."""
        return sum(getattr(op, field) for op in self.ops.values())

    def summary(self) -> str:
        """Four lines: what was run, and what was found."""
        ops = self.ops.values()
        strategies = sum(len(op.strategies) for op in ops)
        return (
            f"{len(ops)} rules, {strategies} strategies, {self.total('cases')} cases\n"
            f"{self.total('forced')} strategies run, {self.total('dispatched')} calls through the "
            f"dispatch, {self.total('backward')} with gradients, {self.total('trials')} placements "
            f"tried\n"
            f"{len(self.wrong)} wrong, {len(self.missing)} missing, "
            f"{len(self.without_cases)} rules without a case, "
            f"{sum(bool(op.without) for op in ops)} with a reason for none\n"
            f"largest error {max((op.error for op in ops), default=0.0):.1e}, "
            f"{self.seconds:.0f} s"
        )


# ---- The run -------------------------------------------------------------------------------


def _mesh_text(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes)) + (" rank" if sizes == (1,) else " ranks")


def _packed(op: str, one: Case, spec: str, mutation: str, seed: int, others: int) -> dict[str, Any]:
    args, kwargs = one.draw(seed)
    return {
        "op": op,
        "label": one.label(),
        "args": args,
        "kwargs": kwargs,
        "others": [one.draw(seed + 1 + n) for n in range(others)],
        "spec": spec,
        "mutation": mutation,
        "values": one.values,
        "grad": one.grad,
        "missing": others > 0,
    }


def _call(op: str, one: Case, seed: int) -> tuple[Any, tuple[Any, ...]]:
    args, kwargs = one.draw(seed)
    namespace, _, rest = op.partition("::")
    name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), name)
    return getattr(packet, overload or "default")(*args, **kwargs), args


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in _tensors(v)] if isinstance(value, list | tuple) else []


def _writes_self(twin: str, op: str, one: Case, seed: int) -> bool:
    """Tell whether the op that writes ``self`` takes this call and has room for the result."""
    try:
        _call(twin, one, seed)
        result, args = _call(op, one, seed)  # after: a twin may have resized what it was given
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return False
    mine, written = _tensors(result), _tensors(args[0])
    return [r.numel() for r in mine[:1]] == [w.numel() for w in written[:1]]


def _seeds(op: str, one: Case, seed: int) -> int:
    """Count the other draws that a missing strategy must hold for: more where values say little."""
    try:
        results = _tensors(_call(op, one, seed)[0])
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return 1  # the run itself reports that
    floating = all(t.is_floating_point() or t.is_complex() for t in results)
    return 2 if floating and all(t.numel() > 3 for t in results) else 8


def verify(
    ops: str | type | Iterable[str | type] | None = None,
    example_inputs: Any = None,
    *,
    cases: Sequence[Case] | None = None,
    rule: str | None = None,
    mutation: str = "",
    meshes: Sequence[Sequence[int]] = MESHES,
    in_place: bool = True,
    dispatch: bool = True,
    missing: bool = True,
    seed: int = 0,
    table: Table | None = None,
    progress: Callable[[str], None] | None = None,
    **options: int,
) -> Report:
    """Check rules by running them. ``verify_all`` does so on all cores.

    Args:
        ops: an op with its overload, a ``DFunction`` or its name, several of these, or None for
            every row. What a ``DistributedOp`` or the rule of a ``DFunction`` answers is called on
            DTensors in many layouts, and needs ``example_inputs``; missing strategies are not
            looked for.
        example_inputs: the arguments of a call by place; values are drawn anew, floating-point ones
            as f64. They stand in place of the table.
        cases: calls to check instead of those of the table.
        rule: the text of a rule to check in place of the op's own.
        mutation: a change to make to each rule first, one of ``OpReport.mutations``: see
            ``rules/engine/mutate.h``. Rules without it are left out.
        meshes: sizes of the meshes; strategies that are missing are looked for on ``(2,)``.
        in_place: also run ``add_`` where the rule of ``add`` serves it.
        dispatch: also call the op on DTensors in many layouts.
        missing: also look for strategies that hold and that the rule lacks.
        options: ``most_choices``, ``most_layouts``, ``most_trials`` of torch/verify/verify.h.

    Returns:
        A report; ``report.wrong`` and ``report.missing`` are what matters.
    """
    start = time.monotonic()
    if example_inputs is not None:
        cases = [case_like(example_inputs), *(cases or [])]
    specs: dict[str, str] = dict(_torch.rule_rows())
    one_op = isinstance(ops, (str, type)) or not isinstance(ops, Iterable)
    names = list(specs) if ops is None else [ops] if one_op else list(ops)
    functions = {} if ops is None else {op: function_named(op) for op in names}
    if table is None and cases is None:
        table = load_table()
    report = Report()
    packed: list[dict[str, Any]] = []
    owners: list[str] = []
    for op in names:
        if functions.get(op) is not None:
            name, func = functions[op]
            report.ops[name] = _verify_function(
                name, func, cases, meshes, seed, options.get("most_layouts", 64)
            )
            continue
        if schema_of(op) is None:
            raise usage_error(
                "HP-V001", f'torch has no op "{op}"', hint="with its overload: aten::add.Tensor"
            )
        spec = rule or specs.get(op) or _torch.find_rule(op) or ""
        entry = report.ops[op] = OpReport(op, spec)
        mine = list(cases) if cases is not None else table.cases(op, spec)
        if table is not None:
            entry.without = table.without.get(op, "")
        twin = in_place_name(op)
        has_twin = (
            in_place
            and not rule
            and not mutation
            and twin not in specs
            and schema_of(twin) is not None
        )
        for one in mine:
            packed.append(
                _packed(
                    op, one, rule or "", mutation, seed, _seeds(op, one, seed) if missing else 0
                )
            )
            owners.append(op)
            entry.cases += 1
            if has_twin and _torch.find_rule(twin) and _writes_self(twin, op, one, seed):
                packed.append(_packed(twin, one, "", mutation, seed, 0))
                owners.append(op)
    for sizes in meshes:
        for begin in range(0, len(packed), 64):
            chunk = packed[begin : begin + 64]
            if progress is not None:
                progress(f"{_mesh_text(tuple(sizes))}: {chunk[0]['op']}")
            result = _torch.verify(
                chunk, list(sizes), dispatch=dispatch, missing=missing, seed=seed, **options
            )
            for n, counts in enumerate(result["counts"]):
                _add(report.ops[owners[begin + n]], counts)
            for f in result["findings"]:
                one = chunk[f["which"]]
                finding = Finding(
                    one["op"],
                    one["label"],
                    _mesh_text(tuple(sizes)),
                    f["kind"],
                    f["line"],
                    f["detail"],
                )
                owner = report.ops[owners[begin + f["which"]]]
                (owner.missing if f["kind"] == "missing" else owner.wrong).append(finding)
    report.seconds = time.monotonic() - start
    return report


def _verify_function(
    name: str,
    func: Callable[..., Any],
    cases: Sequence[Case] | None,
    meshes: Sequence[Sequence[int]],
    seed: int,
    most: int,
) -> OpReport:
    if not cases:
        raise usage_error(
            "HP-V003", f"verify: {name} has no cases", hint=f"verify({name!r}, example_inputs)"
        )
    entry = OpReport(name, type(find_distributed_op(name)).__name__, cases=len(cases))
    for one, sizes in itertools.product(cases, meshes):

        def found(kind: str, layouts: str, detail: str, one: Case = one, at: Any = sizes) -> None:
            entry.wrong.append(
                Finding(name, one.label(), _mesh_text(tuple(at)), kind, layouts, detail)
            )

        counts = verify_function(name, func, one.draw, sizes, seed, most, found)
        for field in ("dispatched", "backward", "refused"):
            setattr(entry, field, getattr(entry, field) + counts[field])
        entry.error = max(entry.error, counts["error"])
    return entry


def verify_all(
    ops: Iterable[str] | None = None,
    jobs: int | None = None,
    progress: Callable[[str], None] | None = None,
    **arguments: Any,
) -> Report:
    """Check many rules with several processes, one a core by default; else as ``verify``."""
    start = time.monotonic()
    names = [op for op, _ in _torch.rule_rows()] if ops is None else list(ops)
    parts = [names[n::32] for n in range(min(32, len(names)))]
    report = Report({op: OpReport(op, "") for op in names})
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs or os.cpu_count(), mp_context=spawn) as pool:
        running = [pool.submit(verify, part, **arguments) for part in parts]
        for done, part in enumerate(as_completed(running), 1):
            report.ops.update(part.result().ops)
            if progress is not None:
                progress(f"{done} of {len(parts)} parts")
    report.seconds = time.monotonic() - start
    return report


def _add(entry: OpReport, counts: dict[str, Any]) -> None:
    for name in ("forced", "refused", "dispatched", "backward", "trials"):
        setattr(entry, name, getattr(entry, name) + counts[name])
    entry.drawn |= counts["drawn"]
    entry.error = max(entry.error, counts["error"])
    for name, lines in (("strategies", "table"), ("mutations", "mutations")):
        known = getattr(entry, name)
        known += [line for line in counts[lines] if line not in known]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``python -m hyper_parallel verify [op ...]``."""
    parser = argparse.ArgumentParser(prog="hyper_parallel verify", description=main.__doc__)
    parser.add_argument("ops", nargs="*", help="aten::mm; all rows by default")
    parser.add_argument("--rule", help="a rule to check in place of the op's own")
    parser.add_argument(
        "--cases", help="a package of cases in place of hyper_parallel.verifier.cases"
    )
    parser.add_argument("--no-dispatch", action="store_true")
    parser.add_argument("--no-missing", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    os.environ.update({"HYPER_PARALLEL_CASES": given.cases} if given.cases else {})
    few = len(given.ops) in range(1, 4)
    report = (verify if few else verify_all)(
        given.ops or None,
        rule=given.rule,
        dispatch=not given.no_dispatch,
        missing=not given.no_missing,
        seed=given.seed,
        progress=lambda text: (
            print(f"  {text}", end="\033[K\r", file=sys.stderr, flush=True)
            if sys.stderr.isatty()
            else None
        ),
    )
    if given.ops:
        for op in report.ops.values():
            print(f"{op.op}    {op.spec}")
            for line in op.strategies:
                print(f"    {line}")
    for finding in report.missing + report.wrong:
        print(finding)
    for op in report.without_cases:
        print(f"no case: {op}")
    print(report.summary())
    return 1 if report.wrong or report.without_cases else 0
