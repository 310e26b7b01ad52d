"""Every row of the rules: each strategy run on real tensors, missing ones explained; and proof that
a wrong rule is found."""

import csv
import re
from pathlib import Path

import pytest

from hyper_parallel.verifier import case, distinct, ints, load_table, t, verify

ALLOWED = Path(__file__).parents[1] / "verify" / "missing_allowed.tsv"


def allowed():
    """Read rows of (op, line, reason); op and line are patterns for the whole text."""
    with ALLOWED.open(newline="") as file:
        rows = [row for row in csv.reader(file, delimiter="\t") if row and row[0][0] != "#"]
    assert all(len(row) == 3 and row[2] for row in rows), "op, line and reason"
    return [(re.compile(op), re.compile(line)) for op, line, _ in rows]


@pytest.fixture(scope="module")
def report():
    return verify()


def test_no_strategy_of_any_rule_is_wrong(report):
    print(report.summary())
    assert [str(f) for f in report.wrong] == []


def test_every_rule_has_a_case(report):
    assert report.without_cases == []


def test_missing_strategies_are_explained(report):
    rules = allowed()
    used = set()
    unexplained = []
    for f in report.missing:
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


# A rule is worth as much as the test that finds it broken.
WRONG = {
    "an addend that every rank adds": (
        "aten::addmm",
        "^m n, *m k, *k n -> m n",
        case(t(5, 6), t(5, 3), t(3, 6)),
    ),
    "softmax of each piece": ("aten::softmax.int", "... d -> =", case(t(5, 4), 1)),
    "a reduced dim that gives R": ("aten::sum.dim_IntList", "a b -> _ b", case(t(5, 4), [0], True)),
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
