"""Run every op of torch's operator database on DTensors and compare with one device.

    make sweep                                               # all; results.tsv and fixed.tsv
    python tests/sweep/sweep.py --ops '^fft' --meshes 4,2x2 --cases build/cases.tsv

A case is an op, sample inputs, a mesh, and a layout that gives each tensor R or S(d); it is run in
policy strict, and in policy auto if strict refuses an op. Results and gradients are compared by
value, random ones too. An op is full on a mesh in a policy if all its cases are right, partial if
some are, none if none is, and n/a if no sample has a tensor.

Verdicts of a case: ok; unsupported (an UnsupportedError); error (any other); hang; crash;
wrong_forward and wrong_grad (a silently wrong number).
"""

from __future__ import annotations

import argparse
import collections
import csv
import dataclasses
import math
import multiprocessing
import os
import queue
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
POLICIES = ("auto", "strict")


@dataclasses.dataclass
class Options:
    ops: str = "."
    meshes: tuple[str, ...] = ("4", "3")
    max_samples: int = 4
    max_layouts: int = 6
    sizes: tuple[int, ...] = (4, 5)
    in_place: bool = False
    shards: int = 2
    limit_s: float = 3600.0
    timeout_s: float = 20.0  # of one collective
    op_budget_s: float = 120.0


# The part that every run of the tests does: all ops, few cases, uneven pieces.
FIXED = Options(meshes=("3",), max_samples=1, max_layouts=3, sizes=(5,), limit_s=900.0)


@dataclasses.dataclass
class Case:
    op: str
    mesh: str
    policy: str
    name: str  # sample and layout
    verdict: str
    message: str = ""


# ---- A worker process: runs the cases of one op after the other -----------------------------


def worker(pipe: Any, options: Options) -> None:
    import torch
    from samples import load_ops

    torch.set_num_threads(1)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    ops = load_ops(options.ops)
    while True:
        index, avoid = pipe.recv()
        pipe.send(("done", run_op(ops[index], options, avoid, pipe)))


def run_op(op: Any, options: Options, avoid: set[str], pipe: Any) -> list[Case]:
    from samples import label, layouts, samples

    until = time.time() + options.op_budget_s
    out: list[Case] = []
    name = label(op)
    for which, sample in samples(op, list(options.sizes), options.max_samples, options.in_place):
        for mesh in options.meshes:
            if time.time() > until:
                break
            axes = [int(n) for n in mesh.split("x")]
            chosen = layouts(sample.tensors, math.prod(axes), options.max_layouts, name + which)
            # Each further axis takes another of the layouts.
            todo = {}
            for i in range(len(chosen)):
                lines = [chosen[(i + k) % len(chosen)] for k in range(len(axes))]
                todo[f"{which} {' '.join(map(text_of, lines))}"] = lines
            for policy in ("strict", "auto"):
                keys = [key for key in todo if f"{mesh} {policy} {key}" not in avoid]
                before = f"{mesh} {policy} "
                verdicts = run_cases(sample, axes, policy, {k: todo[k] for k in keys}, options,
                                     lambda key, b=before: pipe.send(("at", b + key)))  # fmt: skip
                out += [Case(name, mesh, policy, k, *verdicts[k]) for k in keys]
                if policy == "strict":
                    same = [k for k in keys if "HP-D010" not in verdicts[k][1]]
                    out += [Case(name, mesh, "auto", k, *verdicts[k]) for k in same]
                    todo = {k: v for k, v in todo.items() if k not in same}
    return out


def text_of(layout: tuple[int | None, ...]) -> str:
    return ",".join("R" if d is None else f"S({d})" for d in layout)


