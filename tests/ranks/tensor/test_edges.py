"""Ops that change the wrapper itself, calls that bypass it, and values at the edge of a mean."""

import pytest
import torch
from torch import nn

import hyper_parallel as hp
from hyper_parallel import (
    Layout,
    Shard,
    UnsupportedError,
    distribute_tensor,
    init_device_mesh,
    run_local,
)

F = nn.functional
LINE = Layout((4,), ("tp",))


def whole(t):
    return t.detach().full_tensor() if isinstance(t, hp.DTensor) else t.detach()


def on_ranks(fn, world=4):
    """The results of ``fn(place)`` on ranks, and on one device, where ``place`` changes nothing."""

    def place(x, *cut):
        return distribute_tensor(x, Layout((world,), ("tp",))(*cut))

    return run_local(fn, world, place), fn(lambda x, *cut: x.clone())


@pytest.mark.parametrize("make", [lambda x: x.sum(), lambda x: x, lambda x: x.sum().detach()])
def test_a_raw_collective_is_refused(make):
    def work():
        mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
        x = make(distribute_tensor(torch.ones(4, 3), mesh, [Shard(0)]))
        name = hp._torch._group_name([0, 1, 2, 3])
        for call in (
            lambda: torch.ops._c10d_functional.all_reduce(x, "sum", name),
            lambda: torch.ops._c10d_functional.all_gather_into_tensor(x, 4, name),
        ):
            with pytest.raises(UnsupportedError, match="HP-D034"):
                call()
        return x.full_tensor().sum().item()

    assert run_local(work, 4) == [12.0] * 4


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("nested", [True, False])
def test_an_encoder_in_eval_with_a_padding_mask(grad, nested):
    """Without gradients torch makes a nested tensor of the padded one: refused by name."""
    mask = torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 1, 1]]).bool()
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(3)).double()

    def net():
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 4, 16, batch_first=True)
        return nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested).double().eval()

    def work():
        plan = {"parameter": {"layers.*.linear1.weight": LINE("tp", "None")}}
        model = hp.shard_module(net(), plan)
        with torch.set_grad_enabled(grad):
            if nested and not grad:
                with pytest.raises(UnsupportedError, match="HP-D035"):
                    model(x, src_key_padding_mask=mask)
                return None
            return whole(model(x, src_key_padding_mask=mask))

    want = net()(x, src_key_padding_mask=mask).detach()
    for got in run_local(work, 4):
        if got is not None:
            torch.testing.assert_close(got[~mask], want[~mask], rtol=1e-12, atol=1e-12)


def test_detach_in_place():
    def facts(place):
        x = place(torch.arange(12.0).view(4, 3).double(), "tp", "None").requires_grad_()
        y = x * 2
        y.detach_()
        out = [y.requires_grad, y.is_leaf, y.grad_fn is None]
        with pytest.raises(RuntimeError, match="does not require grad"):
            y.sum().backward()
        w = x * 3
        w.detach_()
        w.requires_grad_()
        (w * w).sum().backward()
        out += [float(whole(w.grad).sum()), x.grad is None]
        total = (x * 2).sum()
        total.detach_()
        with pytest.raises(RuntimeError, match="does not require grad"):
            total.backward()
        (x * y).sum().backward()
        return [*out, float(whole(x.grad).sum())]

    ranks, one = on_ranks(facts)
    assert one[:3] == [False, True, True]
    assert ranks == [one] * 4


def test_redistribute_gives_memory_of_its_own():
    def work():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
        layout = Layout((2, 2), ("a", "b"))
        out = []
        for sizes in ((1,), (4,), (0,)):
            x = distribute_tensor(torch.ones(sizes), mesh, [Shard(0), Shard(0)])
            y = x.redistribute(layout(("b", "a")))
            y.add_(1)
            out.append((x.full_tensor().sum().item(), y.full_tensor().sum().item()))
        return out

    assert run_local(work, 4) == [[(1.0, 2.0), (4.0, 8.0), (0.0, 0.0)]] * 4


@pytest.mark.parametrize("cut", [("tp", "None"), ("None", "tp"), ("None", "None")])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"weight": True}])
def test_a_mean_over_no_labels_has_no_gradient(cut, options):
    """One device gives a loss of nan (0 / 0) and gradients of zero."""
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(*s, generator=generator).double() for s in ((3, 6), (7, 6)))
    if "weight" in options:
        options = {"weight": torch.arange(1.0, 8).double()}

    def work(place):
        p = place(w, *cut).requires_grad_()
        out = []
        for labels in ([-100, -100, -100], [1, -100, 0]):
            loss = F.cross_entropy(F.linear(x, p), torch.tensor(labels), **options)
            loss.backward()
            out.append(whole(loss))
            out.append(whole(p.grad).clone())
        return out

    ranks, one = on_ranks(work)
    assert one[0].isnan() and not one[1].any()
    for got in ranks:
        for a, b in zip(got, one, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12, equal_nan=True)
