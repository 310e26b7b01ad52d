"""Parallel styles against one device, and their collectives against Megatron's."""

import copy

import pytest
import torch
from ranks_support import on_ranks, refused
from torch import nn

import hyper_parallel as hp
from hyper_parallel import DTensor, UnsupportedError, UsageError
from hyper_parallel.tensor import Partial, Replicate, Shard, distribute_module, init_device_mesh
from hyper_parallel.tensor.experimental import implicit_replication, local_map
from hyper_parallel.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

f64 = torch.float64


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=f64, generator=torch.Generator().manual_seed(seed))


def filled(module):
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(drawn(*parameter.shape, seed=i))
    return module


class Mlp(nn.Module):
    def __init__(self, width=6, hidden=10, bias=True):
        super().__init__()
        self.w1 = nn.Linear(width, hidden, bias, dtype=f64)
        self.w2 = nn.Linear(hidden, width, bias, dtype=f64)

    def forward(self, x):
        return self.w2(torch.relu(self.w1(x)))


class Attention(nn.Module):
    def __init__(self, width=8, heads=4):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, dtype=f64) for _ in range(4))
        self.size = width // heads

    def forward(self, x):
        b, s = x.shape[:2]
        q, k, v = (f(x).view(b, s, -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v))
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(out.transpose(1, 2).reshape(b, s, -1))


class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, dtype=f64), nn.LayerNorm(width, dtype=f64)
        self.attention, self.mlp = Attention(width), Mlp(width, 12)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, layers=2, width=8, words=11):
        super().__init__()
        self.embed = nn.Embedding(words, width, dtype=f64)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width, dtype=f64)
        self.head = nn.Linear(width, words, bias=False, dtype=f64)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def plain_plan():
    return {
        "embed": RowwiseParallel(input_layouts=Replicate()),
        "layers.*.attention.q": ColwiseParallel(),
        "layers.*.attention.k": ColwiseParallel(),
        "layers.*.attention.v": ColwiseParallel(),
        "layers.*.attention.o": RowwiseParallel(),
        "layers.*.mlp.w1": ColwiseParallel(),
        "layers.*.mlp.w2": RowwiseParallel(),
        "head": ColwiseParallel(output_layouts=Replicate()),
    }


def sequence_plan():
    """All between blocks is cut along the sequence."""
    whole = dict(input_layouts=Shard(1), desired_input_layouts=Replicate())
    rows = dict(output_layouts=Shard(1), use_local_output=False)
    return {
        "embed": RowwiseParallel(input_layouts=Replicate(), **rows),
        "layers.*.norm1": SequenceParallel(),
        "layers.*.attention": PrepareModuleInput(**whole),
        "layers.*.attention.q": ColwiseParallel(use_local_output=False),
        "layers.*.attention.k": ColwiseParallel(use_local_output=False),
        "layers.*.attention.v": ColwiseParallel(use_local_output=False),
        "layers.*.attention.o": RowwiseParallel(**rows),
        "layers.*.norm2": SequenceParallel(),
        "layers.*.mlp": PrepareModuleInput(**whole),
        "layers.*.mlp.w1": ColwiseParallel(use_local_output=False),
        "layers.*.mlp.w2": RowwiseParallel(**rows),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(
            input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False
        ),
    }


def tokens(length=5):
    return torch.randint(11, (3, length), generator=torch.Generator().manual_seed(1))


def loss_of(model, ids):
    logits = model(ids)
    return nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())


def whole(t):
    return t.full_tensor() if type(t) is DTensor else t


def one_device():
    model = filled(Model())
    loss = loss_of(model, tokens())
    loss.backward()
    return loss.detach(), {n: p.grad for n, p in model.named_parameters()}


@pytest.mark.parametrize("plan", [plain_plan, sequence_plan])
@pytest.mark.parametrize("world", [2, 4])
def test_a_transformer_equals_one_device(plan, world):
    want_loss, want = one_device()

    def step():
        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
        model = parallelize_module(filled(Model()), mesh, plan())
        with loss_parallel():
            loss = loss_of(model, tokens())
            loss.backward()
        assert all(
            type(p.grad) is type(p.data) or type(p.grad) is DTensor for p in model.parameters()
        )
        return whole(loss.detach()), {n: whole(p.grad) for n, p in model.named_parameters()}

    for loss, grads in hp.run_local(step, world):
        torch.testing.assert_close(loss, want_loss, rtol=0, atol=1e-12)
        for name, grad in grads.items():
            torch.testing.assert_close(grad, want[name], rtol=0, atol=1e-12, msg=name)


