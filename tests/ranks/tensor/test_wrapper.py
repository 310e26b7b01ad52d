"""What must hold of the wrapper: each line of the contract that whole models showed to matter."""

import copy
import io
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import hyper_parallel as hp
from hyper_parallel import Partial, Replicate, Shard

F64 = torch.float64


def on_ranks(fn, world=2):
    """Run on `world` ranks; assertions inside count."""
    return hp.run_local(fn, world)


def mesh(*sizes):
    names = ("x", "y", "z")[: len(sizes)]
    return hp.init_device_mesh("cpu", sizes, mesh_dim_names=names)


def make(shape, placements, *, on=None, grad=False, seed=0):
    """A plain tensor and the same one distributed; both leaves if `grad`."""
    plain = torch.randn(shape, dtype=F64, generator=torch.Generator().manual_seed(seed))
    ours = hp.distribute_tensor(plain.clone(), on or mesh(2), placements)
    if grad:
        return plain.requires_grad_(), ours.requires_grad_()
    return plain, ours


def same(ours, plain, bound=1e-12):
    if isinstance(ours, hp.DTensor):
        ours = ours.full_tensor()
    torch.testing.assert_close(ours, plain, rtol=bound, atol=bound)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        assert isinstance(grad, hp.DTensor) == isinstance(x, hp.DTensor)
        return grad * 2 * x


@pytest.mark.parametrize("placement", [Replicate(), Shard(0), Shard(1)])
def test_outputs_of_a_python_function_are_bridged(placement):
    def fn():
        x, ours = make((5, 3), [placement], grad=True)
        Double.apply(x.tanh()).sum().backward()
        Double.apply(ours.tanh()).sum().backward()
        same(ours.grad, x.grad)
        assert ours.grad.layout == ours.layout

    on_ranks(fn)


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing(reentrant):
    def fn():
        x, ours = make((5, 3), [Shard(0)], grad=True)
        w, ours_w = make((3, 4), [Replicate()], grad=True, seed=1)

        def block(a, b):
            return torch.tanh(a @ b)

        checkpoint(block, x, w, use_reentrant=reentrant).sum().backward()
        checkpoint(block, ours, ours_w, use_reentrant=reentrant).sum().backward()
        same(ours.grad, x.grad)
        same(ours_w.grad, w.grad)

    on_ranks(fn)


def test_hooks_and_retained_grads_show_dtensors():
    def fn():
        x, ours = make((5, 3), [Shard(0)], grad=True)
        seen = {}

        def keep(key):
            def hook(grad):
                seen[key] = grad

            return hook

        for key, leaf in (("plain", x), ("ours", ours)):
            y = leaf.tanh()
            y.retain_grad()
            z = y * 3
            z.register_hook(keep(key))
            leaf.register_hook(keep(key + " leaf"))
            z.sum().backward()
            seen[key + " kept"] = y.grad
        for key in ("ours", "ours leaf", "ours kept"):
            assert isinstance(seen[key], hp.DTensor), key
            same(seen[key], seen[key.replace("ours", "plain")])

    on_ranks(fn)


def test_hook_may_change_the_gradient():
    def fn():
        x, ours = make((5, 3), [Shard(0)], grad=True)
        for leaf in (x, ours):
            y = leaf.tanh()
            y.register_hook(lambda g: g * 2)
            (y * 3).sum().backward()
        same(ours.grad, x.grad)

    on_ranks(fn)


def test_grad_to_an_intermediate():
    def fn():
        x, ours = make((5, 3), [Shard(0)], grad=True)
        y, z = x.tanh(), ours.tanh()
        (want,) = torch.autograd.grad((y * y).sum(), y)
        (got,) = torch.autograd.grad((z * z).sum(), z)
        same(got, want)

    on_ranks(fn)


def test_second_derivative():
    def fn():
        x, ours = make((5, 3), [Shard(0)], grad=True)
        w, ours_w = make((3, 4), [Replicate()], grad=True, seed=1)
        results = []
        for a, b in ((x, w), (ours, ours_w)):
            (g,) = torch.autograd.grad(torch.tanh(a @ b).pow(2).sum(), b, create_graph=True)
            g.pow(2).sum().backward()
            results.append((a.grad, b.grad))
        for want, got in zip(*results, strict=True):
            same(got, want)

    on_ranks(fn)


def test_in_place_keeps_the_layout_and_reaches_views():
    def fn():
        x, ours = make((6, 4), [Shard(0)])
        y, other = make((6, 4), [Replicate()], seed=1)
        x.add_(y)
        ours.add_(other)
        assert ours.placements == (Shard(0),)
        same(ours, x)
        x[:, 1:3].mul_(2)
        ours[:, 1:3].mul_(2)
        same(ours, x)
        x.t_()
        ours.t_()
        assert ours.placements == (Shard(1),)
        assert ours.shape == x.shape
        same(ours, x)

    on_ranks(fn)


