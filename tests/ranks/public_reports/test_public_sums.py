"""Reports on pending sums, and on what is counted twice."""

import pytest
import torch
from public_support import (
    F,
    Partial,
    Replicate,
    Shard,
    hp,
    mesh_of,
    partial,
    patterns,
    same,
    split,
    tensor,
)

from hyper_parallel import init_device_mesh, run_local

CALLS, report = patterns()


@report(13, 14, 15)
def a_number_counts_once():
    x = tensor(10, 1)
    for i in (1, 2, 3):
        s = split(x, Shard(0)).sum()
        same(s + 10 * i, x.sum() + 10 * i)
        same(10 * i - s, 10 * i - x.sum())
        same(s * i, x.sum() * i)
        same(split(x, Shard(0)).mean() * i, x.mean() * i)
        same(s / i, x.sum() / i)
        same((s + 1e-6) * 2, (x.sum() + 1e-6) * 2)
        same(torch.add(s, 1, alpha=i), torch.add(x.sum(), 1, alpha=i))
        same(s.clone().add_(i), x.sum() + i)


@report(16, 17, 65)
def what_is_not_linear_reduces_first():
    x = tensor(5, 4)
    p = partial(x)
    ops = [torch.max, torch.min, torch.norm, torch.amax, torch.argmax, torch.var, torch.relu]
    ops += [torch.exp, torch.abs, torch.sort, torch.cumprod, torch.any, torch.prod, torch.square]
    ops += [lambda t: t.max(1), lambda t: t.abs().amax(0), lambda t: t > 0, lambda t: t * t]
    ops += [lambda t: t / (t * t + 1), torch.nonzero, torch.median, lambda t: t.topk(2, 1)]
    for op in ops:
        args = (1,) if op is torch.cumprod else ()
        got, want = op(p, *args), op(x, *args)
        for g, w in zip(*[r if isinstance(r, tuple) else (r,) for r in (got, want)], strict=True):
            same(g, w)
    norms = torch._foreach_norm([p, partial(x * 2)])
    same(norms[0], x.norm())
    same(norms[1], (x * 2).norm())


@report(18)
def a_cast_keeps_the_sum_pending():
    part = (tensor(8, 4) * (hp.rank() + 1)).bfloat16()
    p = hp.DTensor.from_local(part, mesh_of(), [Partial()])
    with hp.comm_report() as traffic:
        y = p.float().redistribute(placements=[Shard(0)])
    assert len(traffic.rows) == 1
    want = sum((tensor(8, 4) * (r + 1)).bfloat16().float() for r in range(4))
    same(y, want, 1e-6)


@report(19, 20)
def an_axis_of_one_rank_is_replicated():
    mesh = init_device_mesh("cpu", (1, 4), mesh_dim_names=("one", "tp"))
    x = hp.DTensor.from_local(torch.zeros(3, 4), mesh, [Partial(), Replicate()])
    assert x.placements[0].is_replicate()
    torch.manual_seed(3)
    x.normal_()
    torch.manual_seed(3)
    same(x, torch.zeros(3, 4).normal_())


@report(21)
def one_kind_of_partial_does_not_become_another():
    with pytest.raises(hp.UnsupportedError):
        partial(tensor(4)).redistribute(placements=[Partial("max")])


@report(43, 44)
def gradients_at_the_border_are_whole():
    w, x = tensor(6, 4), tensor(5, 6, seed=1)
    plain = w.clone().requires_grad_()
    (x @ plain).square().sum().backward()
    for cut in (Replicate(), Shard(0), Shard(1)):
        ours = split(w, cut).requires_grad_()
        for chunk in x.chunk(2):
            (split(chunk, Replicate()) @ ours).full_tensor().square().sum().backward()
        same(ours.grad, plain.grad)
        ours = split(w, cut).requires_grad_()
        local = ours.redistribute(placements=[Replicate()]).to_local()
        (x @ local).square().sum().backward()
        same(ours.grad, plain.grad)


@report(46)
def counts_add_up():
    ids = torch.arange(40) % 7
    counts = split(ids, Shard(0)).float().histc(7, 0, 7)
    same(counts, torch.bincount(ids).float())
    same(F.one_hot(split(ids, Shard(0)), 7).sum(0), torch.bincount(ids))
    same(torch.bincount(split(ids, Shard(0)), minlength=9), torch.bincount(ids, minlength=9))


@report(48, 53)
def norms_of_gradients_count_each_value_once():
    shapes = {"a": (6, 4), "b": (5,), "c": (3, 3)}
    plain = {k: torch.nn.Parameter(tensor(*s)) for k, s in shapes.items()}
    cuts = {"a": Shard(0), "b": Replicate(), "c": Shard(1)}
    ours = {k: torch.nn.Parameter(split(tensor(*s), cuts[k])) for k, s in shapes.items()}
    for params in (plain, ours):
        sum((p * p * p).sum() for p in params.values()).backward()
    want = torch.nn.utils.clip_grad_norm_(plain.values(), 0.5)
    got = torch.nn.utils.clip_grad_norm_(ours.values(), 0.5)
    assert got.item() == pytest.approx(want.item(), rel=1e-12)
    for k in shapes:
        same(ours[k].grad, plain[k].grad)


@report(52)
def parameters_on_two_meshes():
    a = torch.nn.Parameter(split(tensor(4, 4), Shard(0), Replicate(), sizes=(2, 2)))
    b = torch.nn.Parameter(split(tensor(4), Shard(0)))
    (a.square().sum().full_tensor() + b.square().sum().full_tensor()).backward()
    want = torch.cat([2 * tensor(4, 4).flatten(), 2 * tensor(4)]).norm()
    try:
        got = torch.nn.utils.clip_grad_norm_([a, b], 1.0, foreach=False)
    except hp.UsageError as error:
        assert error.code == "HP-D002"
    else:
        assert got.item() == pytest.approx(want.item())


@pytest.mark.parametrize("name", CALLS)
def test_pattern(name):
    run_local(CALLS[name], 4, timeout=30)
