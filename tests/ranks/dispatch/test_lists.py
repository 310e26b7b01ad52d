"""Ops on lists (foreach, fused, clipping, GradScaler, averages): every mix of kinds and meshes."""

import copy

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import hyper_parallel as hp
from hyper_parallel import Layout, Shard, distribute_tensor, init_device_mesh, run_local

WORLD = 4
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "Adam": {"lr": 0.05, "amsgrad": True},
    "AdamW": {"lr": 0.05},
    "Adamax": {"lr": 0.05},
    "NAdam": {"lr": 0.05},
    "RAdam": {"lr": 0.05},
    "Adagrad": {"lr": 0.1, "lr_decay": 0.1},
    "Adadelta": {},
    # eps: one gradient is almost 0, and its first steps are those of its rounding over eps.
    "RMSprop": {"lr": 0.01, "momentum": 0.9, "eps": 1e-3},
    "Rprop": {"lr": 0.01},
    "ASGD": {"lr": 0.05},
    "Adafactor": {"lr": 0.05},
}
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")
CASES = [
    (name, way)
    for name in OPTIMIZERS
    for way in ("foreach", "loop", "fused")
    if way != "fused" or name in FUSED
]


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 7), nn.GELU(), nn.Linear(7, 5), nn.LayerNorm(5)).double()


def values():
    return torch.randn(3, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def planned(model):
    """All parameters are DTensors of one mesh, cut unevenly."""
    layout = Layout((WORLD,), ("tp",))
    weights = {"0.weight": layout("tp", "None"), "2.weight": layout("None", "tp")}
    return hp.shard_module(model, {"parameter": weights})


def styled(model):
    """The norm's weights stay plain, as with torch's styles."""
    mesh = init_device_mesh("cpu", (WORLD,), mesh_dim_names=("tp",))
    styles = {"0": hp.ColwiseParallel(), "2": hp.RowwiseParallel()}
    return hp.parallelize_module(model, mesh, styles)


def on_two_meshes(model):
    """One layer on a mesh of four, one on two by two, the norm plain; activations are plain."""
    one = init_device_mesh("cpu", (WORLD,), mesh_dim_names=("tp",))
    two = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    for layer, mesh, cut in ((0, one, [Shard(0)]), (2, two, [Shard(1), Shard(0)])):
        for name, parameter in list(model[layer].named_parameters()):
            places = cut if parameter.dim() == 2 else [Shard(0)] * mesh.ndim
            value = distribute_tensor(parameter.detach(), mesh, places)
            setattr(model[layer], name, nn.Parameter(value))
        model[layer].register_forward_hook(lambda m, args, out: out.full_tensor())
    return model


ARRANGEMENTS = {"plan": planned, "styles": styled, "two meshes": on_two_meshes, "one": lambda m: m}


def whole(tensor):
    return tensor.detach().full_tensor() if isinstance(tensor, hp.DTensor) else tensor.detach()


def loss_of(model):
    out = model(values()).square().mean()
    return out.full_tensor() if isinstance(out, hp.DTensor) else out


def train(arrangement, step, steps=3):
    model = ARRANGEMENTS[arrangement](net())
    state = None
    for _ in range(steps):
        state = step(model, state)
    return [whole(p) for p in model.parameters()]


def compare(arrangement, step):
    want = train("one", step)
    for rank, got in enumerate(run_local(lambda: train(arrangement, step), WORLD)):
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, **CLOSE, msg=lambda m, r=rank: f"rank {r}: {m}")


def stepping(name, way, clip):
    options = dict(OPTIMIZERS[name])
    options.update(
        {"foreach": {"foreach": True}, "loop": {"foreach": False}}.get(way, {"fused": True})
    )

    def step(model, optimizer):
        optimizer = optimizer or getattr(torch.optim, name)(model.parameters(), **options)
        optimizer.zero_grad()
        loss_of(model).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), 0.01, foreach=clip)
        optimizer.step()
        return optimizer

    return step


@pytest.mark.parametrize("arrangement", ["plan", "styles", "two meshes"])
@pytest.mark.parametrize("name, way", CASES, ids=[f"{n} {w}" for n, w in CASES])
def test_optimizer(name, way, arrangement):
    compare(arrangement, stepping(name, way, None))


