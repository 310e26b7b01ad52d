"""Random numbers by index: the same on one rank and under every layout, and nothing moves."""

import pytest
import torch
from torch import nn

import hyper_parallel as hp
from hyper_parallel import (
    Replicate,
    Shard,
    UsageError,
    distribute_tensor,
    init_device_mesh,
    run_local,
)

F = nn.functional
SIZES = (5, 6, 3)
LAYOUTS = {
    "S(0) on 4": ((4,), [Shard(0)]),
    "S(1) on 4": ((4,), [Shard(1)]),
    "S(2) on 3": ((3,), [Shard(2)]),
    "R on 2": ((2,), [Replicate()]),
    "S(0) S(1) on 2x2": ((2, 2), [Shard(0), Shard(1)]),
    "S(1) S(1) on 2x2": ((2, 2), [Shard(1), Shard(1)]),
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
OPS = {
    "dropout": lambda x: F.dropout(x, 0.4),
    "dropout in place": lambda x: F.dropout(x.clone(), 0.4, inplace=True),
    "dropout of a transposed one": lambda x: F.dropout(x.transpose(0, 1), 0.4),
    "dropout1d": lambda x: F.dropout1d(x, 0.4),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.4, training=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.4, training=True),
    "native_dropout": lambda x: torch.native_dropout(x, 0.4, True)[0],
    "native_dropout, mask": lambda x: torch.native_dropout(x, 0.4, True)[1],
    "rrelu": lambda x: F.rrelu(x, training=True),
    "rrelu in place": lambda x: F.rrelu(x.clone(), training=True, inplace=True),
    "rand_like": torch.rand_like,
    "randn_like": torch.randn_like,
    "randn_like bf16": lambda x: torch.randn_like(x, dtype=torch.bfloat16),
    "randint_like": lambda x: torch.randint_like(x, 2, 9),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()),
    "bernoulli_": lambda x: x.clone().bernoulli_(0.3),
    "bernoulli_ tensor": lambda x: x.clone().bernoulli_(x.sigmoid()),
    "normal": lambda x: torch.normal(x, x.abs() + 0.1),
    "normal, one number": lambda x: torch.normal(x, 2.0),
    "normal_": lambda x: x.clone().normal_(1, 2),
    "uniform_": lambda x: x.clone().uniform_(-1, 2),
    "exponential_": lambda x: x.clone().exponential_(2),
    "geometric_": lambda x: x.clone().geometric_(0.3),
    "cauchy_": lambda x: x.clone().cauchy_(),
    "log_normal_": lambda x: x.clone().log_normal_(),
    "random_": lambda x: x.clone().random_(),
    "random_ below": lambda x: x.clone().random_(10),
    "random_ between": lambda x: x.clone().random_(-3, 10),
    "trunc_normal_": lambda x: nn.init.trunc_normal_(x.clone()),
    "kaiming_uniform_": lambda x: nn.init.kaiming_uniform_(x.clone()),
    "xavier_normal_": lambda x: nn.init.xavier_normal_(x.clone()),
}


def values(*sizes):
    return torch.randn(sizes or SIZES, generator=torch.Generator().manual_seed(1)).double()


def draw(fn, operands, layout, mode="by_index"):
    """Results of all ranks, whole, and the bytes that ``fn`` moved."""
    sizes, placements = layout

    def on_rank():
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=tuple("ab"[: len(sizes)]))
        wrapped = [distribute_tensor(x.clone(), mesh, placements) for x in operands]
        torch.manual_seed(7)
        with hp.random_mode(mode), hp.comm_report() as report:
            out = [fn(*wrapped), fn(*wrapped)]
        state = torch.rand(3)
        return [x.full_tensor() for x in out], state, report.bytes()

    return run_local(on_rank, torch.Size(sizes).numel())


ONE = ((1,), [Replicate()])


@every_layout
@pytest.mark.parametrize("name", OPS)
def test_an_op_draws_the_same_under_every_layout(name, layout):
    op = OPS[name]
    (first, second), state, _ = draw(op, [values()], ONE)[0]
    assert not torch.equal(first, second)
    # It looks for numbers out of bounds and draws them anew, by a mask: an op like any other.
    masks = name == "trunc_normal_"
    for out, after, moved in draw(op, [values()], layout):
        assert torch.equal(out[0], first)
        assert torch.equal(out[1], second)
        assert torch.equal(after, state)
        assert masks or moved == 0


