"""Texts that Python reads get damaged: a value, or a UsageError; never another exception."""

import random

import pytest

from hyper_parallel import TensorSpec, UnsupportedError, UsageError, commands
from hyper_parallel.report import CommReport

TENSORS = ["f32[8, 16] on dp=2 tp=4: S(0) R", "f32[8, 16] S(0) R", "f32[8, 16]", "i64[]", "-"]
RULES = [
    ["aten::mm", "f32[8, 16]; f32[16, 32]"],
    ["topk", "f32[8, 16]", "k=2", "dim=1"],
    ["aten::sum.dim_IntList", "f32[8, 16]", "dim=[0, 1]", "keepdim=true"],
    ["aten::cat", "[f32[8], f32[8]]", "dim=0"],
]
JSON = (
    '{"report": "hyper_parallel.comm", "version": 1, "rows": [{"kind": "all_gather", '
    '"axes": ["tp"], "bytes": 48, "phase": "forward", "op": "aten::mm", "ranks": 2}]}'
)
TOKENS = list("[](){};:,=|-. ") + ["S(0)", "P(sum)", "R", "dp=2", "on ", "f32", "true", "None"]
NUMBERS = ["0", "-1", "2147483648", "9223372036854775808", "1e400", "NaN"]


def damaged(draw: random.Random, text: str) -> str:
    """The text after up to three damages."""
    for _ in range(draw.randrange(4)):
        at = draw.randrange(len(text) + 1)
        end = min(len(text), at + draw.randrange(4))
        new = draw.choice([draw.choice(TOKENS), draw.choice(NUMBERS), "", text[at:end] * 2, "\0é"])
        text = text[:at] + new + text[end:] if draw.randrange(8) else text[:at]
    return text


def rounds(count: int, seed: int):
    draw = random.Random(seed)
    return (draw for _ in range(count))


def test_tensors():
    read = 0
    for draw in rounds(3000, 1):
        text = damaged(draw, draw.choice(TENSORS))
        try:
            spec = TensorSpec.parse(text)
        except UsageError as error:
            assert error.code == "HP-S043", text
            continue
        read += 1
        if spec.layout is None:  # the text of a layout waits for its mesh
            assert str(TensorSpec.parse(str(spec))) == str(spec), text
    assert read > 300


@pytest.mark.parametrize("seed", [2, 3])
def test_the_command_for_rules(seed, capsys):
    codes = set()
    for draw in rounds(400, seed):
        given = [damaged(draw, part) if i else part for i, part in enumerate(draw.choice(RULES))]
        codes.add(ended(["rules", *given]))
        capsys.readouterr()
    assert codes == {0, 2}


def test_the_command_for_plans(capsys):
    codes = set()
    for draw in rounds(400, 4):
        source = damaged(draw, TENSORS[0])
        codes.add(ended(["plan", source, damaged(draw, "R S(1)")]))
        capsys.readouterr()
    assert {0, 2} <= codes <= {0, 1, 2}


def ended(arguments: list[str]) -> int:
    """The exit code; argparse exits by itself with 2, and with 0 after help."""
    try:
        return commands.main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


def test_saved_reports(tmp_path):
    read = 0
    for draw in rounds(2000, 5):
        path = tmp_path / "report.json"
        path.write_text(damaged(draw, JSON), encoding="utf-8")
        try:
            report = CommReport.from_json(path)
        except (UsageError, UnsupportedError):
            continue
        read += 1
        report.table()
        report.why()
    assert read > 100
