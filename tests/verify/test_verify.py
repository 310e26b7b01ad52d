"""Every row of the rules: each strategy run on real tensors, missing ones explained; and proof that
a wrong rule is found."""

import csv
import multiprocessing
import os
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import torch
from mutate import explained, mutate

from hyper_parallel import _torch
from hyper_parallel.verifier.case import case, distinct, ints, load_table, made, positive, t
from hyper_parallel.verifier.cases.recurrent import LSTM
from hyper_parallel.verifier.session import verify

ALLOWED = Path(__file__).with_name("missing_allowed.tsv")
PARTS = 24


def allowed():
    """Read rows of (op, line, reason); op and line are patterns for the whole text."""
    with ALLOWED.open(newline="") as file:
        rows = [row for row in csv.reader(file, delimiter="\t") if row and row[0][0] != "#"]
    assert all(len(row) == 3 and row[2] for row in rows), "op, line and reason"
    return [(re.compile(op), re.compile(line)) for op, line, _ in rows]


@pytest.fixture(scope="module")
def reports():
    """Verify every row, a part at a time, on all cores: a promise of a report for each part."""
    ops = [op for op, _ in _torch.rule_rows()]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=spawn) as pool:
        yield [pool.submit(verify, ops[part::PARTS]) for part in range(PARTS)]


@pytest.mark.parametrize("part", range(PARTS))
def test_no_strategy_of_any_rule_is_wrong(reports, part):
    report = reports[part].result()
    print(report.summary())
    assert [str(f) for f in report.wrong] == []
    assert report.without_cases == []


def test_missing_strategies_are_explained(reports):
    rules = allowed()
    used = set()
    unexplained = []
    for f in (f for report in reports for f in report.result().missing):
        fits = [
            n
            for n, (op, line) in enumerate(rules)
            if op.fullmatch(f.op.removeprefix("aten::")) and line.fullmatch(f.line)
        ]
        used.update(fits)
        if not fits:
            unexplained.append(str(f))
    assert unexplained == []
    stale = [rules[n] for n in range(len(rules)) if n not in used]
    assert stale == [], "no strategy is missing any more: remove these"


# Ops that read or write out of bounds if pieces do not fit: their strategies are run, no others.
INDICES = made(
    lambda g: torch.tensor([[0, 3], [13, 16]]).expand(3, 5, 2, 2).clone(), "indices[3, 5, 2, 2]"
)
STATISTICS = (t(4), positive(4))
LENGTHS = made(lambda g: torch.tensor([2, 0, 3]), "lengths[3]")
OFFSETS = made(lambda g: torch.tensor([0, 2, 5]), "offsets[3]")
BY_ROW = made(lambda g: torch.tensor([[1, 4], [3, 2], [0, 5], [5, 0]]), "lengths[4, 2]")
UNCHECKED = {
    "lstm.input": LSTM,
    "native_group_norm": [
        case(t(5, 6, 3), t(6), t(6), 5, 6, 3, 3, 1e-5),
        case(t(4, 4, 5, 2), t(4), None, 4, 4, 10, 2, 1e-5),
        case(t(3, 4), None, None, 3, 4, 1, 2, 1e-5),
    ],
    "native_batch_norm": [
        case(t(5, 4), t(4), t(4), *STATISTICS, True, 0.1, 1e-5),
        case(t(6, 4, 3), t(4), None, *STATISTICS, False, 0.1, 1e-5),
        case(t(5, 3, 2, 2), None, None, None, None, True, 0.1, 1e-5),
    ],
    "_native_batch_norm_legit": [
        case(t(5, 4), t(4), t(4), *STATISTICS, True, 0.1, 1e-5),
        case(t(6, 4, 3), t(4), None, *STATISTICS, False, 0.1, 1e-5),
    ],
    "_batch_norm_with_update": [
        case(t(5, 4), t(4), t(4), *STATISTICS, 0.1, 1e-5),
        case(t(6, 4, 3), None, t(4), *STATISTICS, 0.3, 1e-5),
    ],
    "max_pool2d_with_indices_backward": [
        case(t(3, 5, 2, 2), t(3, 5, 4, 6), [2, 3], [2, 3], [0, 0], [1, 1], False, INDICES),
    ],
    "segment_reduce": [
        one
        for reduce in ("sum", "mean", "max", "min")
        for one in (
            case(t(5, 3), reduce, lengths=LENGTHS, initial=0),
            case(t(5, 4, 6), reduce, offsets=OFFSETS, initial=1.5),
            case(t(4, 5), reduce, lengths=BY_ROW, axis=1, initial=1.5),
        )
    ],
}


