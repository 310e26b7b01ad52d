"""Random ops draw what one device draws, under any layout, uneven ones included."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import hyper_parallel as hp
from hyper_parallel import Replicate, Shard, distribute_tensor, init_device_mesh, run_local

F = nn.functional
SIZES = (5, 6, 3)  # uneven, even, and fewer than 4 ranks

LAYOUTS = {
    "S(0) on 4": ((4,), [Shard(0)]),
    "S(1) on 4": ((4,), [Shard(1)]),
    "S(2) on 4": ((4,), [Shard(2)]),
    "S(0) on 3": ((3,), [Shard(0)]),
    "R on 2": ((2,), [Replicate()]),
    "S(0) S(1) on 2x2": ((2, 2), [Shard(0), Shard(1)]),
    "S(1) S(1) on 2x2": ((2, 2), [Shard(1), Shard(1)]),
    "R S(0) on 2x2": ((2, 2), [Replicate(), Shard(0)]),
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def values(*sizes):
    return torch.randn(sizes or SIZES, generator=torch.Generator().manual_seed(1))


def probabilities(*sizes):
    return torch.rand(sizes or SIZES, generator=torch.Generator().manual_seed(2))


def compare(fn, operands, layout, dtype=None):
    """Run ``fn`` twice on one device and on ranks, from one seed, and compare bit by bit.

    The second run and a plain draw after it show that states advance equally.
    """

    def both(x):
        return [fn(*x), fn(*x), torch.rand(3)]

    torch.manual_seed(7)
    want = both([x.clone() for x in operands])
    sizes, placements = layout

    def on_rank():
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=tuple("ab"[: len(sizes)]))
        wrapped = [distribute_tensor(x.clone(), mesh, placements) for x in operands]
        torch.manual_seed(7)
        return [x.full_tensor() if isinstance(x, hp.DTensor) else x for x in both(wrapped)]

    world = torch.Size(sizes).numel()
    for rank, got in enumerate(run_local(on_rank, world)):
        for i, (a, b) in enumerate(zip(got, want, strict=True)):
            assert a.dtype == b.dtype
            assert torch.equal(a, b), f"rank {rank}, result {i}"


OPS = {
    "dropout": lambda x: F.dropout(x, 0.4),
    "dropout in place": lambda x: F.dropout(x.clone(), 0.4, inplace=True),
    "dropout1d": lambda x: F.dropout1d(x, 0.4),
    "dropout2d": lambda x: F.dropout2d(x.unsqueeze(-1), 0.4),
    "dropout3d": lambda x: F.dropout3d(x.unsqueeze(-1).unsqueeze(-1), 0.4),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.4, training=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.4, training=True),
    "native_dropout": lambda x: torch.native_dropout(x, 0.4, True)[0],
    "rrelu": lambda x: F.rrelu(x, training=True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x),
    "rand_like": torch.rand_like,
    "randn_like": torch.randn_like,
    "randint_like": lambda x: torch.randint_like(x, 2, 9),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()),
    "bernoulli_": lambda x: x.clone().bernoulli_(0.3),
    "poisson": lambda x: torch.poisson(x.abs()),
    "normal": lambda x: torch.normal(x, x.abs() + 0.1),
    "normal_": lambda x: x.clone().normal_(1, 2),
    "uniform_": lambda x: x.clone().uniform_(-1, 2),
    "exponential_": lambda x: x.clone().exponential_(2),
    "geometric_": lambda x: x.clone().geometric_(0.3),
    "cauchy_": lambda x: x.clone().cauchy_(),
    "log_normal_": lambda x: x.clone().log_normal_(),
    "random_": lambda x: x.clone().random_(10),
    "multinomial": lambda x: torch.multinomial(x.abs().flatten(0, 1), 2),
    "randperm": lambda x: x[torch.randperm(5)],
    "plain mask": lambda x: x * torch.rand(SIZES),
}


@every_layout
@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_an_op_draws_what_one_device_draws(op, layout):
    compare(op, [values()], layout)


INITS = {
    "uniform_": nn.init.uniform_,
    "normal_": nn.init.normal_,
    "trunc_normal_": nn.init.trunc_normal_,
    "xavier_uniform_": nn.init.xavier_uniform_,
    "xavier_normal_": nn.init.xavier_normal_,
    "kaiming_uniform_": nn.init.kaiming_uniform_,
    "kaiming_normal_": nn.init.kaiming_normal_,
    "constant_": lambda x: nn.init.constant_(x, 3.0),
    "ones_": nn.init.ones_,
    "zeros_": nn.init.zeros_,
    "eye_": nn.init.eye_,
    "dirac_": nn.init.dirac_,
    "orthogonal_": nn.init.orthogonal_,
    "sparse_": lambda x: nn.init.sparse_(x, 0.4),
}


@every_layout
@pytest.mark.parametrize("name", INITS)
def test_init(name, layout):
    x = values(5, 6, 3)
    if name in ("eye_", "sparse_"):
        x = values(5, 6)
        if Shard(2) in layout[1]:
            layout = layout[0], [Shard(1)]
    compare(lambda t: INITS[name](t.clone()), [x], layout)


@every_layout
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_attention_dropout(layout, causal):
    qkv = [values(4, 5, 6).unsqueeze(0) * (1 + i) for i in range(3)]
    sizes, placements = layout
    placements = [p if p.is_replicate() else Shard(p.dim + 1) for p in placements]

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, is_causal=causal)

    compare(attend, qkv, (sizes, placements))


@every_layout
def test_gradients_use_the_mask_of_the_forward_pass(layout):
    x = values()

    def grad(t):
        leaf = t.detach().clone().requires_grad_()
        F.dropout(leaf, 0.4).sum().backward()
        return leaf.grad

    compare(grad, [x], layout)


def test_all_parts_of_a_sum_have_one_mask():
    x = values()
    torch.manual_seed(7)
    want = F.dropout(x, 0.4)

    def on_rank():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("a",))
        part = x * 3 if hp.rank() == 0 else x * -2
        pending = hp.DTensor.from_local(part, mesh, [hp.Partial()])
        torch.manual_seed(7)
        out = F.dropout(pending, 0.4)
        assert out.placements[0].is_partial()
        return out.full_tensor()

    for got in run_local(on_rank, 2):
        torch.testing.assert_close(got, want)


@every_layout
@pytest.mark.parametrize("reentrant", [False, True], ids=["", "reentrant"])
def test_a_checkpoint_draws_the_same_again(layout, reentrant):
    def grad(t):
        leaf = t.detach().clone().requires_grad_()
        out = checkpoint(lambda y: F.dropout(y * y, 0.4), leaf, use_reentrant=reentrant)
        out.sum().backward()
        return leaf.grad

    compare(grad, [values()], layout)


def test_the_seed_of_a_rank_does_not_touch_the_others():
    def body():
        torch.manual_seed(1 if hp.rank() == 0 else 2)
        return torch.rand(4)

    torch.manual_seed(1)
    one = torch.rand(4)
    torch.manual_seed(2)
    two = torch.rand(4)
    got = run_local(body, 3)
    assert torch.equal(got[0], one)
    assert torch.equal(got[1], two)
    assert torch.equal(got[2], two)


def test_a_generator_of_a_rank_is_used_as_it_is():
    def body():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("a",))
        g = torch.Generator().manual_seed(5)
        x = distribute_tensor(torch.zeros(5, 2), mesh, [Shard(0)])
        return x.normal_(generator=g).full_tensor(), torch.rand(2, generator=g)

    g = torch.Generator().manual_seed(5)
    want = torch.zeros(5, 2).normal_(generator=g), torch.rand(2, generator=g)
    for got in run_local(body, 2):
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def test_layout_calls_draw_nothing():
    def body():
        torch.manual_seed(3)
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("a",))
        x = distribute_tensor(torch.ones(5, 2), mesh, [Shard(0)])
        x.redistribute(placements=[Shard(1)]).full_tensor()
        return torch.rand(3)

    torch.manual_seed(3)
    want = torch.rand(3)
    assert all(torch.equal(got, want) for got in run_local(body, 2))


def test_factories_draw_what_one_device_draws():
    def body():
        mesh = init_device_mesh("cpu", (3,), mesh_dim_names=("a",))
        torch.manual_seed(3)
        a = hp.rand(5, 2, device_mesh=mesh, placements=[Shard(0)])
        b = hp.randn(5, 2, device_mesh=mesh, placements=[Shard(1)])
        return a.full_tensor(), b.full_tensor()

    torch.manual_seed(3)
    want = torch.rand(5, 2), torch.randn(5, 2)
    for got in run_local(body, 3):
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