@pytest.mark.parametrize("arrangement", ["plan", "styles", "two meshes"])
@pytest.mark.parametrize("foreach", [True, False], ids=["foreach", "loop"])
def test_clipping(foreach, arrangement):
    compare(arrangement, stepping("AdamW", "foreach", foreach))


@pytest.mark.parametrize("arrangement", ["plan", "styles", "two meshes"])
def test_clipping_by_value(arrangement):
    def step(model, optimizer):
        optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        loss_of(model).backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.01)
        optimizer.step()
        return optimizer

    compare(arrangement, step)


@pytest.mark.parametrize("arrangement", ["plan", "styles", "two meshes"])
@pytest.mark.parametrize("spoiled", [False, True], ids=["finite", "one infinity"])
def test_grad_scaler(arrangement, spoiled):
    """An infinity in one element of one rank's part skips the step on all, as on one device."""

    def step(model, state):
        if state is None:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            state = optimizer, torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1), [0]
        optimizer, scaler, count = state
        optimizer.zero_grad()
        loss = loss_of(model)
        if spoiled and count[0] == 1:
            last = model[0].weight[-1, -1]
            last = last.full_tensor() if isinstance(last, hp.DTensor) else last
            loss = loss + last * float("inf")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        count[0] += 1
        assert scaler.get_scale() == {1: 16, 2: 8 if spoiled else 32}.get(
            count[0], scaler.get_scale()
        )
        return state

    compare(arrangement, step)


@pytest.mark.parametrize("arrangement", ["plan", "styles", "two meshes"])
def test_average_of_models(arrangement):
    def step(model, state):
        if state is None:
            average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
            state = torch.optim.SGD(model.parameters(), lr=0.1), average
        optimizer, average = state
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
        average.update_parameters(model)
        with torch.no_grad():  # train on from the average: its values are compared too
            for p, q in zip(model.parameters(), average.module.parameters(), strict=True):
                p.copy_(q)
        return state

    compare(arrangement, step)


def test_results_of_groups_keep_their_order():
    def work():
        one = init_device_mesh("cpu", (WORLD,), mesh_dim_names=("a",))
        two = init_device_mesh("cpu", (2, 2), mesh_dim_names=("b", "c"))
        x = [torch.full((5,), float(i)).double() for i in range(6)]
        mixed = copy.copy(x)
        mixed[1] = distribute_tensor(x[1], one, [Shard(0)])
        mixed[2] = distribute_tensor(x[2], two, [Shard(0), Shard(0)])
        mixed[4] = distribute_tensor(x[4], one, [Shard(0)])
        out = torch._foreach_mul(mixed, [2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
        kinds = [t.device_mesh if isinstance(t, hp.DTensor) else None for t in out]
        norms = [whole(t).item() for t in torch._foreach_norm(mixed)]
        torch._foreach_add_(mixed, torch.tensor(1.0, dtype=torch.float64))
        return [whole(t).tolist() for t in out], kinds, norms, [whole(t).tolist() for t in mixed]

    for out, kinds, norms, added in run_local(work, WORLD):
        assert out == [[float(i * (i + 2))] * 5 for i in range(6)]
        assert [k is None for k in kinds] == [True, False, False, True, False, True]
        assert kinds[1] == kinds[4] != kinds[2]
        assert norms == pytest.approx([i * 5**0.5 for i in range(6)], rel=1e-14)
        assert added == [[i + 1.0] * 5 for i in range(6)]


def test_a_split_tensor_of_another_mesh_is_refused():
    def work():
        one = init_device_mesh("cpu", (WORLD,), mesh_dim_names=("a",))
        two = init_device_mesh("cpu", (2, 2), mesh_dim_names=("b", "c"))
        x = distribute_tensor(torch.ones(4), one, [Shard(0)])
        y = distribute_tensor(torch.ones(4), two, [Shard(0), Shard(0)])
        with pytest.raises(hp.UsageError, match="HP-D002"):
            x + y
        return (x * y.sum()).full_tensor().tolist()  # a number of another mesh counts by its value

    assert run_local(work, WORLD) == [[4.0] * 4] * WORLD


def test_unscaling_a_pending_gradient_is_refused():
    def work():
        model = planned(net())
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with hp.no_grad_sync():
            scaler.scale(loss_of(model)).backward()
        with pytest.raises(hp.UnsupportedError, match="HP-D033"):
            scaler.unscale_(optimizer)

    run_local(work, WORLD)
