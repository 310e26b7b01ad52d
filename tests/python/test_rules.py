"""Inference on layouts alone: values, texts, errors, the command line and its documents."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hyper_parallel import (
    Layout,
    Shard,
    TensorSpec,
    UsageError,
    _core,
    infer_backward,
    infer_forward,
    infer_grad,
    strategies,
)

ROOT = Path(__file__).resolve().parents[2]
X = "f32[8, 16] on dp=2 tp=2: S(0) S(1)"
W = "f32[16, 32] R R"


def layouts(specs):
    return [None if spec is None else spec.layout.to_string() for spec in specs]


def run(*arguments, code=0):
    made = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
    )
    assert made.returncode == code, made.stderr
    return made.stdout if code == 0 else made.stderr


# ---- Answers -------------------------------------------------------------------------------


def test_forward_says_what_inputs_need_and_why():
    made = infer_forward("mm", [X, W])
    assert layouts(made.inputs) == ["S(0) S(1)", "R S(0)"]
    assert layouts(made.outputs) == ["S(0) P(sum)"]
    assert made.outputs[0].shape == (8, 32)
    assert [(c.operand, c.bytes, c.reason) for c in made.changes] == [
        ("input 1", 0, "axis tp splits the sum over k")
    ]
    assert made.bytes == 0


def test_changes_cost_bytes():
    made = infer_forward("softmax", ["f32[8, 16] on x=2: P(sum)"], {"axis": -1})
    assert layouts(made.inputs) == ["R"]
    assert made.bytes == made.changes[0].bytes == 2 * (8 * 16 * 4) / 2
    assert made.changes[0].reason == "axis x: P(sum) does not pass"


@pytest.mark.parametrize("kind", ["sum", "avg", "max", "min", "prod"])
def test_every_partial_kind_passes_where_values_only_move(kind):
    made = infer_forward("transpose", [f"f32[4, 6] on x=2: P({kind})"], {"perm": [1, 0]})
    assert layouts(made.outputs) == [f"P({kind})"]


def test_negative_axes_several_axes_and_uneven_sizes():
    spec = "f32[7, 5, 3] on a=2 b=3: S(0, 1) S(0, 0)"
    made = infer_forward("cummax", [spec], {"axis": -1})
    assert layouts(made.outputs) == ["S(0, 1) S(0, 0)"] * 2
    assert made.bytes == 0
    assert layouts(infer_forward("cummax", [spec], {"axis": -3}).inputs) == ["R R"]


def test_inputs_may_be_given_in_many_ways():
    layout = Layout((2, 2), ("dp", "tp"))
    ways = [
        [X, W],
        [TensorSpec((8, 16), "dp=2 tp=2: S(0) S(1)"), ((16, 32), "R R")],
        [((8, 16), layout("dp", "tp")), ((16, 32), layout("None", "None"))],
        [((8, 16), layout(Shard(0), Shard(-1))), ((16, 32), None)],
        {"self": X, "mat2": W},
    ]
    for inputs in ways:
        assert layouts(infer_forward("mm", inputs).outputs) == ["S(0) P(sum)"]


def test_lists_and_absent_tensors():
    made = infer_forward("concat", [["f32[4, 6] on x=2: S(1)", "f32[2, 6]"]], {"axis": 0})
    assert layouts(made.inputs) == ["S(1)", "S(1)"]
    assert made.outputs[0].shape == (6, 6)
    made = infer_forward("aten::linear", ["f32[8, 16] on x=2: S(0)", "f32[4, 16]", None])
    assert layouts(made.inputs) == ["S(0)", "R", None]


def test_backward_finds_inputs_for_wanted_outputs():
    made = infer_backward("mm", [X, W], ["S(0) S(1)"])
    assert layouts(made.inputs) == ["S(0) R", "R S(1)"]
    assert layouts(made.outputs) == ["S(0) S(1)"]
    # Dims that the result does not hold are left as the inputs have them; relu cannot make a sum.
    assert layouts(infer_backward("mm", [X, W], [None]).inputs) == ["S(0) S(1)", "R S(0)"]
    assert layouts(infer_backward("relu", ["f32[8] on x=2: R"], ["P(sum)"]).outputs) == ["R"]


def test_results_that_exclude_each_other_are_made_whole():
    parts = infer_backward("split", ["f32[12, 24] on x=4: R"], ["R", "S(1)"],
                           {"sections": [12, 12], "axis": 1})  # fmt: skip
    assert layouts(parts.inputs) == ["R"]
    assert layouts(parts.outputs) == ["R", "R"]


def test_forward_and_grad_towards_known_results():
    # A small tensor is gathered before it is spread, if the result must be whole.
    x, like = "f32[12, 1, 24] on x=4: S(0)", "f32[12, 12, 24]"
    made = infer_forward("expand_as", [x, like], {"target_shape": [12, 12, 24]})
    assert layouts(made.outputs) == ["S(0)"]
    made = infer_forward("expand_as", [x, like], {"target_shape": [12, 12, 24]}, outputs=["R"])
    assert layouts(made.outputs) == ["R"]
    assert made.bytes == 12 * 24 * 4 * 3 / 4
    # A split that no input has yet: reduce-scatter instead of all-reduce.
    inputs = [["f32[12, 24] on x=4: P(sum)", "f32[12, 24]"]]
    assert infer_forward("concat", inputs, {"axis": 0}).bytes == 2 * 3 / 4 * 12 * 24 * 4
    made = infer_forward("concat", inputs, {"axis": 0}, outputs=["S(1)"])
    assert layouts(made.inputs) == ["S(1)", "S(1)"]
    assert made.bytes == 3 / 4 * 12 * 24 * 4
    grad = infer_grad("multiply", ["f32[12, 24] on x=4: R"] * 2, ["S(0)"])
    assert layouts(grad.grads) == ["S(0)", "S(0)"]
    grad = infer_grad("multiply", ["f32[12, 24] on x=4: R"] * 2, ["S(0)"], grads=["R", "R"])
    assert layouts(grad.grads) == ["R", "R"]
    assert grad.bytes == 3 / 4 * 12 * 24 * 4


def test_grad_gives_layouts_of_whole_gradients():
    made = infer_grad("mm", [X, W], ["S(0) R"])
    assert layouts(made.grads) == ["S(0) S(1)", "P(sum) S(0)"]
    assert layouts(made.out_grads) == ["S(0) R"]
    # A linear op's gradient does not read the inputs; integers have none.
    made = infer_grad("embedding", ["i64[4, 6] on x=2: S(0)", "f32[10, 8]"], ["S(0)"])
    assert layouts(made.grads) == [None, "P(sum)"]
    assert layouts(infer_grad("sum", ["f32[4, 6] on x=2: S(0)"], ["R"], {"axis": [0]}).inputs) == [
        None
    ]


def test_answers_can_be_read():
    assert repr(infer_forward("relu", ["f32[8] on x=2: S(0)"])) == (
        "aten::relu on x=2: a rank moves 0 bytes\n  input 0  f32[8] S(0)\n  output 0  f32[8] S(0)"
    )
    assert repr(strategies("mm", ["f32[8, 16]", "f32[16, 32]"])).splitlines()[:3] == [
        "aten::mm    *m k, *k n -> m n",
        "R R -> R                                      grad R R",
        "S(0) R -> S(0)    m                           grad S(0) P(sum)",
    ]


def test_local_arguments_are_named():
    made = infer_forward(
        "depthwise_conv2d",
        [((4, 12, 8, 8), "x=2: S(1)"), ((12, 1, 3, 3), None)],
        {"groups": 12, "strides": [1, 1], "data_format": "NCHW"},
    )
    assert made.rewrites == ("groups",)


# ---- Paddle's words ------------------------------------------------------------------------

SAMPLES = {
    "batch_norm": (["f32[8, 4, 6] on x=2: S(0)", *["f32[4]"] * 4], {}, "S(0)", "batch_norm"),
    "conv2d_transpose": (["f32[4, 6, 5, 5] on x=2: S(0)", "f32[6, 2, 3, 3]"], {}, "S(0)", ""),
    "conv3d": (
        ["f32[4, 5, 5, 5, 6] on x=2: S(4)", "f32[2, 6, 3, 3, 3]"],
        {"data_format": "NDHWC", "paddings": [1, 1, 1, 1, 1, 1]},
        "P(sum)",
        "",
    ),
    "cummax": (["f32[8, 6] on x=2: S(1)"], {"axis": -2}, "S(1)", ""),
    "cummin": (["f32[8, 6] on x=2: S(0)"], {"axis": 0}, "R", ""),
    "depthwise_conv2d": (
        ["f32[4, 6, 5, 5] on x=2: S(1)", "f32[6, 1, 3, 3]"],
        {"groups": 6},
        "S(1)",
        "",
    ),
    "expand_as": (["f32[1, 6] on x=2: S(1)", "f32[4, 6]"], {}, "S(1)", ""),
    "group_norm": (["f32[8, 4, 6] on x=2: S(0)", "f32[4]"], {"groups": 2}, "S(0)", ""),
    "index_put": (
        ["f32[8, 6] on x=2: S(1)", ["i64[3]"], "f32[3, 6]"],
        {"accumulate": True},
        "S(1)",
        "",
    ),
    "index_select": (["f32[8, 6] on x=2: S(1)", "i64[3]"], {"axis": 0}, "S(1)", ""),
    "instance_norm": (["f32[8, 4, 6] on x=2: S(1)", "f32[4]", "f32[4]"], {}, "S(1)", ""),
    "label_smooth": (["f32[8, 6] on x=2: S(1)"], {}, "S(1)", "label_smooth"),
    "log_softmax": (["f32[64, 512] on x=2: S(1)"], {"axis": 1}, "S(1)", "log_softmax"),
    "mean_all": (["f32[7, 6] on x=2: S(0)"], {}, "P(sum)", "mean"),
    "roi_align": (
        ["f32[2, 4, 8, 8] on x=2: S(1)", "f32[6, 4]", "i64[2]"],
        {"pooled_height": 3, "pooled_width": 3},
        "S(1)",
        "",
    ),
    "roll": (["f32[8, 6] on x=2: S(1)"], {"shifts": [1], "axis": [0]}, "S(1)", ""),
    "sync_batch_norm": (["f32[8, 4] on x=2: S(0)", *["f32[4]"] * 4], {}, "S(0)", "batch_norm"),
    "topk": (["f32[8, 600] on x=2: S(1)"], {"k": 2, "axis": -1}, "R", "topk"),
    "unique": (["i64[8] on x=2: S(0)"], {}, "R", ""),
}


@pytest.mark.parametrize("op", SAMPLES)
def test_paddles_names_with_paddles_arguments(op):
    """The ops of Paddle's call for rules, one example each."""
    inputs, attrs, first, handler = SAMPLES[op]
    made = infer_forward(op, inputs, attrs)
    assert made.outputs[0].layout.to_string() == first
    assert made.handler == handler
    assert repr(infer_forward(f"paddle::{op}", inputs, attrs)) == repr(made)


