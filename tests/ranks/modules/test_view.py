"""The view that sharding has of a model: names, ties, replacing, hooks."""

import pytest
import torch
from torch import nn

import hyper_parallel as hp
from hyper_parallel import Replicate, Shard, UsageError, run_local
from hyper_parallel.modules.view import ModuleView, lay_out, viewing


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.head = nn.Linear(4, 6)
        self.head.weight = self.embed.weight
        self.again = self.head
        self.register_buffer("scale", torch.ones(4))


def test_each_tensor_once_with_all_its_names():
    model = Tied()
    view = ModuleView(model)
    assert [(names, buffer) for names, _, buffer in view.held()] == [
        (["embed.weight", "head.weight", "again.weight"], False),
        (["head.bias", "again.bias"], False),
        (["scale"], True),
    ]
    assert list(view.modules) == ["", "embed", "head", "again"]


def test_replacing_reaches_all_places_and_keeps_what_a_parameter_is():
    model = Tied()
    old = model.embed.weight
    old.requires_grad_(False)
    old.mark = "kept"
    view = ModuleView(model)
    view.replace(old, torch.zeros(6, 4))
    new = model.embed.weight
    assert model.head.weight is new and isinstance(new, nn.Parameter)
    assert (new.mark, new.requires_grad) == ("kept", False)
    view.replace(model.scale, torch.zeros(4))
    assert model.scale.sum() == 0 and "scale" in model._buffers
    assert view.holds(new) and not view.holds(old)


def test_hooks_stand_before_and_after_a_module():
    model = Tied()
    view = ModuleView(model)
    view.before(model.head, lambda module, args, kwargs: ((args[0] * 2,), kwargs))
    view.after(model.head, lambda module, args, result: result + 1)
    x = torch.ones(2, 4)
    expected = nn.functional.linear(x * 2, model.head.weight, model.head.bias) + 1
    torch.testing.assert_close(model.head(x), expected)


def test_a_parameter_without_a_shape_is_refused():
    with pytest.raises(UsageError, match=r"\[HP-P022\].*\"weight\" has no shape yet"):
        ModuleView(nn.LazyLinear(3)).held()


@pytest.mark.parametrize("whole_model", [True, False])
def test_laying_out_one_parameter_moves_its_gradient_and_its_ties(whole_model):
    def on_rank():
        torch.manual_seed(3)
        model = Tied()
        model.head(torch.ones(2, 4)).sum().backward()
        before = model.head.weight.grad.clone()
        mesh = hp.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        if whole_model:
            with viewing(model):
                lay_out(model.head, "weight", mesh, [Shard(0)], 0)
                lay_out(model.head, "bias", mesh, [Replicate()], 0)
            assert model.embed.weight is model.head.weight
        else:  # nobody said what else holds it
            lay_out(model.head, "weight", mesh, [Shard(0)], 0)
            assert not isinstance(model.embed.weight, hp.DTensor)
        grad = model.head.weight.grad
        assert list(grad.placements) == [Shard(0)]
        assert torch.equal(grad.full_tensor(), before)

    run_local(on_rank, 2)
