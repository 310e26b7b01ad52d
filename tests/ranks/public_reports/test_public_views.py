"""Reports on uneven sizes and views."""

import pickle

import pytest
import torch
from public_support import (
    F,
    Replicate,
    Shard,
    hp,
    mesh_of,
    patterns,
    same,
    split,
    tensor,
)

from hyper_parallel import run_local

CALLS, report = patterns()


@report(1, 2)
def uneven_views():
    for shape, targets in {
        (6, 8): [(-1,), (48,), (2, 3, 8), (6, 2, 4), (3, 16), (8, 6)],
        (5, 4): [(20,), (5, 2, 2), (1, 5, 4), (10, 2)],
        (3, 7): [(21,), (7, 3)],
    }.items():
        x = tensor(*shape)
        for dim in (0, 1):
            for target in targets:
                same(split(x, Shard(dim)).reshape(target), x.reshape(target))
                same(split(x, Shard(dim)).view(target), x.view(target))


@report(2)
def a_view_that_cannot_be_names_the_sizes():
    with pytest.raises(hp.UsageError, match=r"HP-S008.*number of elements"):
        split(tensor(5, 4), Shard(0)).view(7, 3)


@report(3)
def linear_takes_any_leading_dim_without_traffic():
    x, w = tensor(2, 8, 6), tensor(5, 6)
    a, b = split(x, Shard(1)), split(w, Replicate())
    with hp.comm_report() as traffic:
        y = F.linear(a, b)
    assert traffic.rows == []
    assert y.placements == (Shard(1),)
    same(y, F.linear(x, w))


@report(4)
def a_write_through_a_view_reaches_the_base():
    w = split(tensor(8, 6), Shard(0))
    w.view(48).mul_(2)
    w.view(8, 2, 3).add_(1)
    same(w, tensor(8, 6) * 2 + 1)
    w.t().mul_(3)
    same(w, (tensor(8, 6) * 2 + 1) * 3)


@report(4, 5)
def a_write_through_a_copy_is_refused():
    w = split(tensor(8, 8), Shard(0))
    with pytest.raises(hp.UsageError, match="HP-D011"):
        torch.nn.init.zeros_(w[:2])
    with pytest.raises(hp.UsageError, match="HP-D011"):
        w[3].mul_(2)
    same(w, tensor(8, 8))
    w[:2] = 0
    want = tensor(8, 8)
    want[:2] = 0
    same(w, want)


@report(6, 7, 11)
def uneven_round_trips():
    for shape in [(5, 10), (6, 3), (3, 1), (1, 7), (151, 2)]:
        x = tensor(*shape)
        whole = split(x, Replicate())
        for dim in (0, 1):
            there = whole.redistribute(placements=[Shard(dim)])
            same(there, x)
            same(there.redistribute(placements=[Replicate()]), x)
        for placements in ([Shard(0), Shard(0)], [Shard(0), Shard(1)], [Shard(1), Shard(1)]):
            same(split(x, *placements, sizes=(2, 2)), x)


@report(8)
def local_sizes_that_do_not_follow_the_rule_are_refused():
    part = torch.ones(2, 2 + hp.rank())
    if hp.rank() == 2:
        return  # its 4 columns are what the rule says
    with pytest.raises(hp.UsageError, match="HP-D022"):
        hp.DTensor.from_local(part, mesh_of(), [Shard(1)], shape=(2, 14))


@report(10)
def parts_that_are_empty_are_saved_and_read():
    x = tensor(6, 2)
    again = pickle.loads(pickle.dumps(split(x, Shard(0))))
    assert again.shape == (6, 2)
    same(again, x)


@report(61)
def dims_change_places_by_exchanges():
    x = tensor(8, 8)
    for before, after in [
        ([Shard(0), Shard(1)], [Shard(1), Shard(0)]),
        ([Shard(0), Shard(0)], [Shard(0), Shard(1)]),
    ]:
        a = split(x, *before, sizes=(2, 2))
        with hp.comm_report() as traffic:
            b = a.redistribute(placements=after)
        same(b, x)
        assert sum(row.bytes for row in traffic.rows) <= 8 * 8 * 8 / 2


@pytest.mark.parametrize("name", CALLS)
def test_pattern(name):
    run_local(CALLS[name], 4, timeout=30)