@pytest.mark.parametrize("op", SAMPLES)
def test_paddles_names_backward_and_for_gradients(op):
    inputs, attrs, first, _ = SAMPLES[op]
    made = infer_forward(op, inputs, attrs)
    outputs = [None if o is None else o.layout for o in made.outputs]
    back = infer_backward(op, inputs, outputs, attrs)
    assert layouts(back.outputs) == layouts(made.outputs)
    if first != "R":  # of whole results the inputs are whole, though the forward may split them
        assert layouts(back.inputs) == layouts(made.inputs)
    if op == "unique":  # of integers
        assert infer_grad(op, inputs, [None], attrs).grads == (None,)
        return
    whole = "R" if first == "P(sum)" else first
    grads = infer_grad(op, inputs, [whole], attrs)
    floats = [spec is not None and spec.dtype == "f32" for spec in made.inputs]
    if op == "expand_as":
        floats[1] = False  # it only lends its shape
    assert [grad is not None for grad in grads.grads] == floats
    # What the forward took split has a split gradient, and what it took whole beside that a sum.
    for need, grad in zip(made.inputs, grads.grads, strict=True):
        if op in ("mean_all", "topk"):  # every rank has all that it needs, whatever it holds of x
            assert grad.layout.to_string() == "R"
        elif grad is not None and need.layout.to_string() != "R":
            assert grad.layout == need.layout
        elif grad is not None:
            assert grad.layout.to_string() in ("R", "P(sum)")