def test_in_place_gradients():
    def fn():
        x, ours = make((6, 4), [Shard(0)], grad=True)
        for leaf in (x, ours):
            y = leaf * 2
            y.mul_(leaf)
            y[:, 1].add_(1)
            (y * y).sum().backward()
        same(ours.grad, x.grad)

    on_ranks(fn)


def test_write_through_a_view_makes_an_old_bridge_stale():
    def fn():
        _, ours = make((6, 4), [Shard(0)], grad=True)
        y = ours * 2
        view = y[:, 1]
        view.mul_(3)
        with pytest.raises(hp.UsageError, match="written through a view") as caught:
            y.backward(torch.ones_like(y))
        assert caught.value.code == "HP-G002"

    on_ranks(fn)


def test_data_to_and_set_data():
    def fn():
        x, ours = make((5, 3), [Shard(0)])
        parameter = torch.nn.Parameter(ours)
        assert isinstance(parameter.data, hp.DTensor)
        parameter.data = parameter.data * 2
        same(parameter.detach(), x * 2)
        with pytest.raises((ValueError, RuntimeError)):
            parameter.data = torch.zeros(5, 3)
        plain = torch.zeros(5, 3)
        with pytest.raises((ValueError, RuntimeError)):
            plain.data = ours
        layer = torch.nn.Linear(3, 2)
        layer.weight = torch.nn.Parameter(
            hp.distribute_tensor(layer.weight.detach(), mesh(2), [Shard(0)])
        )
        layer.double()
        assert layer.weight.dtype == F64 and isinstance(layer.weight, hp.DTensor)
        layer.half()
        assert layer.weight.dtype == torch.float16

    on_ranks(fn)


def test_host_reads_see_the_reduced_value():
    def fn():
        x, ours = make((5, 3), [Shard(0)])
        assert ours.sum().item() == pytest.approx(x.sum().item(), abs=1e-12)
        assert bool((ours.sum() > 0).item()) == bool(x.sum() > 0)
        assert bool((ours == ours).all())
        assert ours.tolist() == x.tolist()
        assert len(ours) == 5
        assert float(ours.max()) == float(x.max())
        assert [r.tolist() for r in ours] == [r.tolist() for r in x]
        mask = ours > 0
        assert bool(mask.sum() == int((x > 0).sum()))
        assert "Shard(dim=0)" in repr(ours) or "S(0)" in repr(ours)

    on_ranks(fn)


def test_copies_and_files():
    def fn():
        x, ours = make((5, 3), [Shard(0)], grad=True)
        twin = copy.deepcopy(ours)
        assert isinstance(twin, hp.DTensor) and twin.requires_grad
        same(twin.detach(), x.detach())
        again = pickle.loads(pickle.dumps(ours.detach()))
        same(again, x.detach())
        file = io.BytesIO()
        torch.save(ours.detach(), file)
        file.seek(0)
        same(torch.load(file, weights_only=False), x.detach())

    on_ranks(fn)


def test_plain_operands_mix_in():
    def fn():
        x, ours = make((6, 4), [Shard(0)], grad=True)
        scale = torch.randn(4, dtype=F64, generator=torch.Generator().manual_seed(5))
        plain_scale, our_scale = scale.clone().requires_grad_(), scale.clone().requires_grad_()
        keep = torch.arange(6).unsqueeze(1) > 2
        for leaf, s in ((x, plain_scale), (ours, our_scale)):
            y = torch.where(keep, leaf * s, torch.zeros((), dtype=F64))
            y = torch.cat([torch.empty(0, 4, dtype=F64), y])
            y.pow(2).sum().backward()
        same(ours.grad, x.grad)
        same(our_scale.grad, plain_scale.grad)  # summed over the ranks, on each

    on_ranks(fn)


def test_writing_into_a_plain_tensor():
    def fn():
        x, ours = make((6, 4), [Shard(0)], grad=True)
        index = torch.tensor([[0], [1], [1], [0], [2], [2]]).expand(6, 4)
        for leaf in (x, ours):
            target = torch.zeros(3, 4, dtype=F64)
            out = target.scatter_add_(0, index, leaf * 2)
            assert type(out) is torch.Tensor
            out.pow(2).sum().backward()
        same(ours.grad, x.grad)

    on_ranks(fn)


