"""Reports on single ops: cached plans, factories, optimizers, ops that had no rule."""

import pytest
import torch
from public_support import (
    F,
    Replicate,
    Shard,
    f64,
    hp,
    patterns,
    same,
    split,
    tensor,
)

from hyper_parallel import run_local

CALLS, report = patterns()


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
        torch.linalg.eigvals(split(tensor(4, 4), Shard(0)))
    assert "linalg_eigvals" in str(caught.value)
    assert "f64[4, 4] on dp=4: S(0)" in str(caught.value)


@pytest.mark.parametrize("name", CALLS)
def test_pattern(name):
    run_local(CALLS[name], 4, timeout=30)