@pytest.mark.parametrize("mode", ["exact", "by_index"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    "layout",
    [((2,), [Shard(0)]), ((4,), [Shard(1)]), ((2, 2), [Shard(0), Shard(1)])],
    ids=["batch", "heads", "both"],
)
def test_attention_with_dropout_stays_split(layout, causal, mode):
    qkv = [values(3, 4, 5, 6) * (1 + i) for i in range(3)]

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, is_causal=causal)

    (want, _), state, _ = draw(attend, qkv, ONE, mode)[0]
    for out, after, moved in draw(attend, qkv, layout, mode):
        torch.testing.assert_close(out[0], want, rtol=1e-12, atol=1e-12)
        assert torch.equal(after, state)
        assert moved == 0


@pytest.mark.parametrize("layout", [ONE, ((2,), [Shard(0)]), ((2,), [Shard(1)])])
def test_grouped_heads_masks_and_rows(layout):
    """Exact numbers, and those of one device: grouped heads, a mask, rows that are cut."""
    q, k, v = values(2, 4, 5, 6), values(2, 2, 7, 6), values(2, 2, 7, 8)
    mask = values(5, 7) > 0
    mask[2] = True

    def attend(q, k, v):
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=0.3, enable_gqa=True
        )

    torch.manual_seed(7)
    want = attend(q, k, v)
    for out, _, _ in draw(attend, [q, k, v], layout, "exact"):
        torch.testing.assert_close(out[0], want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_recurrent_layers_stay_split(kind, batch_first):
    """Exact: one device. By index: the same under every layout; the batch is never gathered."""
    sizes = (5, 4, 6) if batch_first else (4, 5, 6)
    batch = 0 if batch_first else 1

    def net():
        torch.manual_seed(0)
        more = {"num_layers": 3, "dropout": 0.4, "bidirectional": True, "batch_first": batch_first}
        return getattr(nn, kind)(6, 4, **more).double()

    def run(mode, world):
        def on_rank():
            mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("a",))
            model = hp.tensor.distribute_module(net(), mesh)
            x = distribute_tensor(values(*sizes), mesh, [Shard(batch)]).requires_grad_()
            torch.manual_seed(3)
            with hp.random_mode(mode):
                out = model(x)[0]
            out.square().sum().backward()
            weight = model.weight_ih_l1.grad.full_tensor()
            return out.detach().full_tensor(), x.grad.full_tensor(), weight

        return run_local(on_rank, world)

    model = net()
    x = values(*sizes).requires_grad_()
    torch.manual_seed(3)
    out = model(x)[0]
    out.square().sum().backward()
    want = {"exact": (out.detach(), x.grad, model.weight_ih_l1.grad)}
    want["by_index"] = run("by_index", 1)[0]
    for mode, results in want.items():
        for got in run(mode, 3):
            for a, b in zip(got, results, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_small_draws_are_exact_and_large_ones_by_index():
    def numbers(count):
        def on_rank():
            mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("a",))
            x = distribute_tensor(torch.zeros(count), mesh, [Shard(0)])
            torch.manual_seed(5)
            return torch.rand_like(x).full_tensor()

        torch.manual_seed(5)
        return torch.equal(run_local(on_rank, 2)[0], torch.rand(count))

    assert numbers(2**16)
    assert not numbers(2**16 + 1)


def test_an_unknown_mode():
    with pytest.raises(UsageError, match="HP-D036"):
        hp.random_mode("quantum")


def test_numbers_by_index_are_as_random_as_they_should_be():
    def on_rank():
        mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("a",))
        x = distribute_tensor(torch.zeros(400, 500).double(), mesh, [Shard(1)])
        torch.manual_seed(5)
        z = torch.randn_like(x).full_tensor()
        keep = F.dropout(torch.ones_like(x), 0.25).full_tensor()
        return z, keep

    z, keep = run_local(on_rank, 4)[0]
    # 200,000 numbers: bounds are five standard deviations of each estimate.
    assert abs(z.mean()) < 0.0112 and abs(z.var() - 1) < 0.016
    assert abs((z[:, 1:] * z[:, :-1]).mean()) < 0.0112
    assert abs((z[1:] * z[:-1]).mean()) < 0.0112
    assert abs(keep.mean() - 1) < 0.0065
    assert set(keep.unique().tolist()) == {0.0, 1 / 0.75}
