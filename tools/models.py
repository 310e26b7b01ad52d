"""Train small models of transformers under the plans that they bring, and print one table.

    make models                         # a fixed dozen
    python tools/models.py Qwen3 Mixtral
    python tools/models.py --all        # every model of tests/models/models.tsv

Each row is one step on ranks against one device, in float64: the differences, whether greedy tokens
agree, and the bytes that a rank sends: as the plan is taken here, and as it is written, where
outputs are gathered that need not be. A model without a plan is replicated, its batch split over
dp. With ``--all`` rows go to tests/models/results.tsv; models that it has are not run again.
"""

import argparse
import copy
import csv
import importlib
import os
import pickle
import select
import signal
import sys
import time
import warnings
from pathlib import Path

import torch
import transformers
from model_runs import (
    BOUND,
    GENERATE,
    MESHES,
    differences,
    plan_of,
    step,
    step_on_ranks,
    tokens,
    tokens_on_ranks,
)
from model_zoo import Entry, entries, inputs, made

RESULTS = Path(__file__).resolve().parent.parent / "tests/models/results.tsv"
COLUMNS = (
    "model",
    "kind",
    "plan",
    "mesh",
    "result",
    "loss",
    "gradient",
    "tokens",
    "bytes",
    "written",
    "note",
)
DOZEN = [
    "Llama",
    "Qwen3",
    "Mixtral",
    "Qwen3Moe",
    "DeepseekV3",
    "Phi3",
    "Gemma2",
    "Olmo2",
    "Glm4",
    "Cohere2",
    "DeepseekV2",
    "GptOss",
]

Row = dict[str, str]


def rows_of(entry: Entry) -> list[Row]:
    """Measure one model on every mesh."""
    head = {"model": entry.name, "kind": entry.kind}
    try:
        model = made(entry)
        want = step(entry, copy.deepcopy(model), inputs(entry, model))
    except Exception as error:
        return [head | {"result": "fails alone", "note": _said(error)}]
    head["plan"] = "own" if plan_of(model) else "none"
    there = None
    note = ""
    if entry.kind in GENERATE:
        try:
            there = tokens(entry, copy.deepcopy(model))
        except Exception as error:
            note = f"tokens alone: {_said(error)}"
    return [_row(entry, model, mesh, want, there) | head | _noted(note) for mesh in MESHES]


def _noted(note: str) -> Row:
    return {"note": note} if note else {}


def _row(entry: Entry, model, mesh: str, want, there) -> Row:
    row = {"mesh": mesh, "tokens": "-"}
    try:
        got = step_on_ranks(entry, model, mesh)
        loss, far = differences(got, want)
        row |= {"loss": f"{loss:.0e}", "gradient": f"{far:.0e}", "bytes": str(got.sent)}
        row["result"] = "equal" if loss < BOUND and far < BOUND else "DIFFERS"
        if plan_of(model):
            written = step_on_ranks(entry, model, mesh, as_written=True)
            row["written"] = str(written.sent)
    except Exception as error:
        return row | {"result": "FAILS", "note": _said(error)}
    if there is not None:
        try:
            here = tokens_on_ranks(entry, model, mesh)
        except Exception as error:
            return row | {"tokens": "FAILS", "note": _said(error)}
        row["tokens"] = "equal" if all(torch.equal(t, there) for t in here) else "DIFFER"
    return row


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


# ---- Processes: each model has its own, with a limit of time --------------------------------


def run_all(todo: list[Entry], workers: int, limit: float):
    """Run models in processes of their own; yields (entry, rows, seconds) as they end."""
    waiting, running = list(todo)[::-1], {}
    while waiting or running:
        while waiting and len(running) < workers:
            entry = waiting.pop()
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                _child(entry, writer, limit)
            os.close(writer)
            running[reader] = (entry, pid, time.monotonic())
        for reader in select.select(list(running), [], [])[0]:
            entry, pid, begin = running.pop(reader)
            with os.fdopen(reader, "rb") as pipe:
                text = pipe.read()
            os.waitpid(pid, 0)
            rows = pickle.loads(text) if text else [_stopped(entry, limit)]
            yield entry, rows, time.monotonic() - begin


