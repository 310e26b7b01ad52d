"""Reports on models: parallel layers, plans, checkpoints, code on parts, compilation.

Rows that are about speed alone have no pattern here:

    row 58  a step of Adam on one Linear(32, 5), replicated on a mesh of one rank: 229 us, 172 us
            with plain tensors (268 and 140 without foreach); the report has 4820 and 531
    row 62  a decoder under tensor parallelism: ``ours_vs_megatron=1.02``, by bench/tp_peers.py;
            its collectives are counted below
"""

import copy
import io

import pytest
import torch
from public_support import (
    F,
    Partial,
    Replicate,
    Shard,
    f64,
    hp,
    mesh_of,
    partial,
    patterns,
    same,
    split,
    tensor,
)
from torch import nn

from hyper_parallel import init_device_mesh, run_local
from hyper_parallel.tensor.experimental import local_map
from hyper_parallel.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

CALLS, report = patterns()


def filled(module):
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(tensor(*parameter.shape, seed=i) / 3)
    return module


class Attention(nn.Module):
    def __init__(self, width=8, heads=4):
        super().__init__()
        self.q, self.k, self.v, self.o = (
            nn.Linear(width, width, bias=False, dtype=f64) for _ in range(4)
        )
        self.heads = heads
        self.size = width // heads

    def forward(self, x):
        b, s = x.shape[:2]
        q, k, v = (
            f(x).view(b, s, self.heads, self.size).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(out.transpose(1, 2).reshape(b, s, -1))


class Block(nn.Module):
    def __init__(self, width=8, heads=4):
        super().__init__()
        self.attention = Attention(width, heads)
        self.up, self.gate, self.down = (
            nn.Linear(*sizes, bias=False, dtype=f64)
            for sizes in ((width, 12), (width, 12), (12, width))
        )
        self.norm = nn.RMSNorm(width, dtype=f64)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


MEGATRON = {
    "attention.q": ColwiseParallel,
    "attention.k": ColwiseParallel,
    "attention.v": ColwiseParallel,
    "attention.o": RowwiseParallel,
    "up": ColwiseParallel,
    "gate": ColwiseParallel,
    "down": RowwiseParallel,
}


def parallel(module, local):
    """Put Megatron's styles on a module: parts between its layers, or DTensors."""
    plan = {}
    for name, style in MEGATRON.items():
        options = {} if style is RowwiseParallel else {"use_local_output": local}
        plan[name] = style(**options)
    names = {name for name, _ in module.named_modules()}
    if not isinstance(module, Block):
        plan = {name.removeprefix("attention."): style for name, style in plan.items()}
    return parallelize_module(
        module, mesh_of(), {name: style for name, style in plan.items() if name in names}
    )


# ---- Code on parts -----------------------------------------------------------------------------


@report(9)
def local_map_on_uneven_parts():
    for rows in (8, 5, 6, 3, 1):
        x = tensor(rows, 3)
        plain = x.clone().requires_grad_()
        plain.exp().square().sum().backward()
        ours = split(x, Shard(0)).requires_grad_()
        mapped = local_map(
            torch.exp,
            out_placements=[Shard(0)],
            in_placements=([Shard(0)],),
            device_mesh=mesh_of(),
        )
        y = mapped(ours)
        assert y.shape == (rows, 3)
        same(y, x.exp())
        y.square().sum().backward()
        same(ours.grad, plain.grad)
        total = local_map(
            lambda t: t.sum(0),
            out_placements=[Partial()],
            in_placements=([Shard(0)],),
            device_mesh=mesh_of(),
        )
        same(total(split(x, Shard(0))), x.sum(0))


@report(9)
def local_map_with_parts_that_do_not_fit_is_refused():
    x = split(tensor(5, 3), Shard(0))
    grown = local_map(
        lambda t: torch.cat([t, t[:1]]),
        out_placements=[Shard(0)],
        in_placements=([Shard(0)],),
        device_mesh=mesh_of(),
    )
    with pytest.raises(hp.UsageError):
        grown(x)


@torch.library.custom_op("hp_reports::topk_values", mutates_args=())
def topk_values(x: torch.Tensor, k: int) -> torch.Tensor:
    return x.topk(k, -1).values.contiguous()


@torch.library.custom_op("hp_reports::fused_attention", mutates_args=())
def fused_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask)


@report(67)
def an_op_of_a_library_takes_a_rule_in_one_line():
    x = tensor(6, 5)
    want = topk_values(x, 2)
    hp.register_rule("hp_reports::topk_values", "... d! -> ... _=k")
    with hp.policy("strict"):
        got = topk_values(split(x, Shard(0)), 2)
        assert got.placements == (Shard(0),)
        same(got, want)
        same(topk_values(split(x, Shard(1)), 2), want)
        same(topk_values(partial(x), 2), want)