def counted(module, plan, x, **options):
    """The collectives of one step: kind, phase and bytes."""

    def step():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        model = parallelize_module(filled(copy.deepcopy(module)), mesh, plan(), **options)
        mine = x() if callable(x) else x.clone().requires_grad_()
        with hp.comm_report() as report:
            model(mine).sum().backward()
        return [(row.kind, row.phase, row.bytes) for row in report.rows]

    return hp.run_local(step, 2)[0]


def test_the_collectives_of_megatrons_mlp():
    x = drawn(3, 4, 6)
    size = x.numel() * 8  # an all-reduce among two sends what a rank holds

    def plan():
        return {"w1": ColwiseParallel(), "w2": RowwiseParallel()}

    pair = [("all_reduce", "forward", size), ("all_reduce", "backward", size)]
    assert counted(Mlp(bias=False), plan, x) == pair
    # The bias of w2 is whole on all ranks: its gradient is summed at the end, as are all such.
    assert counted(Mlp(), plan, x) == [*pair, ("all_reduce", "backward", 6 * 8)]


def test_the_collectives_of_megatrons_attention():
    x = drawn(3, 4, 8)
    size = x.numel() * 8

    def plan():
        return {
            "": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate()),
            "q": ColwiseParallel(use_local_output=False),
            "k": ColwiseParallel(use_local_output=False),
            "v": ColwiseParallel(use_local_output=False),
            "o": RowwiseParallel(),
        }

    module = Attention()
    module.o.bias = None
    rows = counted(module, plan, x)
    assert rows == [("all_reduce", "forward", size), ("all_reduce", "backward", size)]


def test_the_collectives_of_megatrons_sequence_parallel_mlp():
    def plan():
        return {
            "0": SequenceParallel(),
            "1.w1": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
            "1.w2": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        }

    def x():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        return hp.distribute_tensor(drawn(3, 4, 6), mesh, [Shard(1)]).requires_grad_()

    module = nn.Sequential(nn.LayerNorm(6, elementwise_affine=False), Mlp(bias=False))
    half = 3 * 2 * 6 * 8
    assert counted(module, plan, x) == [
        ("all_gather", "forward", half),
        ("reduce_scatter", "forward", half),
        ("all_gather", "backward", half),
        ("reduce_scatter", "backward", half),
    ]


# ---- Single styles -------------------------------------------------------------------------


@on_ranks(2)
def test_layouts_and_outputs_of_single_styles():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    x = drawn(4, 6)

    def run(module, style, *inputs):
        made = parallelize_module(filled(module), mesh, style)
        return made, made(*inputs)

    want = filled(nn.Linear(6, 5, dtype=f64))(x)
    linear, out = run(nn.Linear(6, 5, dtype=f64), ColwiseParallel(), x)
    assert linear.weight.placements == (Shard(0),) and linear.bias.placements == (Shard(0),)
    assert type(out) is torch.Tensor and out.shape == (4, 3 if hp.rank() == 0 else 2)
    _, out = run(nn.Linear(6, 5, dtype=f64), ColwiseParallel(use_local_output=False), x)
    assert out.placements == (Shard(1),)
    torch.testing.assert_close(out.full_tensor(), want)
    _, out = run(nn.Linear(6, 5, dtype=f64), ColwiseParallel(output_layouts=Replicate()), x)
    torch.testing.assert_close(out, want)
    linear, out = run(nn.Linear(6, 5, dtype=f64), RowwiseParallel(), x.chunk(2, 1)[hp.rank()])
    assert linear.weight.placements == (Shard(1),) and linear.bias.placements == (Replicate(),)
    torch.testing.assert_close(out, want)
    _, out = run(
        nn.Linear(6, 5, dtype=f64),
        RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0)),
        x,
    )
    torch.testing.assert_close(out, want.chunk(2)[hp.rank()])
    ids = torch.tensor([[0, 6], [3, 2]])
    lookup = filled(nn.Embedding(7, 4, dtype=f64))(ids)
    table, out = run(nn.Embedding(7, 4, dtype=f64), ColwiseParallel(), ids)
    assert table.weight.placements == (Shard(1),)
    torch.testing.assert_close(out, lookup.chunk(2, -1)[hp.rank()])
    style = RowwiseParallel(input_layouts=Replicate())
    table, out = run(nn.Embedding(7, 4, dtype=f64), style, ids)
    assert table.weight.placements == (Shard(0),)
    torch.testing.assert_close(out, lookup)
    part = drawn(2, 4, 6).chunk(2, 1)[hp.rank()]
    norm, out = run(nn.LayerNorm(6, dtype=f64), SequenceParallel(use_local_output=True), part)
    assert norm.weight.placements == (Replicate(),) and out.shape == part.shape
    _, out = run(nn.Dropout(0.0), SequenceParallel(sequence_dim=0), part)
    assert out.placements == (Shard(0),) and "sequence_sharding" in repr(SequenceParallel())


