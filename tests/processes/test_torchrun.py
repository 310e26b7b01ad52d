"""The same calls on processes that torchrun starts, over Gloo."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hyper_parallel

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def torchrun(processes, *command):
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(hyper_parallel.__file__).parent.parent),
    }
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        + [f"--nproc-per-node={processes}", *map(str, command)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def results(output):
    # Gloo writes to the same pipe, and not always whole lines.
    return sorted(ast.literal_eval(found) for found in re.findall(r"RESULT (\(.*\))", output))


@pytest.mark.parametrize("mode", ["own", "helper"])
def test_two_processes(mode):
    local = [(0, [2.0]), (1, [2.0])]
    assert results(torchrun(2, HERE / "program.py", mode)) == [
        (me, (0, 1), 2, [3.0], [], local, True, 1) for me in range(2)
    ]


def test_groups_of_some_processes():
    found = results(torchrun(4, HERE / "program.py"))
    assert [(me, whole, parts) for me, _, _, whole, parts, *_ in found] == [
        (0, [10.0], [2.0, 0.0]),
        (1, [10.0], [3.0, 1.0]),
        (2, [10.0], [2.0, 0.0]),
        (3, [10.0], [3.0, 1.0]),
    ]


@pytest.fixture
def gloo_program():
    built = sorted(
        ROOT.glob("build/*/tests/processes/gloo_program"), key=lambda p: p.stat().st_mtime
    )
    if not built:
        pytest.skip("gloo_program is not built")
    return built[-1]


@pytest.mark.parametrize("rank", [None, "first", "5"])
def test_a_launch_that_cannot_be(gloo_program, rank):
    environment = {k: v for k, v in os.environ.items() if k != "RANK"} | {"WORLD_SIZE": "2"}
    environment |= {} if rank is None else {"RANK": rank}
    done = subprocess.run([gloo_program], env=environment, capture_output=True, text=True)
    assert done.returncode != 0 and "[HP-C011]" in done.stderr and "RANK" in done.stderr


def test_processes_without_python(gloo_program):
    output = torchrun(4, "--no-python", gloo_program)
    assert sorted(line for line in output.splitlines() if line.startswith("rank ")) == [
        "rank 0 of 4: 10 4",
        "rank 1 of 4: 10 6",
        "rank 2 of 4: 10 4",
        "rank 3 of 4: 10 6",
    ]


def test_a_step_traces_into_local_ops_and_collectives():
    assert torchrun(4, HERE / "trace_program.py").count("traced") == 4


def test_the_example_runs_under_torchrun(tmp_path):
    output = torchrun(
        4,
        ROOT / "examples" / "train_qwen3.py",
        "--steps=2",
        "--layers=1",
        "--length=16",
        f"--html={tmp_path / 'page.html'}",
    )
    assert "PASS loss_diff=" in output
    assert "<svg" in (tmp_path / "page.html").read_text()


def test_torchs_styles_and_ours_side_by_side():
    found = results(torchrun(2, HERE / "style_program.py"))
    assert found == [(me, True, True, True, True, True) for me in range(2)]


@pytest.mark.parametrize("which", ["custom_shard", "result", "rule", "function", "op", "backward"])
def test_an_error_of_the_user_on_one_process_is_named_on_all(which):
    found = results(torchrun(2, HERE / "failing_program.py", which))
    named = {"custom_shard": "custom_shard: fail", "result": "custom_shard: <lambda>"}
    named |= {"op": "exp", "backward": "backward"}
    where = named.get(which, "Fails")
    assert found == [
        (0, "CommError", f"[HP-C003] rank 1 failed in {where}: KeyError: 'lost'"),
        (1, "KeyError", "'lost'"),
    ]


def test_torchs_dtensors_become_ours_and_back():
    assert results(torchrun(4, HERE / "convert_program.py")) == [
        (me, True, True, True, True, True, True) for me in range(4)
    ]