@report(68)
def a_fused_attention_takes_plain_tensors_beside_split_ones():
    q, k, v = (tensor(2, 4, 6, 8, seed=i) for i in range(3))
    mask = tensor(6, 6, seed=4)
    want = F.scaled_dot_product_attention(q, k, v, mask)
    a, b, c = (split(t, Shard(1)) for t in (q, k, v))
    same(F.scaled_dot_product_attention(a, b, c, mask), want)
    same(F.scaled_dot_product_attention(a, k, v, mask), want)
    heads = hp.custom_shard(
        lambda *parts: fused_attention(*parts, mask),
        device_mesh=mesh_of(),
        out_placements=((Shard(1),),),
        in_placements=((Shard(1),),) * 3,
    )
    same(heads(a, b, c), want)
    hp.register_rule(
        "hp_reports::fused_attention", "b h s! e!, b h t! e!, b h t! f!, s! t! -> b h s f"
    )
    with hp.policy("strict"):
        got = fused_attention(a, b, c, mask)
        assert got.placements == (Shard(1),)
        same(got, want)
        same(fused_attention(split(q, Shard(2)), k, v, mask), want)


@report(12)
def a_mixture_of_experts_on_a_sequence_that_does_not_divide():
    experts, width = 4, 3

    def moe(x, router, up, down):
        weights, chosen = torch.softmax(x @ router, -1).topk(2, -1)
        gate = torch.zeros_like(x @ router).scatter(-1, chosen, weights)
        hidden = torch.relu(torch.einsum("td,edh->teh", x, up))
        return torch.einsum("teh,ehd,te->td", hidden, down, gate)

    shapes = (width, experts), (experts, width, 5), (experts, 5, width)
    for tokens in (8, 7, 6, 3, 1):
        values = [tensor(tokens, width), *(tensor(*s, seed=i + 1) for i, s in enumerate(shapes))]
        plain = [v.clone().requires_grad_() for v in values]
        want = moe(*plain)
        want.square().sum().backward()
        cuts = (Shard(0), Replicate(), Shard(0), Shard(0))
        ours = [split(v, c).requires_grad_() for v, c in zip(values, cuts, strict=True)]
        got = moe(*ours)
        same(got, want)
        got.square().sum().backward()
        for mine, theirs in zip(ours, plain, strict=True):
            same(mine.grad, theirs.grad)


# ---- Layers ------------------------------------------------------------------------------------


@report(51)
def heads_counted_by_hand():
    x = tensor(2, 6, 8)
    want = filled(Attention())(x)
    by_hand = parallel(filled(Attention()), local=True)
    by_hand.heads //= 4
    same(by_hand(x), want)
    same(parallel(filled(Attention()), local=False)(x), want)
    # The count of all heads for parts, or of own heads for the whole: no wrong value.
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        parallel(filled(Attention()), local=True)(x)
    edited = parallel(filled(Attention()), local=False)
    edited.heads //= 4
    with pytest.raises(hp.UsageError, match="HP-S008"):
        edited(x)


@report(62)
def a_decoder_has_the_collectives_of_hand_written_code():
    x = tensor(2, 1, 8)
    model = parallel(filled(Block()), local=False)
    with torch.no_grad():
        model(x)
        with hp.comm_report() as traffic:
            got = model(x)
        same(got, filled(Block())(x))
    # Megatron: one all-reduce of the activations behind the attention and one behind the MLP.
    assert traffic.count() == traffic.count(kind="all_reduce") == 2, traffic.rows


@report(60)
def a_list_op_makes_one_collective():
    xs = [tensor(4 + i, 3, seed=i) for i in range(5)]
    ours = [split(x, Shard(0)) for x in xs]
    with hp.comm_report() as traffic:
        norms = torch._foreach_norm(ours)
    for got, x in zip(norms, xs, strict=True):
        same(got, x.norm())
    assert traffic.count() == 1, traffic.rows


@report(60)
def a_list_op_of_equal_layouts_makes_none():
    xs = [tensor(4 + i, 3, seed=i) for i in range(5)]
    ours = [split(x, Shard(0)) for x in xs]
    with hp.comm_report() as traffic:
        out = torch._foreach_add(torch._foreach_mul(ours, 2.0), ours)
    assert traffic.rows == []
    for got, x in zip(out, xs, strict=True):
        same(got, 3 * x)


@report(60)
def a_step_of_the_gradients_makes_one_collective():
    shapes = [(4, 3), (5,), (2, 2)]
    params = [nn.Parameter(split(tensor(*s, seed=i), Replicate())) for i, s in enumerate(shapes)]
    x = split(tensor(8), Shard(0))
    with hp.comm_report() as traffic:
        losses = [(x.unsqueeze(1) * p.flatten()).square().sum() for p in params]
        (losses[0] + losses[1] + losses[2]).backward()
    assert traffic.count(phase="backward") == 1, traffic.rows
    want = [tensor(*s, seed=i) * 2 * tensor(8).square().sum() for i, s in enumerate(shapes)]
    for p, w in zip(params, want, strict=True):
        same(p.grad, w, 1e-11)


# ---- Plans and checkpoints ---------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 6, dtype=f64)
        self.lm_head = nn.Linear(6, 10, bias=False, dtype=f64)

    def forward(self, x):
        return self.lm_head(torch.relu(self.body(x)))