@pytest.mark.parametrize("op", UNCHECKED)
def test_strategies_of_ops_that_torch_does_not_check(op):
    report = verify(f"aten::{op}", cases=UNCHECKED[op], missing=False)
    assert [str(f) for f in report.wrong] == []
    assert len(report.ops[f"aten::{op}"].strategies) > 1


# A rule is worth as much as the test that finds it broken.
WRONG = {
    "an addend that every rank adds": (
        "aten::addmm",
        "^m n, *m k, *k n -> m n",
        case(t(5, 6), t(5, 3), t(3, 6)),
    ),
    "softmax of each piece": ("aten::softmax.int", "... d -> =", case(t(5, 4), 1)),
    "a sum that is called a maximum": ("aten::amax", "a b -> b", case(distinct(5, 4), [0])),
    "P through a nonlinear op": ("aten::tanh", "*a b -> a b", case(t(5, 4))),
    "P times P": ("aten::mul.Tensor", "pointwise additive", case(t(5, 4), t(5, 4))),
    "P plus R": ("aten::add.Tensor", "pointwise multilinear", case(t(5, 4), t(5, 4))),
    "P in a divisor": ("aten::div.Tensor", "pointwise multilinear", case(t(5, 4), t(5, 4))),
    "a transpose that forgets": ("aten::t", "a b -> a b", case(t(4, 4))),
    "a mean over what a rank has": ("aten::mean.dim", "*a b -> b", case(t(5, 4), [0])),
    "rows of other ranks": ("aten::embedding", "*v d, ... -> ... d", case(t(7, 4), ints(0, 7, 5))),
    "a scan that starts anew": ("aten::cumsum", "*d a -> =", case(t(5, 4), 0)),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_rule_is_found(what):
    op, rule, one = WRONG[what]
    report = verify(op, rule=rule, cases=[one], dispatch=False, missing=False)
    assert report.wrong, report.ops[op].strategies


@pytest.mark.parametrize("op", ["mm", "sum.dim_IntList", "softmax.int", "cumsum", "dropout"])
def test_every_changed_letter_or_mark_is_found(op):
    known = [what for o, what in explained() if o.fullmatch(op)]
    mutations, survivors = mutate(f"aten::{op}")
    assert len(mutations) > 5
    assert [s for s in survivors if not any(what.fullmatch(s) for what in known)] == []


def test_a_wrong_gradient_is_found_where_the_values_are_right():
    # P(max) carries the values of a maximum, but which rank the gradient goes to is lost: such a
    # rule must not claim P(sum), and R -> R with a handler must add up. Here: a P(sum) operand that
    # is called R keeps R -> R values right on one rank only.
    report = verify(
        "aten::mul.Tensor", rule="a b, b -> a b", cases=[case(t(5, 4), t(4))], dispatch=False
    )
    assert not report.wrong
    assert report.missing  # P(sum) R -> P(sum) holds and is not in this rule


def test_a_strategy_that_is_left_out_is_reported():
    report = verify("aten::mm", rule="*m k!, *k! n -> m n", cases=[case(t(4, 6), t(6, 4))])
    assert report.wrong == []
    assert [f.line for f in report.missing] == ["S(1) S(0) -> P(sum)"]


def test_the_table_names_reasons_for_rules_without_cases():
    assert all(load_table().without.values())
