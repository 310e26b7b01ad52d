"""What users of other libraries ran into, as patterns: the right value, or a clear error.

The numbers in the names are rows of the list of public reports.
"""

import pickle

import pytest
import torch
from handlers_support import tensor

import hyper_parallel as hp
from hyper_parallel import Partial, Replicate, Shard, distribute_tensor, init_device_mesh, run_local

F = torch.nn.functional
f64 = torch.float64
CALLS = {}


def mesh_of(sizes=(4,)):
    return init_device_mesh("cpu", sizes, mesh_dim_names=("dp", "tp", "ep")[: len(sizes)])


def report(*rows):
    """Name a pattern that runs on 4 ranks by the rows that it covers."""

    def keep(fn):
        CALLS[f"rows {' '.join(map(str, rows))}: {fn.__name__}"] = fn
        return fn

    return keep


def split(value, *placements, sizes=(4,)):
    return distribute_tensor(value, mesh_of(sizes), list(placements))


def partial(value, op="sum"):
    """Make a P tensor with this value: parts with changing signs, the rest on the last rank."""
    g = torch.Generator().manual_seed(9)
    parts = [torch.randn(value.shape, generator=g, dtype=value.dtype) for _ in range(3)]
    parts.append(value - sum(parts))
    return hp.DTensor.from_local(parts[hp.rank()], mesh_of(), [Partial(op)])


def same(got, want, tolerance=1e-12):
    got = got.full_tensor() if isinstance(got, hp.DTensor) else got
    torch.testing.assert_close(got.detach(), want.detach(), rtol=tolerance, atol=tolerance)


# ---- Uneven sizes and views ------------------------------------------------------------------


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


# ---- Pending sums ------------------------------------------------------------------------------


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


# ---- Keys of plans -----------------------------------------------------------------------------


@report(15, 23)
def arguments_that_are_no_tensors_matter():
    x = tensor(6, 4)
    a = split(x, Shard(0))
    for i in range(4):
        same(a * i, x * i)
        same(a.roll(i, 0), x.roll(i, 0))
        same(a.narrow(0, i, 2), x.narrow(0, i, 2))
        same(a.select(0, i), x.select(0, i))
        same(a.tril(i), x.tril(i))
        same(a.clamp(max=i / 10), x.clamp(max=i / 10))
        same(F.pad(a, (i, 0)), F.pad(x, (i, 0)))
        same(F.leaky_relu(a, i / 7), F.leaky_relu(x, i / 7))
        same(torch.hstack([a] * (i + 1)), torch.hstack([x] * (i + 1)))
        same(F.softmax(a, i % 2), F.softmax(x, i % 2))


@report(24)
def attention_first_without_then_with_gradients():
    q, k, v = (tensor(2, 4, 6, 8, seed=i) for i in range(3))
    want = F.scaled_dot_product_attention(q, k, v)
    leaf = q.clone().requires_grad_()
    F.scaled_dot_product_attention(leaf, k, v).sum().backward()
    a, b, c = (split(t, Shard(1)) for t in (q, k, v))
    same(F.scaled_dot_product_attention(a, b, c), want)
    a.requires_grad_()
    F.scaled_dot_product_attention(a, b, c).sum().backward()
    same(a.grad, leaf.grad)


@report(59)
def list_ops_hit_the_cache():
    xs = [split(tensor(4, 3, seed=i), Shard(0)) for i in range(3)]
    torch.stack(xs)
    torch.cat(xs)
    torch._foreach_mul(xs, 2.0)
    before = hp.cache_info()["misses"] if hasattr(hp, "cache_info") else None
    torch.stack(xs)
    torch.cat(xs)
    torch._foreach_mul(xs, 2.0)
    if before is not None:
        assert hp.cache_info()["misses"] == before


# ---- Factories and optimizers -----------------------------------------------------------------


@report(36)
def eye():
    for cut in (Shard(0), Shard(1), Replicate()):
        w = split(torch.zeros(5, 6), cut)
        same(torch.nn.init.eye_(w), torch.eye(5, 6))


@report(54)
def foreach_with_a_number_in_a_tensor():
    xs = [tensor(4, 3), tensor(5)]
    got = torch._foreach_mul([split(x, Shard(0)) for x in xs], torch.tensor(2.0, dtype=f64))
    for g, x in zip(got, xs, strict=True):
        same(g, x * 2)