@report(73)
def entries_of_the_head_are_applied_or_refused():
    layout = hp.Layout((4,), ("tp",))
    plan = {"parameter": {"lm_head.weight": layout("tp", "None")}}
    model = hp.shard_module(filled(Tied()), plan)
    assert model.lm_head.weight.placements == (Shard(0),)
    same(model(tensor(3, 4)), filled(Tied())(tensor(3, 4)))
    for wrong in ("head.weight", "lm_head.weights", "model.lm_head.weight"):
        with pytest.raises(hp.UsageError, match="HP-P001"):
            hp.shard_module(filled(Tied()), {"parameter": {wrong: layout("tp", "None")}})
    styled = parallelize_module(
        filled(Tied()), mesh_of(), {"lm_head": ColwiseParallel(output_layouts=Replicate())}
    )
    assert styled.lm_head.weight.placements == (Shard(0),)
    with pytest.raises(hp.UsageError):
        parallelize_module(filled(Tied()), mesh_of(), {"head": ColwiseParallel()})


def permuted(weight, heads):
    """Reorder rows for rotary embeddings, as converters of checkpoints do."""
    rows, width = weight.shape
    return weight.view(heads, rows // heads // 2, 2, width).transpose(1, 2).reshape(rows, width)


@report(72, 11)
def weights_that_are_loaded_saved_and_loaded_on_one_device():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    checkpoint = {"q": tensor(8, 6), "o": tensor(6, 8, seed=1), "head": tensor(7, 6, seed=2)}
    cuts = {"q": [Shard(0), Shard(0)], "o": [Shard(0), Shard(1)], "head": [Shard(0), Shard(0)]}
    ours = {k: hp.distribute_tensor(v, mesh, cuts[k]) for k, v in checkpoint.items()}
    for heads in (1, 2, 4):
        same(permuted(ours["q"], heads), permuted(checkpoint["q"], heads))
    file = io.BytesIO()
    torch.save({k: v.full_tensor() for k, v in ours.items()}, file)
    file.seek(0)
    for key, value in torch.load(file).items():
        assert torch.equal(value, checkpoint[key]), key


@report(72)
def a_state_dict_fills_a_model_of_other_layouts():
    source = filled(Block())
    model = parallel(filled(Block()), local=False)
    state = {k: v.full_tensor() if isinstance(v, hp.DTensor) else v
             for k, v in model.state_dict().items()}  # fmt: skip
    again = Block()
    again.load_state_dict(state)
    for (name, a), b in zip(again.named_parameters(), source.parameters(), strict=True):
        assert torch.equal(a, b), name
    other = parallel(copy.deepcopy(Block()), local=False)
    with torch.no_grad():
        for name, parameter in other.named_parameters():
            parameter.copy_(source.get_parameter(name))
    same(other(tensor(2, 3, 8)), source(tensor(2, 3, 8)))


# ---- Compilation -------------------------------------------------------------------------------


@report(74)
def plans_of_other_sizes_are_not_reused():
    w = split(tensor(4, 3), Replicate())
    for rows in (8, 5, 3, 8, 6, 1, 5):
        x = tensor(rows, 4, seed=rows)
        a = split(x, Shard(0)).requires_grad_()
        plain = x.clone().requires_grad_()
        got, want = F.softmax(a @ w, 0).view(-1), F.softmax(plain @ tensor(4, 3), 0).view(-1)
        same(got, want)
        got.square().sum().backward()
        want.square().sum().backward()
        same(a.grad, plain.grad)


@pytest.mark.parametrize("name", CALLS)
def test_pattern(name):
    run_local(CALLS[name], 4, timeout=30)


def compiled(fn, backend):
    """Run ``fn`` compiled: its values, or the error that names what cannot be."""
    return torch.compile(fn, backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "what",
    ["rows 74: sizes that change", "rows 75: a module that gives a DTensor", "rows 76: tangents"],
)
def test_compiled_code_gives_the_right_value_or_a_clear_error(what, backend):
    torch._dynamo.reset()
    layer = nn.LayerNorm(4, dtype=f64)

    def fn(x):
        return layer(x.transpose(0, 1)) * 2 if "76" in what else layer(x) * 2

    def on_rank():
        mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
        run = compiled(fn, backend)
        for rows in (6, 5, 4) if "74" in what else (6,):
            shape = (4, rows) if "76" in what else (rows, 4)
            x = tensor(*shape, seed=rows)
            plain = x.clone().requires_grad_()
            fn(plain).square().sum().backward()
            ours = hp.distribute_tensor(x, mesh, [Shard(1)]).requires_grad_()
            try:
                got = run(ours)
                got.square().sum().backward()
            except (RuntimeError, hp.UnsupportedError) as error:
                assert "DTensor" in str(error), error
                return "refused"
            same(got, fn(plain))
            same(ours.grad, plain.grad)
        return "right"

    assert run_local(on_rank, 1)[0] in ("right", "refused")