class Two(nn.Module):
    def forward(self, x, n, *, y=None):
        assert type(x) is DTensor and n == 3
        return x * n, y


@on_ranks(2)
def test_inputs_and_outputs_are_prepared():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    given = PrepareModuleInput(
        input_layouts=(Shard(0), None),
        desired_input_layouts=(Replicate(), None),
        input_kwarg_layouts={"y": Replicate()},
        desired_input_kwarg_layouts={"y": Shard(0)},
    )
    module = parallelize_module(Two(), mesh, given)
    part = drawn(4, 3).chunk(2)[hp.rank()]
    out, y = module(part, 3, y=drawn(4, 3))
    torch.testing.assert_close(out.full_tensor(), 3 * drawn(4, 3))
    assert y.placements == (Shard(0),)
    both = PrepareModuleInputOutput(
        input_layouts=(Replicate(), None),
        desired_input_layouts=(Shard(1), None),
        output_layouts=(Shard(1), None),
        desired_output_layouts=(Shard(0), None),
    )
    out, y = parallelize_module(Two(), mesh, both)(drawn(4, 3), 3)
    torch.testing.assert_close(out, 3 * part)
    assert y is None
    after = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0))
    out = parallelize_module(nn.Identity(), mesh, after)(drawn(4, 3))
    torch.testing.assert_close(out, part)


@on_ranks(2)
def test_tied_parameters_stay_tied():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model = Model()
    model.head.weight = model.embed.weight
    parallelize_module(filled(model), mesh, plain_plan())
    assert model.head.weight is model.embed.weight
    assert model.head.weight.placements == (Shard(0),)
    loss_of(model, tokens()).backward()
    alone = Model()
    alone.head.weight = alone.embed.weight
    loss_of(filled(alone), tokens()).backward()
    torch.testing.assert_close(model.head.weight.grad.full_tensor(), alone.head.weight.grad)


@on_ranks(2)
def test_whose_values_count():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))

    def weight(source):
        linear = filled(nn.Linear(4, 4, dtype=f64))
        with torch.no_grad():
            linear.weight.add_(hp.rank())
        made = parallelize_module(linear, mesh, ColwiseParallel(), src_data_rank=source)
        return made.weight.detach().full_tensor()

    base = drawn(4, 4)
    torch.testing.assert_close(weight(0), base)
    torch.testing.assert_close(weight(1), base + 1)
    torch.testing.assert_close(weight(None), torch.cat([base[:2], base[2:] + 1]))


@on_ranks(2)
def test_distribute_module():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model = nn.Sequential(nn.Linear(4, 4, dtype=f64), nn.BatchNorm1d(4, dtype=f64))

    def partition(name, module, mesh):
        if isinstance(module, nn.Linear):
            weight = hp.distribute_tensor(module.weight.detach(), mesh, [Shard(0)])
            module.register_parameter("weight", nn.Parameter(weight))

    distribute_module(
        filled(model),
        mesh,
        partition,
        lambda m, inputs, mesh: (hp.distribute_tensor(inputs[0], mesh, [Replicate()]),),
        lambda m, output, mesh: output.full_tensor(),
    )
    assert model[0].weight.placements == (Shard(0),)
    assert model[0].bias.placements == (Replicate(),)
    assert model[1].running_mean.placements == (Replicate(),)
    alone = filled(nn.Sequential(nn.Linear(4, 4, dtype=f64), nn.BatchNorm1d(4, dtype=f64)))
    torch.testing.assert_close(model(drawn(5, 4)), alone(drawn(5, 4)))
    refused(UsageError, "HP-P043", distribute_module, model, mesh)
    refused(UsageError, "HP-P044", distribute_module, nn.Linear(2, 2), mesh, None, lambda x: x)


