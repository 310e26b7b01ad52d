"""Sharding plans on modules and functions, against the same model on one device."""

import copy
from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
from ranks_support import on_ranks, refused
from torch import nn

import hyper_parallel as hp
from hyper_parallel import DTensor, Layout, Replicate, Shard, UsageError, shard_module

f64 = torch.float64
LAYOUT = Layout((2, 2), ("dp", "tp"))
WHOLE = LAYOUT("None", "None")


class Mlp(nn.Module):
    def __init__(self, width=6, hidden=10):
        super().__init__()
        self.up = nn.Linear(width, hidden, dtype=f64)
        self.down = nn.Linear(hidden, width, dtype=f64)

    def forward(self, x, scale=1.0):
        return self.down(torch.relu(self.up(x))) * scale


class Stack(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(Mlp() for _ in range(layers))
        self.register_buffer("shift", torch.ones(6, dtype=f64))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x + self.shift


def filled(module):
    """Give a module values that are the same on every rank."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=f64, generator=generator))
    return module


def batch(*shape):
    return torch.randn(shape or (4, 6), dtype=f64, generator=torch.Generator().manual_seed(1))


MLP_PLAN = {
    "parameter": {
        "up.weight": LAYOUT("tp", "None"),
        "up.bias": LAYOUT("tp"),
        "down.weight": LAYOUT("None", "tp"),
    },
    "forward": {"input": {"x": LAYOUT("dp", "None")}, "output": [LAYOUT("dp", "None")]},
}


def check_step(sharded, plain, *inputs, plan_inputs=None):
    """One step of both: outputs and all gradients agree."""
    out, want = sharded(*(plan_inputs or inputs)), plain(*inputs)
    assert type(out) is DTensor
    torch.testing.assert_close(out.full_tensor(), want)
    out.square().sum().backward()
    want.square().sum().backward()
    for (name, p), (_, q) in zip(sharded.named_parameters(), plain.named_parameters(), strict=True):
        assert p.grad.layout == p.layout, name
        torch.testing.assert_close(p.grad.full_tensor(), q.grad)


# ---- Modules -------------------------------------------------------------------------------


@on_ranks(4)
def test_a_step_equals_one_device():
    model = shard_module(filled(Mlp()), MLP_PLAN)
    assert str(model.up.weight.layout) == "dp=2 tp=2: R S(0)"
    assert str(model.down.bias.layout) == "dp=2 tp=2: R R"
    assert isinstance(model.up.weight, nn.Parameter)
    check_step(model, filled(Mlp()), batch())
    assert str(model(batch()).layout) == "dp=2 tp=2: S(0) R"


@on_ranks(4)
def test_names_and_placements_serve_as_layouts():
    plan = {
        "parameter": {
            "up.weight": ("tp", "None"),
            "up.bias": ("tp",),
            "down.weight": (Replicate(), Shard(1)),
        },
        "forward": {"input": (("dp", "None"),), "output": (Shard(0), Replicate())},
    }
    model = shard_module(filled(Mlp()), plan, device_mesh=LAYOUT.device_mesh)
    check_step(model, filled(Mlp()), batch())
    mixed = dict(plan, parameter={"up.weight": ("tp", "None"), "up.bias": LAYOUT("tp")})
    check_step(hp.shard(filled(Mlp()), mixed), filled(Mlp()), batch())


@on_ranks(4)
def test_wildcards_and_paths_of_modules():
    plan = {
        "parameter": {
            "layers.*.up.weight": LAYOUT("tp", "None"),
            "layers.*.up.bias": LAYOUT("tp"),
            "**.down.weight": LAYOUT("None", "tp"),
            "layers.1.down.weight": WHOLE,
        },
        "forward": {
            "input": [LAYOUT("dp", "None")],
            "layers.*.output": LAYOUT("dp", "None"),
            "layers.0.down.input": {"input": LAYOUT("dp", "tp")},
        },
    }
    model = shard_module(filled(Stack()), plan)
    assert model.layers[0].down.weight.layout == LAYOUT("None", "tp")
    assert model.layers[1].down.weight.layout == WHOLE
    assert type(model.shift) is torch.Tensor
    check_step(model, filled(Stack()), batch())


@on_ranks(4)
def test_uneven_sizes():
    check_step(shard_module(filled(Mlp(5, 7)), MLP_PLAN), filled(Mlp(5, 7)), batch(3, 5))


@on_ranks(4)
def test_named_buffers_are_sharded():
    plan = {"parameter": {"shift": LAYOUT("tp")}, "forward": {"input": LAYOUT("dp", "None")}}
    model = shard_module(filled(Stack()), plan)
    assert type(model.shift) is DTensor and model.shift.layout == LAYOUT("tp")
    check_step(model, filled(Stack()), batch())


@on_ranks(4)
def test_dtensor_inputs_are_redistributed_and_others_left_alone():
    model = shard_module(filled(Mlp()), MLP_PLAN)
    given = hp.distribute_tensor(batch(), LAYOUT("None", "tp"))
    check_step(model, filled(Mlp()), batch(), plan_inputs=[given])
    scale = torch.tensor(2.0, dtype=f64)
    torch.testing.assert_close(model(batch(), scale).full_tensor(), filled(Mlp())(batch(), 2.0))
    torch.testing.assert_close(
        model(scale=3.0, x=batch()).full_tensor(), filled(Mlp())(batch(), 3.0)
    )


@on_ranks(4)
def test_plain_inputs_keep_their_gradient():
    model, plain = shard_module(filled(Mlp()), MLP_PLAN), filled(Mlp())
    x, y = batch().requires_grad_(), batch().requires_grad_()
    model(x).square().sum().backward()
    plain(y).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(6, 6, bias=False, dtype=f64)
        self.two = nn.Linear(6, 6, bias=False, dtype=f64)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.two(torch.tanh(self.one(x)))


@on_ranks(4)
def test_tied_parameters_stay_tied():
    plan = {"parameter": {"two.weight": LAYOUT("tp", "None")}, "forward": {}}
    model = shard_module(filled(Tied()), plan)
    assert model.one.weight is model.two.weight
    assert model.one.weight.layout == LAYOUT("tp", "None")
    assert len(list(model.parameters())) == 1
    check_step(model, filled(Tied()), batch())
    twice = {"parameter": {"one.weight": LAYOUT("tp", "None"), "two.weight": LAYOUT("None", "tp")}}
    text = refused(UsageError, "HP-P021", shard_module, filled(Tied()), twice)
    assert "one.weight = two.weight" in text


@on_ranks(4)
def test_attributes_and_flags_of_parameters_are_kept():
    model = filled(Mlp())
    model.up.weight.mark = "kept"
    model.up.bias.requires_grad_(False)
    model.down.weight.grad = torch.ones_like(model.down.weight)
    shard_module(model, MLP_PLAN)
    assert model.up.weight.mark == "kept" and not model.up.bias.requires_grad
    assert model.down.weight.grad.layout == LAYOUT("None", "tp")


@on_ranks(4)
def test_ranks_may_start_from_the_values_of_one():
    model = filled(Mlp())
    with torch.no_grad():
        model.up.weight.mul_(hp.rank())
    shard_module(model, MLP_PLAN, src_data_rank=1)
    assert torch.equal(model.up.weight.detach().full_tensor(), filled(Mlp()).up.weight)


@on_ranks(4)
def test_a_sharded_model_is_sharded_again():
    model = shard_module(filled(Mlp()), MLP_PLAN)
    again = {"parameter": {"up.weight": LAYOUT("None", "tp")}}
    shard_module(model, again)
    assert model.up.weight.layout == LAYOUT("None", "tp")
    assert model.down.weight.layout == LAYOUT("None", "tp")
    check_step(model, filled(Mlp()), batch())
    elsewhere = Layout((4,), ("all",))
    plan = {"parameter": {"up.weight": elsewhere("all", "None")}}
    assert "another mesh" in refused(UsageError, "HP-P023", shard_module, model, plan)


@on_ranks(4)
def test_a_copy_of_a_sharded_model_trains():
    model = copy.deepcopy(shard_module(filled(Mlp()), MLP_PLAN))
    check_step(model, filled(Mlp()), batch())


@on_ranks(4)
def test_an_optimizer_and_state_dict_work():
    model, plain = shard_module(filled(Mlp()), MLP_PLAN), filled(Mlp())
    ours = torch.optim.AdamW(model.parameters(), lr=0.1)
    theirs = torch.optim.AdamW(plain.parameters(), lr=0.1)
    for _ in range(2):
        for each, optimizer in ((model, ours), (plain, theirs)):
            optimizer.zero_grad()
            each(batch()).square().sum().backward()
            torch.nn.utils.clip_grad_norm_(each.parameters(), 1.0)
            optimizer.step()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value.full_tensor(), plain.state_dict()[name])


def test_world_size_one():
    layout = Layout((1, 1), ("dp", "tp"))
    plan = {
        "parameter": {"up.weight": layout("tp", "None"), "down.weight": layout("None", "tp")},
        "forward": {"input": {"x": layout("dp", "None")}, "output": {"out": layout("dp", "None")}},
    }
    model = filled(Mlp())
    assert shard_module(model, plan) is model
    check_step(model, filled(Mlp()), batch())


# ---- Results -------------------------------------------------------------------------------


@dataclass
class Result:
    value: torch.Tensor
    extra: torch.Tensor | None = None


Pair = namedtuple("Pair", "one two")


@on_ranks(4)
def test_results_of_all_shapes():
    from transformers.utils import ModelOutput

    @dataclass
    class Output(ModelOutput):
        loss: torch.Tensor = None
        logits: torch.Tensor = None

    split, rows = LAYOUT("dp", "None"), LAYOUT("None", "tp")

    def run(make, output):
        plan = {"forward": {"input": [WHOLE], "output": output}}
        return shard_module(make, plan)(batch())

    assert run(lambda x: x, split).layout == split
    assert run(lambda x: x, {"out": split}).layout == split
    assert [y.layout for y in run(lambda x: (x, x), (split, rows))] == [split, rows]
    assert [y.layout for y in run(lambda x: [x, x], {"a": split, "b": None})] == [split, WHOLE]
    assert run(lambda x: {"a": x, "b": 3}, {"a": rows})["a"].layout == rows
    assert run(lambda x: Pair(x, x), {"two": rows}).two.layout == rows
    assert run(lambda x: Pair(x, x), [split, rows]).one.layout == split
    assert run(lambda x: Result(x), {"value": rows, "extra": split}).value.layout == rows
    out = run(lambda x: Output(loss=x.sum(), logits=x), {"logits": split})
    assert out.logits.layout == split and out["logits"] is out.logits
    assert run(lambda x: (x, (x, 1)), (None, (rows, None)))[1][0].layout == rows
    assert run(lambda x: (x, None), (split, rows))[1] is None


@on_ranks(4)
def test_arguments_inside_lists():
    plan = {"forward": {"input": {"pair": (LAYOUT("dp", "None"), None)}}}
    made = shard_module(lambda pair: pair, plan)((batch(), batch()))
    assert made[0].layout == LAYOUT("dp", "None") and type(made[1]) is torch.Tensor


# ---- Functions -----------------------------------------------------------------------------


@on_ranks(4)
def test_functions_are_wrapped():
    def product(a, b):
        """Multiply."""
        return a @ b

    plan = {
        "forward": {
            "input": {"a": LAYOUT("dp", "tp"), "b": LAYOUT("tp", "None")},
            "output": LAYOUT("dp", "None"),
        }
    }
    sharded = shard_module(product, plan)
    assert sharded.__name__ == "product" and sharded.__doc__ == "Multiply."
    out = sharded(batch(), b=batch(6, 3))
    assert out.layout == LAYOUT("dp", "None")
    torch.testing.assert_close(out.full_tensor(), batch() @ batch(6, 3))
    refused(
        UsageError, "HP-P016", shard_module, product, {"parameter": {"a": LAYOUT()}, "forward": {}}
    )


# ---- Mistakes ------------------------------------------------------------------------------


def refuse(code, plan, model=None, **options):
    model = model or filled(Mlp())
    before = {name: p for name, p in model.named_parameters()}
    text = refused(UsageError, code, shard_module, model, plan, **options)
    assert all(before[name] is p for name, p in model.named_parameters()), "changed"
    assert not model._forward_pre_hooks and not model._forward_hooks
    return text


def test_mistakes_in_a_plan_change_nothing():
    up, ok = {"up.weight": LAYOUT("tp", "None")}, LAYOUT("dp", "None")
    assert "up.weight" in refuse("HP-P001", {"parameter": {"up.wieght": ok}})
    assert "down.input" in refuse("HP-P001", {"parameter": up, "forward": {"dwn.input": ok}})
    assert "output" in refuse("HP-P012", {"parameter": up, "forward": {"ouput": ok}})
    assert "parameter, forward" in refuse("HP-P011", {"params": up})
    refuse("HP-P010", [up])
    refuse("HP-P010", {"parameter": [ok]})
    assert "near" in refuse("HP-P007", {"parameter": up, "forward": {"input": {"xs": ok}}})
    refuse("HP-P006", {"parameter": up, "forward": {"input": [ok, None, None]}})
    refuse("HP-P003", {"parameter": up, "forward": {"output": {ok}}})
    assert "up.bias" in refuse("HP-L021", {"parameter": {"up.bias": ok}})
    assert "up.bias" in refuse("HP-L005", {"parameter": {"up.bias": LAYOUT(Shard(1), Replicate())}})
    other = Layout((4,), ("dp",))("dp", "None")
    text = refuse("HP-P013", {"parameter": up, "forward": {"input": [other]}})
    assert "dp=2 tp=2" in text and "dp=4" in text
    refuse("HP-P014", {"parameter": {"up.weight": ("tp", "None")}})
    equal = {"u?.bias": LAYOUT("tp"), "?p.bias": LAYOUT("tp")}
    refuse("HP-P002", {"parameter": equal})
    refuse("HP-L020", {"parameter": {"up.weight": LAYOUT}})
    refuse("HP-L028", {"parameter": {"up.weight": 3}}, device_mesh=LAYOUT)
    lazy = nn.Sequential(nn.LazyLinear(3))
    text = refused(UsageError, "HP-P022", shard_module, lazy, {"parameter": {"0.weight": ok}})
    assert "0.weight" in text or "0.bias" in text


@on_ranks(4)
def test_mistakes_at_a_call():
    plan = {"forward": {"input": {"scale": LAYOUT("dp")}, "output": LAYOUT("dp", "None")}}
    model = shard_module(filled(Mlp()), plan)
    assert "float" in refused(UsageError, "HP-P004", model, batch(), 2.0)
    pairs = {"forward": {"input": [WHOLE], "output": [WHOLE, WHOLE, WHOLE]}}
    refused(UsageError, "HP-P006", shard_module(lambda x: (x, x), pairs), batch())
    refused(UsageError, "HP-P006", shard_module(lambda x: x, pairs), batch())
    named = {"forward": {"input": [WHOLE], "output": {"b": WHOLE}}}
    assert "names  a" in refused(
        UsageError, "HP-P005", shard_module(lambda x: {"a": x}, named), batch()
    )


def test_a_mesh_larger_than_the_world():
    text = refused(UsageError, "HP-M020", shard_module, filled(Mlp()), MLP_PLAN)
    assert "dp=2 tp=2" in text


# ---- The other form of plans, and parts without dispatch ---------------------------------------


def test_a_sharding_plan_is_the_same_as_a_dict():
    def run():
        mesh = hp.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, 6)).double()
        x = torch.randn(4, 6).double()
        expected = model(x)
        plan = hp.ShardingPlan(
            plan={"0.weight": (hp.Shard(0),), "0.bias": (hp.Shard(0),), "1.weight": (hp.Shard(1),)},
            input_plan={"input": (hp.Replicate(),)},
            output_plan={"output": (hp.Replicate(),)},
            return_local_tensor=[""],
        )
        assert hp.shard_module(model, mesh, plan) is model
        got = model(x)
        assert not isinstance(got, hp.DTensor)
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
        got.sum().backward()
        assert model[0].weight.grad.placements == (hp.Shard(0),)

    hp.run_local(run, 2)


def test_misuse_of_a_sharding_plan():
    def run():
        mesh = hp.init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
        model = torch.nn.Linear(2, 2)
        for plan, text in (
            (hp.ShardingPlan(input_plan={"output": (hp.Shard(0),)}), "does not end with input"),
            (hp.ShardingPlan(output_plan=[(hp.Shard(0),)]), "output_plan is a dict by name"),
            (hp.ShardingPlan(return_local_tensor=["nowhere"]), "nowhere"),
            ({"return_local_tensor": "weight"}, "is a list of names, not one"),
        ):
            with pytest.raises(hp.UsageError, match=text):
                hp.shard_module(model, mesh, plan)
        with pytest.raises(hp.UsageError, match="HP-P016"):
            hp.shard_module(lambda x: x, mesh, {"return_local_tensor": [""]})

    hp.run_local(run, 1)


def test_ops_on_parts_without_dispatch():
    def run():
        mesh = hp.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        x = torch.arange(6.0)
        d = hp.distribute_tensor(x, mesh, [hp.Shard(0)])
        with hp.SkipDTensorDispatch():
            with hp.SkipDTensorDispatch():
                assert d.sum().item() == d.to_local().sum().item()
            part = d * 2
            assert not isinstance(part, hp.DTensor) and part.shape == (3,)
            assert d.mul_(3) is d
            torch._foreach_add_([d], 1.0)
        assert isinstance(d * 2, hp.DTensor)
        torch.testing.assert_close(d.full_tensor(), 3 * x + 1)

        w = hp.distribute_tensor(torch.ones(4, 3), mesh, [hp.Shard(0)]).requires_grad_()
        optimizer = torch.optim.AdamW([w], lr=0.1)
        (w * 2).sum().backward()
        with hp.SkipDTensorDispatch():
            optimizer.step()
        one = torch.ones(4, 3, requires_grad=True)
        other = torch.optim.AdamW([one], lr=0.1)
        (one * 2).sum().backward()
        other.step()
        torch.testing.assert_close(w.full_tensor(), one.detach())

    hp.run_local(run, 2)