@report(55, 56, 57)
def optimizers_of_all_kinds():
    for options in ({"fused": True}, {"foreach": True}, {"foreach": False}):
        for kind in (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD):
            plain = torch.nn.Parameter(tensor(5, 4))
            ours = [torch.nn.Parameter(split(tensor(5, 4), c)) for c in (Shard(0), Replicate())]
            extra = {"momentum": 0.9} if kind is torch.optim.SGD else {}
            optimizers = [kind([p], lr=0.1, **options, **extra) for p in (plain, *ours)]
            for _ in range(3):
                for p, optimizer in zip((plain, *ours), optimizers, strict=True):
                    optimizer.zero_grad()
                    (p * p).sum().backward()
                    optimizer.step()
            for p, optimizer in zip(ours, optimizers[1:], strict=True):
                same(p, plain, 1e-9)
                for state in optimizer.state[p].values():
                    if isinstance(state, hp.DTensor):
                        assert state.placements == p.placements


# ---- What no rule was there for -----------------------------------------------------------------


@report(66)
def products_under_inference_mode():
    x, w = tensor(5, 4), tensor(4, 3)
    with torch.inference_mode():
        a, b = split(x, Shard(0)), split(w, Replicate())
        same(a @ b, x @ w)
        same(torch.einsum("ij,jk->ik", a, b), x @ w)


@report(49)
def an_output_that_nobody_uses():
    x = tensor(4, 6)
    leaf = x.clone().requires_grad_()
    leaf.sort(1)[0].square().sum().backward()
    for cut in (Shard(0), Shard(1)):
        a = split(x, cut).requires_grad_()
        a.sort(1)[0].square().sum().backward()
        same(a.grad, leaf.grad)
        b = split(x, cut).requires_grad_()
        b.chunk(2, 0)[1].square().sum().backward()
        assert b.grad.shape == b.shape


@report(50)
def gradients_lie_in_memory_as_their_leaf():
    for cut in (Shard(0), Shard(1), Replicate()):
        w = torch.nn.Parameter(split(tensor(6, 4), cut))
        (split(tensor(5, 4, seed=2), Replicate()) @ w.t()).square().sum().backward()
        assert w.grad.to_local().stride() == w.to_local().stride()
        assert w.grad.placements == w.placements


@report(63, 64)
def select_and_the_gradient_of_a_norm():
    x = tensor(5, 4)
    leaf = x.clone().requires_grad_()
    torch.norm(leaf).backward()
    a = split(x, Shard(0)).requires_grad_()
    torch.norm(a).backward()
    same(a.grad, leaf.grad)
    same(split(x, Shard(0))[0], x[0])


@report(69)
def a_checkpoint_with_plain_and_split_weights():
    from torch.utils.checkpoint import checkpoint

    x, w, b = tensor(5, 4), tensor(4, 4, seed=1), tensor(4, seed=2)

    def grads(w, b):
        w, b = w.requires_grad_(), b.requires_grad_()
        checkpoint(lambda y: F.layer_norm(y @ w, (4,), b), x, use_reentrant=False).sum().backward()
        return w.grad, b.grad

    want = grads(w.clone(), b.clone())
    got = grads(split(w, Shard(1)), b.clone())
    for g, w in zip(got, want, strict=True):
        same(g, w)


@report(70)
def plain_beside_split():
    x, y = tensor(3, 4), tensor(2, 4)
    same(torch.cat([split(x, Shard(1)), y]), torch.cat([x, y]))
    same(torch.where(x > 0, split(x, Shard(0)), torch.zeros(3, 4, dtype=f64)), x.clamp(min=0))


@report(71)
def errors_name_op_shapes_and_layouts():
    with pytest.raises(hp.UsageError) as caught:
        split(tensor(5, 4), Shard(0)) @ split(tensor(3, 2), Replicate())
    text = str(caught.value)
    assert "matmul" in text and "[3, 2]" in text
    with hp.policy("strict"), pytest.raises(hp.UnsupportedError) as caught:
        torch.block_diag(split(tensor(5, 4), Shard(0)))
    assert "aten::block_diag" in str(caught.value)
    assert "f64[5, 4] on dp=4: S(0)" in str(caught.value)


@pytest.mark.parametrize("name", CALLS)
def test_pattern(name):
    run_local(CALLS[name], 4, timeout=30)
