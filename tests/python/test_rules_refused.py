"""Bad input to questions about rules: what the error says."""

import itertools

import pytest

from hyper_parallel import (
    Layout,
    UnsupportedError,
    UsageError,
    _core,
    infer_backward,
    infer_forward,
    infer_grad,
)

MM = ["f32[8, 16] on x=2: S(0)", "f32[16, 32]"]
BAD = {
    "unknown op": ("topkk", MM, {}, '[HP-S040] no rule for an op named "topkk"', "near  topk"),
    "unknown aten op": (
        "aten::mmm", MM, {}, '[HP-S040] no rule for an op named "aten::mmm"', "aten::mm",
    ),
    "too few": ("mm", MM[:1], {}, "[HP-S001] aten::mm: wrong number of operands", "needed  2"),
    "too many": ("topk", MM, {"k": 1}, "[HP-S001] aten::topk: wrong number of op", "given   2"),
    "rank": (
        "mm", ["f32[8] on x=2: R", "f32[8, 4]"], {},
        '[HP-S003] aten::mm: operand "input 0" has 1 dims, not 2', "[8]",
    ),
    "shape": (
        "mm", {"self": MM[0], "mat2": "f32[15, 32]"}, {},
        '[HP-S002] aten::mm: operand "mat2": dim 0 has size 15, "k" elsewhere has 16', "[15, 32]",
    ),
    "axis": (
        "topk", [MM[0]], {"k": 1, "axis": 2},
        "[HP-S004] aten::topk: dim 2 is out of range for a tensor of 2 dims", "",
    ),
    "attribute": (
        "topk",
        [MM[0]],
        {"k": 17},
        '[HP-S005] aten::topk: argument "k" is 17, out of range',
        '0 to 16, the size of "d"',
    ),
    "axis twice": (
        "sum", [MM[0]], {"axis": [0, -2]}, "[HP-S004] aten::sum.dim_IntList: a dim is listed", "",
    ),
    "kind of attribute": (
        "topk", [MM[0]], {"k": "two"}, '[HP-S005] aten::topk: argument "k" is not an integer', "",
    ),
    "no attribute": ("topk", [MM[0]], {"k": {}}, '[HP-S042] attribute "k" has a value of no', "{}"),
    "split dim": (
        "relu", ["f32[8] on x=2: S(1)"], {},
        '[HP-S021] relu: operand "input 0" is split on dim 1 but has 1 dims', "S(1)",
    ),
    "another mesh": (
        "mm", [MM[0], "f32[16, 32] on y=2: R"], {},
        '[HP-S020] aten::mm: operand "input 1" lies on another mesh', "y=2",
    ),
    "no layout": ("mm", ["f32[8, 16]", "f32[16, 4]"], {}, "[HP-S041] mm: no operand has a", ""),
    "no tensor": ("relu", ["f32 8"], {}, "[HP-S043] 'f32 8' describes no tensor", "form"),
    "no spec": ("relu", [3], {}, "[HP-S043] input 0: 3 describes no tensor", "TensorSpec"),
    "a matrix of three dims": (
        "block_diag", [["f32[8, 4] on x=2: R", "f32[2, 3, 4]"]], {},
        '[HP-S003] aten::block_diag: operand "input 0[1]" has 3 dims, not 2', "[2, 3, 4]",
    ),
    "no chunks": (
        "_chunk_cat", [["f32[8, 4] on x=2: R"]], {"dim": 0, "num_chunks": 0},
        "[HP-S005] aten::_chunk_cat: num_chunks must be at least 1", "0",
    ),
    "weights of other bags": (
        "embedding_bag", ["f32[100, 16] on x=2: R", "i64[32]", "i64[8]", "f32[31]"], {},
        '[HP-S002] aten::embedding_bag: operand "input 3": dim 0 has size 31, indices has 32', "31",
    ),
    "weights of other elements": (
        "histogram.bin_ct", ["f32[8, 4] on x=2: R", "f32[8, 3]"], {"bins": 4},
        '[HP-S002] aten::histogram.bin_ct: operand "input 1": dim 1 has size 3, self has 4', "3",
    ),
    "edges that are missing": (
        "_histogramdd_from_bin_tensors", ["f32[8, 3] on x=2: R", "f32[5]", "f32[5]"], {},
        "[HP-S001] aten::_histogramdd_from_bin_tensors: wrong number of operands", "4 to 5",
    ),
    "another batch": (
        "native_group_norm", ["f32[8, 4, 6] on x=2: R"], {"N": 7, "C": 4, "HxW": 6, "group": 2},
        '[HP-S002] aten::native_group_norm: operand "input 0": dim 0 has size 8, argument N has 7',
        "[8, 4, 6]",
    ),
    "targets of another batch": (
        "ctc_loss.IntList", ["f32[12, 8, 16] on x=2: R", "i64[7, 4]"], {},
        '[HP-S002] aten::ctc_loss.IntList: operand "input 1": dim 0 has size 7, log_probs has 8',
        "[7, 4]",
    ),
    "windows of another tensor": (
        "unfold_backward", ["f32[4, 16, 2] on x=2: R"], {"input_sizes": [8, 15], "dim": 0},
        '[HP-S002] aten::unfold_backward: operand "input 0": dim 1 has size 16, input_sizes has 15',
        "[4, 16, 2]",
    ),
    "no type": ("relu", ["f31[8] on x=2: R"], {}, "[HP-T002] unknown element type", "f31"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_named(what):
    op, inputs, attrs, first, part = BAD[what]
    with pytest.raises(UsageError) as error:
        infer_forward(op, inputs, attrs)
    text = str(error.value)
    assert text.startswith(first), text
    assert part in text


CANNOT = {
    "a dim that must be whole": (
        "median.dim", ["f32[8, 16] on dp=2 tp=4: S(1) S(0)"], {"dim": 1},
        'aten::median.dim: operand "input 0" cannot be split on dim 1 on axis dp here', "R",
        "R -> R R; S(0) -> S(0) S(0) d0",
    ),
    "a pending sum": (
        "relu", {"self": "f32[8, 16] on dp=2 tp=4: P(sum) S(0)"}, {},
        'aten::relu: operand "self" cannot be partial on axis dp here', "R",
        "R -> R; S(0) -> S(0) d0; S(1) -> S(1) d1",
    ),
    "operands that do not agree": (
        "mm", ["f32[8, 16] on x=2: S(1)", "f32[16, 4] on x=2: S(1)"], {},
        'aten::mm: operand "input 1" cannot be split on dim 1 on axis x here', "S(0)",
        "S(1) S(0) -> P(sum) k; R S(1) -> S(1) n; R R -> R",
    ),
    "a member of a list": (
        "cat", [["f32[8, 16] on x=2: S(1)", "f32[8, 16] on x=2: S(0)"]], {"dim": 0},
        'aten::cat: operand "input 0[1]" cannot be split on dim 0 on axis x here', "S(1)",
        "S(1) S(1) -> S(1) d1; S(0) S(0) -> S(0; segments=8|8) p; R R -> R",
    ),
    "a whole operand beside a split contraction": (
        "mm", ["f32[8, 16] on x=2: S(1)", "f32[16, 4] on x=2: P(sum)"], {},
        'aten::mm: operand "input 1" cannot be partial on axis x here', "S(0)",
        "S(1) S(0) -> P(sum) k; R P(sum) -> P(sum); R R -> R",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CANNOT)
def test_strict_names_operand_dim_and_the_nearest_strategies(what):
    op, inputs, attrs, first, needs, near = CANNOT[what]
    assert infer_forward(op, inputs, attrs).changes
    with pytest.raises(ValueError, match="HP-S037") as error:
        infer_forward(op, inputs, attrs, strict=True)
    lines = str(error.value).splitlines()
    assert lines[0] == f"[HP-S037] {first}"
    facts = dict(line.split(maxsplit=1) for line in lines[1:])
    assert facts["needs"] == needs
    assert facts["near"] == near
    assert "redistribute" in facts["try"]


BOUNDARIES = [
    ("reshape", ["f32[4, 12] on mp=2: S(1)"], {"shape": [12, 4]}),
    ("reshape", ["f32[16] on a=2 b=2: S(0, 1) S(0, 0)"], {"shape": [4, 4]}),
    ("mm", ["f32[8, 16] on a=2 b=2: S(1, 1) S(1, 0)", "f32[16, 4] on a=2 b=2: S(0) S(0)"], {}),
    ("cat", [["f32[8] on x=2: S(0; block=3)", "f32[8] on x=2: S(0)"]], {"dim": 0}),
]


@pytest.mark.parametrize(("op", "inputs", "attrs"), BOUNDARIES)
def test_strict_refuses_other_boundaries_with_the_same_code(op, inputs, attrs):
    made = infer_forward(op, inputs, attrs)
    if not made.changes:
        assert infer_forward(op, inputs, attrs, strict=True) == made
        return
    with pytest.raises(UsageError, match=r"\[HP-S037\] aten::\w+: operand") as error:
        infer_forward(op, inputs, attrs, strict=True)
    assert "redistribute" in str(error.value)


def test_strict_says_that_only_boundaries_differ():
    op, inputs, attrs = BOUNDARIES[0]
    with pytest.raises(UsageError) as error:
        infer_forward(op, inputs, attrs, strict=True)
    assert str(error.value).splitlines() == [
        '[HP-S037] aten::reshape: operand "input 0" cannot be split at these boundaries or in this '
        "order of axes here",
        "  has    f32[4, 12] S(1)",
        "  needs  S(1; block=4)",
        "  why    other boundaries or order of axes",
        "  try    redistribute the operand, or leave strict out",
    ]


def test_strict_takes_what_fits():
    for inputs in (MM, ["f32[8, 16] on x=2: S(1)", "f32[16, 4] on x=2: S(0)"]):
        assert infer_forward("mm", inputs, strict=True) == infer_forward("mm", inputs)


def test_calls_that_fit_no_builder_are_refused():
    """A function of the program may have other operands than the ops that builders know."""

    specs = sorted({row[2] for row in _core.rule_rows() if "->" not in row[2]})
    ops = {row[2]: row[1] for row in _core.rule_rows()}
    mesh = _core.Mesh.get([2], ["x"], [])
    answered = 0
    for spec, count, ndim, one_list in itertools.product(specs, range(5), (0, 1, 2, 4), (0, 1)):
        operands = [(f"x{i}", [4] * ndim, "f32", None) for i in range(count)]
        lengths = [count] if one_list else [-1] * count
        for attrs in ({}, {"dim": 0, "size": [4], "shape": [4]}, {"dim": 9}):
            try:
                _core.Query_(ops[spec], operands, lengths, attrs, mesh).forward()
            except (UsageError, UnsupportedError):
                continue
            answered += 1
    assert len(specs) > 150 and answered > 500


def test_a_mesh_axis_is_used_once():
    with pytest.raises(UsageError, match="used twice"):
        infer_forward("relu", [((8, 8), Layout((2, 2), ("dp", "tp"))("dp", "dp"))])


def test_results_that_do_not_fit():
    with pytest.raises(UsageError, match=r"\[HP-S033\] aten::mm: wrong number of outputs"):
        infer_backward("mm", MM, ["R", "R"])
    with pytest.raises(UsageError, match=r"\[HP-S021\] aten::mm: result 0 is split on dim 2"):
        infer_backward("mm", MM, ["S(2)"])
    lists = [["f32[8] on x=2: R"]]
    with pytest.raises(UnsupportedError, match=r"\[HP-S035\]"):
        infer_backward("aten::_foreach_abs", lists, ["R"])
    with pytest.raises(UnsupportedError, match=r"\[HP-S035\]"):
        infer_forward("aten::_foreach_abs", lists, outputs=["R"])
    with pytest.raises(UnsupportedError, match=r"\[HP-S034\].*no strategy leads to these"):
        infer_forward("relu", ["f32[8] on x=2: R"], outputs=["P(max)"])
    with pytest.raises(UsageError, match=r"\[HP-S033\] aten::mm: wrong number of grads"):
        infer_grad("mm", MM, ["R"], grads=["R", "R", "R"])
    with pytest.raises(UnsupportedError, match=r"\[HP-S036\]"):
        infer_grad("aten::_foreach_abs", lists, ["R"])
