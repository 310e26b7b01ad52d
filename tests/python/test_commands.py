"""The command line, and reports that are saved and read back."""

import json
import os
import subprocess
import sys

import pytest

from hyper_parallel.commands import main
from hyper_parallel.errors import UsageError
from hyper_parallel.report import CommReport, CommRow

ROWS = [
    CommRow("all_gather", ("tp",), 1048576, "forward", "aten::linear", 'input "x" whole',
            "f32[4, 8]", "R S(1)", "R R", 4),
    CommRow("all_reduce", ("dp", "tp"), 96, "backward", tensor="f32[8]", joined=1),
    CommRow("all_reduce", ("dp", "tp"), 4, "backward", tensor="f32[1]", joined=1),
]  # fmt: skip
SOURCE = "f32[4096, 1024] on dp=2 tp=4: S(0) R"


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "step.json"
    CommReport(ROWS).to_json(path)
    return path


def test_a_report_is_read_back_as_it_was_saved(saved):
    report = CommReport.from_json(saved)
    assert report.rows == ROWS
    assert (report.count(), report.bytes()) == (2, 1048576 + 100)
    assert json.loads(saved.read_text())["rows"][0]["axes"] == ["tp"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"report": "hyper_parallel.comm", "version": 2, "rows": []}',
     '{"report": "hyper_parallel.comm", "version": 1, "rows": [{"kind": "x"}]}',
     '{"report": "hyper_parallel.comm", "version": 1, "rows": 3}',
     '{"report": "hyper_parallel.comm", "version": 1, "rows": [{"kind": "x", "axes": [], '
     '"bytes": 1, "phase": "later"}]}'],
)  # fmt: skip
def test_other_files_are_refused(text, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="HP-R021"):
        CommReport.from_json(path)


def test_a_row_is_a_value():
    import copy
    import pickle

    row = ROWS[0]
    assert pickle.loads(pickle.dumps(row)) == copy.deepcopy(row) == row
    assert hash(row) == hash(pickle.loads(pickle.dumps(row)))
    assert row != ROWS[1] and row != "row"
    assert eval(repr(row)) == row
    with pytest.raises(AttributeError):
        row.kind = "other"


def test_a_report_is_pickled_with_its_rows():
    import pickle

    made = pickle.loads(pickle.dumps(CommReport(ROWS)))
    assert type(made) is CommReport and made.rows == ROWS


def test_plan(capsys):
    assert main(["plan", SOURCE, "R S(1)"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{SOURCE} -> R S(1)"
    assert main(["plan", SOURCE, "dp=2 tp=4: R S(1)", "--topology", "h100", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["bytes"] == made["lower_bound_bytes"] == 2 << 20
    assert [step["after"] for step in made["steps"]] == ["S(0) S(1)", "R S(1)"]


def test_explain(saved, tmp_path, capsys):
    assert main(["explain", str(saved)]) == 0
    assert capsys.readouterr().out == CommReport(ROWS).table() + "\n"
    assert main(["explain", str(saved), "--why"]) == 0
    assert 'for aten::linear: input "x" whole' in capsys.readouterr().out
    page = tmp_path / "step.html"
    assert main(["explain", str(saved), "--html", str(page), "--title", "a < b"]) == 0
    assert "<h1>a &lt; b</h1>" in page.read_text()


def test_rules(capsys):
    assert main(["rules", "aten::sum", "f32[8, 16]", "dim=1"]) == 0
    assert "call f32[8, 16], dim=1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 2, "usage: hyper_parallel COMMAND"),
        (["plans"], 2, "usage: hyper_parallel COMMAND"),
        (["plan", "f32[4", "R"], 2, "HP-T001"),
        (["plan", SOURCE, "R S(1)", "--topology", "mine"], 2, "HP-R001"),
        (["plan", SOURCE, "P(max) R"], 1, "HP-R002"),
        (["rules", "no_such_op"], 2, "HP-S040"),
        (["explain", "/nowhere.json"], 2, "HP-R021"),
    ],
)
def test_bad_calls_end_with_their_code(arguments, code, text, capsys):
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert text in captured.err and captured.out == ""


def test_arguments_that_do_not_parse_end_with_2(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["plan", SOURCE])
    assert ended.value.code == 2
    assert "usage: hyper_parallel plan" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["plan", "rules", "explain", "verify"])
def test_help_of_each_command(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: hyper_parallel {command}" in capsys.readouterr().out
    assert main(["--help"]) == 0 and command in capsys.readouterr().out


def test_commands_without_tensors_load_no_torch(saved):
    """Each in a process of its own, where torch cannot be imported."""
    block = "import sys; sys.modules['torch'] = None\n"
    run = "from hyper_parallel.commands import main; sys.exit(main(sys.argv[1:]))"
    for arguments in (["plan", SOURCE, "R S(1)"], ["rules", "aten::mm"], ["explain", str(saved)]):
        made = subprocess.run(
            [sys.executable, "-c", block + run, *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert made.returncode == 0 and made.stdout, made.stderr