def run_cases(
    sample: Any, axes: list[int], policy: str, cases: dict[str, Any], options: Options, tell: Any
) -> dict[str, tuple[str, str]]:
    """Run cases on one set of ranks; after an error go on with the next on new ranks."""
    out: dict[str, tuple[str, str]] = {}
    left = list(cases)
    while left:
        todo = {key: cases[key] for key in left}
        results, failed, error = run_until_error(sample, axes, policy, todo, options, tell)
        while left:
            key = left.pop(0)
            if key == failed:
                out[key] = judge_error(error)
                break
            found = ((rank, sample.check(result)) for rank, result in results[key].items())
            wrong = next(((rank, bad) for rank, bad in found if bad), None)
            out[key] = (wrong[1][0], f"rank {wrong[0]}, {wrong[1][1]}") if wrong else ("ok", "")
    return out


def run_until_error(
    sample: Any, axes: list[int], policy: str, cases: dict[str, Any], options: Options, tell: Any
) -> tuple[dict[str, dict[int, Any]], str | None, Any]:
    """Give the results by case and rank, and the case that failed with its error."""
    import hyper_parallel as hp

    world = math.prod(axes)
    names = tuple(f"axis{i}" for i in range(len(axes)))
    results: dict[str, dict[int, Any]] = {key: {} for key in cases}
    errors: list[tuple[str, BaseException]] = []
    barrier = threading.Barrier(world)

    def on_rank() -> None:
        at = next(iter(cases))
        try:
            mesh = hp.init_device_mesh("cpu", tuple(axes), mesh_dim_names=names)
            with hp.policy(policy):
                for at, layouts in cases.items():
                    barrier.wait(options.timeout_s)
                    if hp.rank() == 0:
                        tell(at)
                    results[at][hp.rank()] = sample.on_rank(mesh, layouts)
        except BaseException as error:
            errors.append((at, error))
            barrier.abort()
            raise

    try:
        hp.run_local(on_rank, world, timeout=options.timeout_s)
    except Exception:
        if not errors:
            raise
    return results, *(errors[0] if errors else (None, None))


def judge_error(error: BaseException) -> tuple[str, str]:
    import hyper_parallel as hp

    verdict = "error"
    if isinstance(error, (hp.CommError, threading.BrokenBarrierError)):
        verdict = "hang"
    elif isinstance(error, (hp.UnsupportedError, NotImplementedError)):
        verdict = "unsupported"
    return verdict, re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")


# ---- The parent: starts workers anew after a crash, writes the tables -------------------------