def _child(entry: Entry, writer: int, limit: float) -> None:
    """Run one model and tell its rows; the alarm ends the process where it stands."""
    signal.setitimer(signal.ITIMER_REAL, limit)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)
    with os.fdopen(writer, "wb") as pipe:
        pickle.dump(rows_of(entry), pipe)
    os._exit(0)


def _stopped(entry: Entry, limit: float) -> Row:
    note = f"ended without a result within {limit:.0f} s"
    return {"model": entry.name, "kind": entry.kind, "result": "FAILS", "note": note}


def warm() -> None:
    """Import what models share, once for all processes; no op runs here, so no threads start."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    for name in ("llama", "t5", "vit", "resnet", "wav2vec2", "qwen3_vl", "bert", "mixtral"):
        importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)


# ---- The table ------------------------------------------------------------------------------


def read_results() -> list[Row]:
    if not RESULTS.exists():
        return []
    with RESULTS.open() as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def write_results(rows: list[Row]) -> None:
    with RESULTS.open("w") as file:
        file.write("\t".join(COLUMNS) + "\n")
        order = list(MESHES)
        for row in sorted(
            rows,
            key=lambda r: (r["kind"], r["model"], order.index(r["mesh"]) if r.get("mesh") else -1),
        ):
            file.write("\t".join(row.get(c) or "" for c in COLUMNS).rstrip() + "\n")


def line(row: Row) -> str:
    widths = (44, 0, 6, 9, 9, 7, 9, 8, 9, 9, 0)
    cells = (row.get(c) or "" for c in COLUMNS)
    text = "".join(f"{c:<{w}}" for c, w in zip(cells, widths, strict=True) if w)
    return f"{text} {row.get('note') or ''}".rstrip()


def good(row: Row) -> bool:
    return row["result"] == "equal" and row.get("tokens") in ("-", "equal")


def chosen(given) -> list[Entry]:
    """The models that were asked for, by name or the start of it; the dozen by default."""
    listed = entries()
    if given.all and not given.models:
        return listed
    names = given.models or DOZEN
    exact = {f"{n}{end}" for n in names for end in ("", "ForCausalLM", "LMHeadModel")}
    found = [e for e in listed if e.name in exact or e.kind in names]
    return found or [e for e in listed if e.name.startswith(tuple(names))]


def main() -> int:
    """Print the table; 1 if a model differs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("models", nargs="*", help=f"names or kinds; {', '.join(DOZEN)} by default")
    parser.add_argument("--all", action="store_true", help="all models, into tests/models")
    parser.add_argument("--again", choices=("failed", "all"), help="run also what the table has")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120, help="seconds a model")
    given = parser.parse_args()
    kept = read_results() if given.all else []
    bad = {r["model"] for r in kept if not good(r)}
    done = {"all": set(), "failed": {r["model"] for r in kept} - bad}.get(
        given.again, {r["model"] for r in kept}
    )
    todo = [e for e in chosen(given) if e.name not in done]
    warm()
    print(line({c: c for c in COLUMNS}))
    ours = []
    for count, (entry, rows, seconds) in enumerate(run_all(todo, given.workers, given.limit), 1):
        ours += rows
        for row in rows:
            print(line(row), flush=True)
        if given.all:
            print(f"  {count} of {len(todo)}, {seconds:.0f} s", file=sys.stderr, flush=True)
            kept = [r for r in kept if r["model"] != entry.name] + rows
            write_results(kept)
    shown = kept if given.all else ours
    print(f"{sum(map(good, shown))} of {len(shown)} rows are equal")
    return 0 if all(map(good, ours)) else 1


if __name__ == "__main__":
    sys.exit(main())