@on_ranks(2)
def test_local_map():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    x = hp.distribute_tensor(drawn(4, 6), mesh, [Shard(1)]).requires_grad_()
    w = hp.distribute_tensor(drawn(6, 3, seed=1), mesh, [Shard(0)])
    rows = [Replicate()]

    def product(x, w):
        return hp.all_reduce(x @ w, "tp")

    mapped = local_map(product, rows, ([Shard(1)], [Shard(0)]), device_mesh=mesh)
    torch.testing.assert_close(mapped(x, w).full_tensor(), drawn(4, 6) @ drawn(6, 3, seed=1))
    decorated = local_map(out_placements=[Partial()], in_placements=None)(torch.mm)
    assert decorated(x, w).placements == (Partial(),)
    refused(UsageError, "HP-F013", mapped, x, hp.distribute_tensor(drawn(6, 3), mesh, rows))
    moved = local_map(product, rows, ([Shard(1)], [Shard(0)]), redistribute_inputs=True)
    other = hp.distribute_tensor(drawn(6, 3, seed=1), mesh, rows)
    torch.testing.assert_close(moved(x, other).full_tensor(), drawn(4, 6) @ drawn(6, 3, seed=1))
    # torch's border: each rank gives the whole gradient of what it was given
    y = hp.distribute_tensor(drawn(4, 6), mesh, rows).requires_grad_()
    double = local_map(lambda t: 2 * t, rows, (rows,), (rows,))
    double(y).sum().backward()
    torch.testing.assert_close(y.grad.full_tensor(), torch.full((4, 6), 2.0, dtype=f64))
    with implicit_replication():
        assert (y + torch.ones(6, dtype=f64)).placements == (Replicate(),)


@on_ranks(2)
def test_heads_that_do_not_divide():
    """Three heads on two ranks: as DTensors they work, as plain parts torch says why not."""
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    x = drawn(2, 4, 6)

    def attention(local):
        plan = {name: ColwiseParallel(use_local_output=local) for name in "qkv"}
        return parallelize_module(filled(Attention(6, 3)), mesh, plan | {"o": RowwiseParallel()})

    torch.testing.assert_close(attention(False)(x), filled(Attention(6, 3))(x))
    with pytest.raises(RuntimeError, match="is invalid for input of size"):
        attention(True)(x)


# ---- Mistakes ------------------------------------------------------------------------------


@on_ranks(2)
def test_mistakes():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    grid = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    plan = {"w1": ColwiseParallel()}
    assert 'mesh["tp"]' in refused(UsageError, "HP-P042", parallelize_module, Mlp(), grid, plan)
    refused(UsageError, "HP-P040", parallelize_module, Mlp(), None, plan)
    text = refused(
        UsageError, "HP-P001", parallelize_module, Mlp(), mesh, {"w3": ColwiseParallel()}
    )
    assert "w1" in text or "w2" in text
    with pytest.raises(TypeError):
        parallelize_module(Mlp(), mesh, {"w1": "colwise"})
    with pytest.raises(TypeError):
        parallelize_module(Mlp(), mesh, 3)
    for style in (ColwiseParallel(), RowwiseParallel()):
        text = refused(
            UnsupportedError, "HP-P045", parallelize_module, nn.Conv1d(2, 2, 1), mesh, style
        )
        assert "not Conv1d" in text
    refused(UsageError, "HP-P049", parallelize_module, Mlp(), mesh)
    refused(UsageError, "HP-P047", PrepareModuleInput, input_layouts=Shard(0))
    refused(
        UsageError,
        "HP-P047",
        PrepareModuleOutput,
        output_layouts=(Shard(0),),
        desired_output_layouts=(Shard(0), None),
    )
    given = dict(input_layouts=(Shard(0), Shard(0)), desired_input_layouts=(Shard(0), Shard(0)))
    module = parallelize_module(Two(), mesh, PrepareModuleInput(**given))
    assert "2 placements" in refused(UsageError, "HP-P048", module, drawn(2, 2))
    assert "is a int" in refused(UsageError, "HP-P046", module, drawn(2, 2), 3)
    linear = parallelize_module(nn.Linear(6, 6, dtype=f64), mesh, RowwiseParallel())
    refused(UsageError, "HP-D022", linear, drawn(4, 6))  # the whole input where a part is expected
    refused(UsageError, "HP-P046", linear, input=drawn(4, 6))


class Fixed(ParallelStyle):
    """A style of the user's own."""

    def _apply(self, module, device_mesh):
        return nn.Identity()


@on_ranks(2)
def test_a_style_of_ones_own_may_replace_the_module():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model = parallelize_module(Mlp(), mesh, {"w2": Fixed()})
    assert type(model.w2) is nn.Identity
