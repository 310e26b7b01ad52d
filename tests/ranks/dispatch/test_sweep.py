"""All ops of torch's operator database, few cases each. ``make sweep`` runs them all."""

import csv
import dataclasses
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "sweep"
sys.path.insert(0, str(FOLDER))

from sweep import FIXED, POLICIES, statuses, summary, sweep  # noqa: E402

MESH = FIXED.meshes[0]


@pytest.fixture(scope="module")
def found():
    return sweep(dataclasses.replace(FIXED, shards=2))


def test_no_value_is_wrong(found):
    for policy in POLICIES:
        print(summary(found, MESH, policy))
    bad = [
        c
        for cases in found.values()
        for c in cases
        if c.verdict.startswith("wrong") or c.verdict in ("hang", "crash")
    ]
    assert bad == []


def test_every_op_was_run(found):
    assert len(found) == len(stored("auto"))


@pytest.mark.parametrize("policy", POLICIES)
def test_ops_are_as_full_as_before(found, policy):
    """After a change for the better: ``make sweep`` writes fixed.tsv anew."""
    assert statuses(found, MESH, policy) == stored(policy)


def stored(policy):
    with (FOLDER / "fixed.tsv").open(newline="") as file:
        table = csv.DictReader(file, delimiter="\t")
        return {row["op"]: row[f"{MESH} {policy}"] for row in table}