def test_uneven_padding_is_refused_with_a_way_out():
    with pytest.raises(UsageError, match=r"\[HP-S005\] conv2d: padding differs .* dim 0") as error:
        infer_forward("conv2d", ["f32[2, 4, 8, 8] on x=2: R", "f32[4, 4, 3, 3]"],
                      {"paddings": [0, 1, 1, 1]})  # fmt: skip
    assert "pad first" in str(error.value)


# ---- The command line and the documents ----------------------------------------------------


def test_every_row_has_a_sample_call():
    for _, op, rule, _ in _core.rule_rows():
        lines = _core.rules_table(op).splitlines()
        assert lines[0] == f"{op}    {rule}"
        assert lines[2].startswith("call ") and lines[3].startswith("rule "), op


def test_strategies_are_values():
    made = strategies("linear", ["f32[8, 16]", "f32[4, 16]", None])
    line = next(line for line in made if line.factor == "k")
    assert line.text == "S(1) S(1) - -> P(sum)    k"
    assert [str(p) for p in line.inputs] == ["S(1)", "S(1)", "None"]
    assert [str(p) for p in line.outputs] == ["P(sum)"]
    assert line.handler == "" and made[0].factor == ""
    assert made.sized == "*d0 k, *n k, - -> d0 n {d0=8, k=16, n=4}"


