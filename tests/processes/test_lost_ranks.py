"""A process that leaves the common order of collectives is named on all others, within seconds."""

import ast
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hyper_parallel

PROGRAM = Path(__file__).parent / "lost_program.py"
STEPS = 25  # of two places each

# Started one by one: torchrun ends all others as soon as one process dies.
# `DEATH_SECONDS` and the time that a loaded machine needs on top.
DEATH_SECONDS = 5
LIMIT = 3 * DEATH_SECONDS

CODES = {
    "kill": "HP-C014",
    "stop": "HP-C014",
    "raise": "HP-C003",
    "return": "HP-C004",
    "skip": "HP-C004",
    "swap": "HP-C001",
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launch(world, how, where, who, steps=STEPS, checked=False, **variables):
    """Run the program; give what each rank printed, by rank."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(hyper_parallel.__file__).parent.parent),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(world),
        "HYPER_PARALLEL_DEATH_SECONDS": str(DEATH_SECONDS),
        **variables,
    }
    words = [how, str(where), str(who), str(steps), "checked" if checked else "plain"]
    processes = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), *words],
            env=environment | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    found = {}
    end = time.monotonic() + 120
    try:
        for rank, process in enumerate(processes):
            if rank == who and how == "stop":
                continue  # stays
            out, err = process.communicate(timeout=max(1.0, end - time.monotonic()))
            line = re.search(r"RESULT (\(.*\))", out)
            found[rank] = ast.literal_eval(line[1]) if line else (rank, "silent", err, 0.0)
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.communicate()
    return found


def check(world, how, where, who):
    found = launch(world, how, where, who)
    for rank, (_, kind, text, took) in found.items():
        if rank == who and how != "swap":
            continue  # it may hear of it or not
        assert kind == "CommError", (rank, text)
        assert took < LIMIT, (rank, took)
        first = text.split("\n")[0]
        assert f"[{CODES[how]}]" in first, text
        if how in ("kill", "stop", "raise"):
            assert re.match(rf"\[HP-C0..\] rank {who} ", first), text
        if how in ("return", "skip"):
            assert f"for rank {who}, which has returned" in first, text
        if how == "swap":
            assert re.search(rf"\n *ranks? {who} +all_reduce\(sum\) f32\[6, 6\]", text), text


@pytest.mark.parametrize("how", ["kill", "stop", "raise", "return", "skip", "swap"])
def test_one_of_two(how):
    check(2, how, random.Random(how).randrange(2 * STEPS), 1)


@pytest.mark.parametrize(("how", "who"), [("kill", 2), ("swap", 1)])
def test_one_of_four(how, who):
    check(4, how, random.Random(how).randrange(2 * STEPS), who)


@pytest.mark.parametrize("how", ["kill", "stop", "raise"])
def test_the_rank_that_holds_the_store(how):
    check(2, how, 3, 0)


def test_all_ranks_right_and_the_log():
    found = launch(2, "none", 0, 0, steps=1)
    assert {row[:2] for row in found.values()} == {(0, "fine"), (1, "fine")}
    assert found[0][2] == found[1][2]
    assert found[0][3].splitlines()[-1] == "#4 all_gather f32[6, 3] on ranks [0, 1]"
    assert found[0][3] == found[1][3]


def test_a_rank_that_does_not_come():
    found = launch(2, "late", 4, 1, HYPER_PARALLEL_PROGRESS_SECONDS="2")
    for _, kind, text, _ in found.values():
        assert kind == "CommError", text
        assert text.startswith("[HP-C002] rank 0 waited 2 s for rank 1"), text


@pytest.mark.parametrize("how", ["raise", "skip", "swap"])
def test_threads_at_every_place(how):
    sys.path.insert(0, str(PROGRAM.parent))
    from lost_program import Leaves, train

    def run(how, where):
        return hyper_parallel.run_local(lambda: train(Leaves(how, where, 1), 5), 2)

    right = run("none", 0)
    assert right[0] == right[1]
    for where in range(10):
        kind, text = {
            "raise": (ValueError, "one rank alone"),
            "skip": (hyper_parallel.CommError, "HP-C004"),
            "swap": (hyper_parallel.CommError, "HP-C001"),
        }[how]
        with pytest.raises(kind, match=text):
            run(how, where)


def test_checking_compares_before_each_collective(tmp_path):
    found = launch(2, "swap", 4, 1, checked=True)
    for _, kind, text, _ in found.values():
        assert kind == "CommError"
        assert text.startswith("[HP-C001] ranks do not bring the same collective"), text
        assert "rank 0  all_gather f32[6, 3]" in text
        assert "rank 1  all_reduce(sum) f32[6, 6]" in text


def test_a_failure_writes_the_log(tmp_path):
    launch(2, "return", 4, 1, HYPER_PARALLEL_LOG_DIRECTORY=str(tmp_path))
    text = (tmp_path / "collectives.rank0.txt").read_text()
    assert text.startswith("rank 0 waits for rank 1, which has returned")
    assert "#6 all_gather f32[6, 3] on ranks [0, 1]\n" in text


def test_a_setting_that_is_no_number():
    found = launch(2, "none", 0, 0, HYPER_PARALLEL_DEATH_SECONDS="soon")
    assert all("[HP-C016] HYPER_PARALLEL_DEATH_SECONDS" in row[2] for row in found.values())


def test_no_watch_where_it_is_not_wanted():
    found = launch(2, "none", 0, 0, steps=1, HYPER_PARALLEL_DEATH_SECONDS="0")
    assert [row[3] for row in found.values()] == ["", ""]


@pytest.mark.skipif("HP_DESYNC" not in os.environ, reason="half an hour: make desync")
@pytest.mark.parametrize("how", sorted(CODES))
def test_at_every_place(how):
    for where in range(2 * STEPS):
        check(2, how, where, 1)
