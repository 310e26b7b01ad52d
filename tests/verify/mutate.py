"""Does the verifier find broken rules? Change every letter and mark in turn and see it turn red.

    python tests/verify/mutate.py                 # every row: five minutes on two cores
    python tests/verify/mutate.py --one-a-text    # one row for each text of a rule
    python tests/verify/mutate.py --ops 'aten::(mm|sum)'

A mutation survives if no strategy of the changed rule is wrong and none is reported missing that
the rule itself has. Those that are known to change nothing stand in ``survivors.tsv``, each with
the reason. The last line is ``mutants=... killed=... explained=... survived=...``.
"""

import argparse
import csv
import multiprocessing
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from hyper_parallel import _torch
from hyper_parallel.verifier.session import verify

SURVIVORS = Path(__file__).with_name("survivors.tsv")


def explained():
    """Read rows of (op, mutation, reason); op and mutation are patterns for the whole text."""
    with SURVIVORS.open(newline="") as file:
        rows = [row for row in csv.reader(file, delimiter="\t") if row and row[0][0] != "#"]
    assert all(len(row) == 3 and row[2] for row in rows), "op, mutation and reason"
    return [(re.compile(op), re.compile(what)) for op, what, _ in rows]


def missing(op, mutation, meshes):
    found = verify(op, mutation=mutation, meshes=meshes, dispatch=False, in_place=False).missing
    return {(f.case, f.line) for f in found}


def is_found(op, mutation, known):
    """Tell whether the verifier turns red, the cheapest check first."""
    for meshes in ([(2,)], [(3,)], [(2, 2), (4,)]):
        wrong = verify(
            op, mutation=mutation, meshes=meshes, dispatch=False, in_place=False, missing=False
        ).wrong
        if wrong:
            return True
        if meshes == [(2,)] and missing(op, mutation, meshes) - known:
            return True
    return False


def mutations_of(op):
    """Give the mutations of an op's rule, and the strategies that the rule itself misses."""
    first = verify(op, meshes=[(2,)], dispatch=False, in_place=False).ops[op]
    return first.mutations, {(f.case, f.line) for f in first.missing}


def mutate(op):
    """Give all mutations of an op's rule and those that survive."""
    mutations, known = mutations_of(op)
    return mutations, [m for m in mutations if not is_found(op, m, known)]


# Kernels that do not check sizes may corrupt memory when a rule is wrong: each op has a process.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["hyper_parallel.verifier.session"])


def send(pipe, function, args):
    try:
        pipe.send((function(*args), None))
    except Exception as error:
        pipe.send((None, error))


def alone(function, *args):
    """Call in a process of its own; None if that crashes."""
    here, there = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=send, args=(there, function, args))
    process.start()
    there.close()
    try:
        result, error = here.recv()
    except EOFError:
        return None
    finally:
        process.join()
    if error is not None:
        raise error
    return result


def mutate_alone(op):
    """Do as ``mutate`` does; a mutant that crashes is found."""
    made = alone(mutate, op)
    if made is not None:
        return made
    mutations, known = alone(mutations_of, op)
    return mutations, [m for m in mutations if alone(is_found, op, m, known) is False]


def mutate_all(ops, jobs, progress):
    """Mutate many rows; give the number of mutants and the survivors as (op, mutation)."""
    count, survivors = 0, []
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(mutate_alone, op): op for op in ops}
        for done, future in enumerate(as_completed(running), 1):
            mutations, alive = future.result()
            count += len(mutations)
            survivors += [(running[future], m) for m in alive]
            progress(f"{done} of {len(ops)} rules, {count} mutants, {len(survivors)} survive")
    return count, sorted(survivors)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", default=".", help="a regular expression for names of ops")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--one-a-text", action="store_true", help="one row for each text of a rule")
    given = parser.parse_args()
    rows = [(op, text) for op, text in _torch.rule_rows() if re.search(given.ops, op)]
    ops = [op for op, _ in rows]
    if given.one_a_text:
        ops = list({text: op for op, text in reversed(rows)}.values())[::-1]

    def progress(text):
        if sys.stderr.isatty():
            print(f"  {text}", end="\033[K\r", file=sys.stderr, flush=True)

    count, survivors = mutate_all(ops, given.jobs, progress)
    reasons = explained()
    alive = [
        (op, what)
        for op, what in survivors
        if not any(o.fullmatch(op.removeprefix("aten::")) and w.fullmatch(what) for o, w in reasons)
    ]
    for op, what in alive:
        print(f"survives: {op}: {what}")
    print(
        f"mutants={count} killed={count - len(survivors)} "
        f"explained={len(survivors) - len(alive)} survived={len(alive)}"
    )
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