class Worker:
    """A process that runs ops; one that dies or hangs is replaced."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.process: Any = None

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=worker, args=(theirs, self.options), daemon=True)
        self.process.start()
        theirs.close()

    def stop(self) -> int | None:
        if self.process is None:
            return None
        self.process.join(1)
        code = self.process.exitcode
        self.process.kill()
        self.process.join()
        self.process = None
        return code

    def run(self, index: int, name: str) -> list[Case]:
        lost: list[Case] = []
        avoid: set[str] = set()
        while True:
            if self.process is None:
                self.start()
            at = ""
            try:
                self.pipe.send((index, avoid))
                while True:
                    if not self.pipe.poll(3 * self.options.timeout_s + 240):
                        raise TimeoutError
                    what, value = self.pipe.recv()
                    if what == "done":
                        return lost + value
                    at = value
            except (EOFError, OSError) as error:  # TimeoutError is an OSError
                code = self.stop()
                verdict = "hang" if isinstance(error, TimeoutError) else "crash"
                mesh, policy, case = (at or "- auto outside-a-case").split(" ", 2)
                lost.append(Case(name, mesh, policy, case, verdict, f"exit code {code}"))
                if not at or len(lost) > 20:
                    return lost
                avoid.add(at)


def sweep(options: Options, say: Any = lambda name, cases: None) -> dict[str, list[Case]]:
    """Run all ops; give the cases of each, in the order of the database."""
    from samples import label, load_ops

    names = [label(op) for op in load_ops(options.ops)]
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in range(len(names)):
        todo.put(i)
    out: dict[int, list[Case]] = {}
    until = time.time() + options.limit_s

    def serve() -> None:
        mine = Worker(options)
        while time.time() < until:
            try:
                i = todo.get_nowait()
            except queue.Empty:
                break
            out[i] = mine.run(i, names[i])
            say(names[i], out[i])
        mine.stop()

    threads = [threading.Thread(target=serve) for _ in range(options.shards)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {names[i]: out[i] for i in sorted(out)}


def status(cases: list[Case]) -> str:
    right = sum(case.verdict == "ok" for case in cases)
    return "n/a" if not cases else "full" if right == len(cases) else "partial" if right else "none"


def statuses(found: dict[str, list[Case]], mesh: str, policy: str) -> dict[str, str]:
    return {
        op: status([c for c in cases if c.mesh == mesh and c.policy == policy])
        for op, cases in found.items()
    }


def summary(found: dict[str, list[Case]], mesh: str, policy: str) -> str:
    counts = collections.Counter(statuses(found, mesh, policy).values())
    wrong = {
        op
        for op, cases in found.items()
        for c in cases
        if c.mesh == mesh and c.policy == policy and c.verdict.startswith("wrong")
    }
    words = [f"{word}={counts[word]}" for word in ("full", "partial", "none", "n/a")]
    return f"mesh={mesh} policy={policy} {' '.join(words)} wrong={len(wrong)}"


def torch_baseline() -> dict[str, str]:
    with (HERE / "torch_dtensor.tsv").open(newline="") as file:
        return dict(csv.reader(file, delimiter="\t"))


def write_table(path: Path, found: dict[str, list[Case]], options: Options) -> None:
    """Write a row for each op: its state on each mesh in each policy, and in torch's DTensor."""
    columns = [(mesh, policy) for mesh in options.meshes for policy in POLICIES]
    known = torch_baseline()
    by_column = [statuses(found, *column) for column in columns]
    with path.open("w", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(["op", *(f"{m} {p}" for m, p in columns), "torch DTensor, 4"])
        for op in found:
            table.writerow([op, *(c[op] for c in by_column), known.get(op, "")])


def write_cases(path: Path, found: dict[str, list[Case]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        for cases in found.values():
            table.writerows(dataclasses.astuple(c) for c in cases if c.verdict != "ok")


def main() -> int:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--table", type=Path, help="write a row for each op")
    p.add_argument("--cases", type=Path, help="write a row for each case that is not ok")
    for field in dataclasses.fields(Options):
        flag = "--" + field.name.replace("_", "-")
        if field.type == "bool":
            p.add_argument(flag, action="store_true")
        elif isinstance(field.default, tuple):
            kind = type(field.default[0])
            p.add_argument(flag, default=field.default,
                           type=lambda s, k=kind: tuple(map(k, s.split(","))))  # fmt: skip
        else:
            p.add_argument(flag, type=type(field.default), default=field.default)
    p.add_argument("--fixed", action="store_true", help="the part that the tests run")
    given = vars(p.parse_args())
    table, cases, fixed = given.pop("table"), given.pop("cases"), given.pop("fixed")
    options = Options(**given)
    if fixed:
        options = dataclasses.replace(FIXED, shards=options.shards)
    began = time.time()

    def say(name: str, op_cases: list[Case]) -> None:
        for c in op_cases:
            if c.verdict.startswith(("wrong", "crash", "hang")):
                print(f"{name}\t{c.mesh}\t{c.policy}\t{c.name}\t{c.verdict}\t{c.message}")
                sys.stdout.flush()

    found = sweep(options, say)
    if table:
        write_table(table, found, options)
    if cases:
        write_cases(cases, found)
    for mesh in options.meshes:
        for policy in POLICIES:
            print(summary(found, mesh, policy))
    count = sum(map(len, found.values()))
    print(f"ops={len(found)} cases={count} seconds={time.time() - began:.0f}")
    wrong = any(c.verdict.startswith("wrong") for op_cases in found.values() for c in op_cases)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
