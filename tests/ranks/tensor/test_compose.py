"""Sharded modules under what torch users put around them: checkpoint, hooks, AMP, optimizers."""

import copy

import pytest
import torch
from ranks_support import on_ranks
from torch import nn
from torch.utils.checkpoint import checkpoint

import hyper_parallel as hp

f64 = torch.float64
LAYOUT = hp.Layout((2, 2), ("dp", "tp"))
PLAN = {
    "parameter": {
        "up.weight": LAYOUT("tp", "None"),
        "up.bias": LAYOUT("tp"),
        "down.weight": LAYOUT("None", "tp"),
    },
    "forward": {"input": {"x": LAYOUT("dp", "None")}, "output": [LAYOUT("dp", "None")]},
}


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(6, 10, dtype=f64)
        self.down = nn.Linear(10, 6, dtype=f64)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def filled(module):
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=f64, generator=generator))
    return module


def batch():
    return torch.randn(4, 6, dtype=f64, generator=torch.Generator().manual_seed(1))


def loss(model):
    return model(batch()).square().sum()


def same_on_one_device(train):
    """Check that ``train(model)`` leaves the same parameters and gradients as on one device."""

    @on_ranks(4)
    def run():
        sharded, plain = hp.shard_module(filled(Mlp()), PLAN), filled(Mlp())
        train(sharded)
        train(plain)
        for (name, p), q in zip(sharded.named_parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(p.detach().full_tensor(), q.detach(), msg=name)
            assert p.grad.layout.placements == p.placements or p.grad.layout.has_partial
            torch.testing.assert_close(p.grad.full_tensor(), q.grad, msg=name)

    run()


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(reentrant):
    def train(model):
        x = batch().requires_grad_(reentrant)
        checkpoint(model, x, use_reentrant=reentrant).square().sum().backward()

    same_on_one_device(train)


def test_full_backward_hooks():
    def train(model):
        seen = []
        model.down.register_full_backward_hook(lambda _, inputs, outputs: seen.append(outputs))
        model.down.register_full_backward_pre_hook(lambda _, outputs: (outputs[0] * 2,))
        model(batch().requires_grad_()).square().sum().backward()
        assert len(seen) == 1

    same_on_one_device(train)


def test_hooks_after_accumulation():
    def train(model):
        seen = []
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(seen.append)
        loss(model).backward()
        assert len(seen) == 4

    same_on_one_device(train)


def test_gradients_of_gradients_of_parameters():
    def train(model):
        slopes = torch.autograd.grad(loss(model), list(model.parameters()), create_graph=True)
        sum((slope * slope).sum() for slope in slopes).backward()

    same_on_one_device(train)


def test_gradients_add_up_and_are_zeroed():
    def train(model):
        for _ in range(3):
            loss(model).backward()
        model.zero_grad(set_to_none=False)
        loss(model).backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)

    same_on_one_device(train)


@pytest.mark.parametrize("assign", [False, True])
def test_state_dicts_load(assign):
    def train(model):
        state = copy.deepcopy(model.state_dict())
        with torch.no_grad():
            model.up.weight.zero_()
        model.load_state_dict(state, assign=assign)
        loss(model).backward()

    same_on_one_device(train)


def test_element_types_change():
    def train(model):
        model.float().double()
        loss(model).backward()

    same_on_one_device(train)


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"foreach": False}, {"fused": True}])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_optimizers(kind, options):
    def train(model):
        optimizer = kind(model.parameters(), lr=0.1, **options)
        for _ in range(2):
            optimizer.zero_grad()
            loss(model).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        optimizer.step()

    same_on_one_device(train)


@on_ranks(4)
def test_autocast():
    sharded, plain = hp.shard_module(filled(Mlp()).float(), PLAN), filled(Mlp()).float()
    for model in (sharded, plain):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(batch().float())
        assert out.dtype == torch.bfloat16
        out.float().square().sum().backward()
    for p, q in zip(sharded.parameters(), plain.parameters(), strict=True):
        scale = q.grad.abs().max()  # bfloat16 has 8 bits; sums are taken in another order
        assert (p.grad.full_tensor() - q.grad).abs().max() < 0.03 * scale