def test_the_command_prints_a_table():
    text = run("-m", "hyper_parallel", "rules", "topk")
    assert text.startswith("topk, by aten::topk    ... d~topk/R@dim=-1")
    assert "S(1) -> R R    d ~topk" in text and "grad S(1)" in text
    assert "~topk: local top k" in text
    text = run("-m", "hyper_parallel", "rules", "mm", "f32[4, 6]; f32[6, 2]")
    assert "call f32[4, 6]; f32[6, 2]" in text and "S(1) S(0) -> P(sum)    k" in text
    text = run("-m", "hyper_parallel", "rules", "softmax", "f32[4, 6]", "axis=0")
    assert "S(0) -> S(0)    d ~softmax" in text
    assert "aten::mm" in run("-m", "hyper_parallel", "rules")
    assert "near" in run("-m", "hyper_parallel", "rules", "topkk", code=2)


def test_rules_need_no_torch():
    code = """
import sys
sys.modules["torch"] = None
import hyper_parallel
print(hyper_parallel.infer_forward("relu", ["f32[8] on x=2: S(0)"]).outputs)
print(hyper_parallel.plan)
try:
    hyper_parallel.DTensor
except ImportError:
    print("DTensor needs torch")
"""
    assert "DTensor needs torch" in run("-c", code)


def test_the_page_of_rules_is_up_to_date():
    text = (ROOT / "docs/rules.md").read_text()
    assert text == _core.rules_markdown(), "run: python -m hyper_parallel rules --markdown"
    for _, op, _, _ in _core.rule_rows():
        assert f"| `{op}` |" in text


def test_the_example_of_the_page_prints_what_is_shown():
    blocks = re.findall(
        r"^```(\w+)\n(.*?)^```$", (ROOT / "docs/inference.md").read_text(), re.MULTILINE | re.DOTALL
    )
    pairs = [
        (code, shown)
        for (kind, code), (after, shown) in itertools.pairwise(blocks)
        if (kind, after) == ("python", "text")
    ]
    assert len(pairs) == 1
    for code, shown in pairs:
        assert run("-c", code) == shown


def test_every_op_of_hyper_parallel_has_a_row():
    # 134 names; CellBackwardHook, the 135th, is a hook and no op.
    table = Path(__file__).parents[1] / "conformance" / "hyper_parallel_ops.tsv"
    lines = [line.split("\t") for line in table.read_text().splitlines() if line[0] != "#"]
    assert len(lines) == 134
    ours = {op for _, op, _, _ in _core.rule_rows()}
    for name, _, rows in lines:
        for row in rows.split():
            # In place: the row of the op that returns the result.
            assert row in ours or row.replace("_.", ".") in ours, f"{name}: {row}"
