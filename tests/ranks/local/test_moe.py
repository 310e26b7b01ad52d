"""A dropless mixture of experts, written with custom_shard, against one device."""

import pytest
import torch
import torch.nn.functional as F

import hyper_parallel as hp
from hyper_parallel import Layout, custom_shard

f64 = torch.float64
WIDTH, HIDDEN, EXPERTS, TOP = 6, 8, 4, 2
BOUND = 1e-12


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=f64, generator=torch.Generator().manual_seed(seed))


def route(x, router):
    """Choose experts: weights [t, k], experts [t, k], and what balances the load."""
    probabilities = torch.softmax(x @ router, -1)
    weights, experts = probabilities.topk(TOP, -1)
    chosen = F.one_hot(experts, EXPERTS).sum(1).to(x.dtype)
    return weights / weights.sum(-1, keepdim=True), experts, probabilities, chosen


def run_experts(rows, of_expert, up, down, first=0):
    """Run each row through its expert; experts are numbered from ``first``."""
    out = torch.zeros_like(rows)
    for e in range(up.shape[0]):
        places = (of_expert == first + e).nonzero()[:, 0]
        if len(places):
            hidden = torch.relu(rows[places] @ up[e])
            out = out.index_add(0, places, hidden @ down[e])
    return out


def moe_on_one_device(x, router, up, down):
    weights, experts, probabilities, chosen = route(x, router)
    out = torch.zeros_like(x)
    for k in range(TOP):
        out = out + weights[:, k : k + 1] * run_experts(x, experts[:, k], up, down)
    balance = EXPERTS * (probabilities.mean(0) * chosen.mean(0)).sum()
    return out, balance


def moe_on_ranks(tokens):
    """Experts lie on ranks; tokens travel to their experts and back, none is dropped."""

    def local(x, router, up, down):
        weights, experts, probabilities, chosen = route(x, router)
        mine = up.shape[0]
        flat = experts.flatten()
        order = flat.argsort(stable=True)
        owner = (flat[order] // mine).bincount(minlength=hp.axis_size("ep"))
        rows = x.repeat_interleave(TOP, 0)[order]
        came = hp.all_to_all(rows, "ep", owner)
        with torch.no_grad():
            numbers = hp.all_to_all(flat[order], "ep", owner)
            comes = hp.all_to_all(owner, "ep")
        done = run_experts(came, numbers, up, down, hp.axis_rank("ep") * mine)
        home = hp.all_to_all(done, "ep", comes, owner)
        out = torch.zeros_like(rows).index_copy(0, order, home).reshape(-1, TOP, x.shape[1])
        out = (out * weights.unsqueeze(-1)).sum(1)
        means = hp.all_reduce(torch.stack([probabilities.sum(0), chosen.sum(0)]), "ep") / tokens
        return out, EXPERTS * (means[0] * means[1]).sum()

    return local


def inputs(case, tokens):
    x = drawn(tokens, WIDTH, seed=1)
    router = drawn(WIDTH, EXPERTS, seed=2)
    if case == "one expert gets nothing":
        x, router = x.abs(), router.clone()
        router[:, 3] = -50.0
    elif case == "all tokens to one":
        x, router = x.abs(), router * 0.1
        router[:, 2] = 20.0
        router[:, 3] = 10.0
    return x, router, drawn(EXPERTS, WIDTH, HIDDEN, seed=3), drawn(EXPERTS, HIDDEN, WIDTH, seed=4)


def step(moe, x, router, up, down):
    """One layer between others: the loss and all gradients."""
    leaves = [t.requires_grad_() for t in (x, router, up, down)]
    out, balance = moe(torch.tanh(leaves[0]), *leaves[1:])
    loss = (out - 0.3).square().mean() + 0.01 * balance
    loss.backward()
    return loss, [t.grad for t in leaves]


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("tokens", [8, 7, 3])
@pytest.mark.parametrize("case", ["plain", "one expert gets nothing", "all tokens to one"])
def test_loss_and_gradients_equal_one_device(case, tokens, world):
    want_loss, want = step(moe_on_one_device, *inputs(case, tokens))

    def on_rank():
        layout = Layout((world,), ("ep",))
        rows, whole, stack = (
            layout("ep", "None"),
            layout("None", "None"),
            layout("ep", "None", "None"),
        )
        moe = custom_shard(moe_on_ranks(tokens), (rows, layout()), (rows, whole, stack, stack))
        leaves = [
            hp.distribute_tensor(t, at, src_data_rank=None)
            for t, at in zip(inputs(case, tokens), (rows, whole, stack, stack), strict=True)
        ]
        loss, grads = step(moe, *leaves)
        assert [g.layout for g in grads] == [t.layout for t in leaves]
        return loss.full_tensor(), [g.full_tensor() for g in grads]

    for loss, grads in hp.run_local(on_rank, world):
        assert abs(loss - want_loss) < BOUND
        for mine, theirs in zip(grads, want, strict=True):
            assert (mine - theirs).abs().max() < BOUND


def test_the_values_and_gradients_of_a_step_function():
    want_loss, want = step(moe_on_one_device, *inputs("one expert gets nothing", 6))

    def on_rank():
        layout = Layout((2,), ("ep",))
        rows, stack = layout("ep", "None"), layout("ep", "None", "None")
        moe = custom_shard(moe_on_ranks(6), (rows, layout()))
        layouts = (rows, layout("None", "None"), stack, stack)
        leaves = [
            hp.distribute_tensor(t, at, src_data_rank=None).requires_grad_()
            for t, at in zip(inputs("one expert gets nothing", 6), layouts, strict=True)
        ]

        def loss(x, *rest):
            out, balance = moe(torch.tanh(x), *rest)
            return (out - 0.3).square().mean() + 0.01 * balance

        value, grads = hp.parallelize_value_and_grad(loss, leaves)(*leaves)
        return value.full_tensor(), [g.full_tensor() for g in grads]

    for value, grads in hp.run_local(on_rank, 2):
        assert abs(value - want_loss) < BOUND
        for mine, theirs in zip(grads, want, strict=True):
            assert (mine - theirs).abs().max() < BOUND