def test_out_arguments():
    def fn():
        x, ours = make((6, 4), [Shard(0)])
        out = torch.zeros_like(ours)
        torch.add(ours, ours, out=out)
        same(out, x + x)
        other = hp.distribute_tensor(torch.zeros(6, 4, dtype=F64), mesh(2), [Replicate()])
        torch.mul(ours, ours, out=other)
        assert other.placements == (Replicate(),)
        same(other, x * x)

    on_ranks(fn)


def test_factories_keep_the_layout():
    def fn():
        _, ours = make((6, 4), [Shard(0)])
        for made in (torch.zeros_like(ours), torch.ones_like(ours), torch.full_like(ours, 3)):
            assert isinstance(made, hp.DTensor) and made.placements == (Shard(0),)
        assert ours.new_zeros(6, 4).shape == (6, 4)
        assert ours.new_ones(2, 2).shape == (2, 2)

    on_ranks(fn)


def test_inference_and_no_grad():
    def fn():
        x, ours = make((6, 4), [Shard(0)], grad=True)
        with torch.no_grad():
            assert not (ours * 2).requires_grad
            same(ours * 2, x * 2)
        with torch.inference_mode():
            same(F.linear(ours.detach(), ours.detach()), F.linear(x.detach(), x.detach()))

    on_ranks(fn)


def test_autocast_casts_the_local_op():
    def fn():
        x, ours = make((6, 4), [Shard(0)])
        x, ours = x.float(), ours.float()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            want, got = F.linear(x, x), F.linear(ours, ours)
        assert got.dtype == torch.bfloat16
        same(got, want, bound=1e-2)

    on_ranks(fn)


@pytest.mark.parametrize(
    "options", [{}, {"foreach": True}, {"fused": True}], ids=["single", "foreach", "fused"]
)
@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_optimizers_and_clipping(name, options):
    kinds = [[Shard(0)], [Shard(1)], [Replicate()]]

    def fn():
        pairs = [make((5, 3), p, grad=True, seed=i) for i, p in enumerate(kinds)]
        plain, ours = ([p[k] for p in pairs] for k in (0, 1))
        for parameters in (plain, ours):
            arguments = {"lr": 0.1, "weight_decay": 0.1, **options}
            if name == "SGD":
                arguments["momentum"] = 0.9
            optimizer = getattr(torch.optim, name)(parameters, **arguments)
            for _ in range(3):
                optimizer.zero_grad()
                sum((p * p).tanh().sum() for p in parameters).backward()
                torch.nn.utils.clip_grad_norm_(
                    parameters, 0.5, foreach=options.get("foreach", False)
                )
                optimizer.step()
        for want, got, placements in zip(plain, ours, kinds, strict=True):
            same(got.detach(), want.detach())
            assert list(got.placements) == placements

    on_ranks(fn)


def test_full_backward_hooks_of_modules():
    model = torch.nn.Linear(4, 3).double()

    def fn():
        x, ours = make((6, 4), [Shard(0)], grad=True)
        layer = copy.deepcopy(model)
        seen = []
        layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0], go[0])))
        layer(x).pow(2).sum().backward()
        layer(ours).pow(2).sum().backward()
        for want, got in zip(*seen, strict=True):
            assert isinstance(got, hp.DTensor)
            same(got, want)
        same(ours.grad, x.grad)

    on_ranks(fn)


def test_partial_values_are_reduced_where_an_op_is_not_linear():
    def fn():
        x, ours = make((6, 4), [Shard(0)])
        total, want = ours.sum(0), x.sum(0)
        assert total.placements == (Partial(),)
        same(total * 2, want * 2)
        same(total + 10, want + 10)
        same(total * total, want * want)
        same(total.abs(), want.abs())
        same(1 / total, 1 / want)
        same(total.max(), want.max())
        same(total.norm(), want.norm())
        same(total + total, want + want)
        assert (total + total).placements == (Partial(),)

    on_ranks(fn)


def test_wrappers_are_pickled_by_class_and_shown():
    def fn():
        _, ours = make((4, 2), [Shard(0)])
        assert type(ours) is hp.DTensor
        assert type(ours + 1) is hp.DTensor
        assert type(torch.nn.Parameter(ours)) is hp.DTensor
        assert isinstance(torch.nn.Parameter(ours), torch.nn.Parameter)

    on_ranks(fn)


def test_dynamo_is_refused_or_falls_back():
    def fn():
        _, ours = make((4, 2), [Shard(0)])
        with pytest.raises(Exception):  # noqa: B017  (the class is Dynamo's)
            torch.compile(lambda a: a * 2, backend="eager", fullgraph=True)(ours)

    on_ranks(fn)
