"""What ranks communicate does not depend on what one of them keeps alive, nor on timing."""

import gc
import random
import time

import pytest
import torch
import torch.nn.functional as F

import hyper_parallel as hp

LAYOUT = "a=2: S(0)"


def place(values, text=LAYOUT, grad=True):
    out = hp.distribute_tensor(values, hp.Layout.parse(text), src_data_rank=None)
    return out.requires_grad_(grad)


def plain(values, text=LAYOUT, grad=True):
    return values.clone().requires_grad_(grad)


class Nuisance:
    """Keeps some tensors alive, and disturbs the collector, the allocator and the clock."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.kept = []

    def __call__(self, *tensors):
        for t in tensors:
            if self.random.random() < 0.4:
                self.kept.append(t)
        if self.kept and self.random.random() < 0.3:
            self.kept.pop(self.random.randrange(len(self.kept)))
        chance = self.random.random()
        if chance < 0.1:
            gc.collect()
        elif chance < 0.2:
            self.kept.append(torch.empty(self.random.randrange(1, 4096)))
        elif chance < 0.3:
            time.sleep(self.random.random() * 1e-3)
        return tensors[0]


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


def train(place, keep):
    """An attention block and a perceptron with tokens split over ranks, and their inference."""
    generator = torch.Generator().manual_seed(0)

    def new(*sizes):
        return torch.randn(*sizes, generator=generator, dtype=torch.float64) * 0.3

    weights = {
        "q": place(new(8, 8)),
        "k": place(new(8, 8)),
        "v": place(new(8, 8)),
        "up": place(new(16, 8)),
        "down": place(new(8, 16)),
        "shared": place(new(6, 8)),
    }
    x0 = new(6, 8)

    def forward():
        x = place(x0, LAYOUT, False) + weights["shared"]
        keep(x)
        q = keep(F.linear(x, weights["q"]))
        k = keep(F.linear(x, weights["k"]))
        v = keep(F.linear(x, weights["v"]), k)
        scores = keep(torch.softmax(q @ k.t(), -1))
        x = keep(x + scores @ v, q)
        h = keep(Square.apply(F.linear(x, weights["up"])))
        x = keep(x + F.linear(h, weights["down"]) + F.linear(h * 2, weights["down"]), h)
        return keep((x.roll(1, 0) * x.cumsum(0)).mean() + x.cumprod(0).mean())

    losses = []
    for _ in range(3):
        loss = forward()
        loss.backward()
        losses.append(float(loss.detach()))
        with torch.no_grad():
            for w in weights.values():
                keep(w.grad)
                w -= 0.1 * w.grad
                w.grad = None
        del loss
    with torch.inference_mode():
        losses.append(float(forward().detach()))
    with torch.no_grad():
        losses.append(float(forward().detach()))
    return losses


def on_rank(seed, quiet):
    torch.manual_seed(0)
    keep = Nuisance(seed * 7 + hp.rank()) if not quiet else lambda *t: t[0]
    with hp.comm_report() as report:
        losses = train(place, keep)
    return losses, [(r.kind, r.phase, r.op, r.source, r.target, r.tensor) for r in report.rows]


def test_ranks_that_keep_different_tensors_communicate_the_same():
    one = train(plain, lambda *t: t[0])
    (quiet, rows), _ = hp.run_local(on_rank, 2, 0, True)
    assert torch.allclose(torch.tensor(quiet), torch.tensor(one), rtol=1e-9)
    assert len(rows) > 60
    for seed in range(8):
        for losses, seen in hp.run_local(on_rank, 2, seed, False):
            assert losses == quiet
            assert seen == rows


def test_a_kept_result_gives_no_other_values():
    generator = torch.Generator().manual_seed(0)
    u0, v0 = (torch.randn(8, 8, generator=generator, dtype=torch.float64) for _ in range(2))

    def program():
        u, v = place(u0), place(v0)
        kept = []
        for step in range(2):
            a, b = u @ u, v @ v
            if step == 0:
                kept.append(a if hp.rank() == 0 else b)
        return a.sum().item(), b.sum().item()

    want = torch.tensor([(u0 @ u0).sum(), (v0 @ v0).sum()])
    for got in hp.run_local(program, 2):
        assert torch.allclose(torch.tensor(got, dtype=torch.float64), want)


def count(program, world=2):
    def counted():
        with hp.comm_report() as report:
            program()
        return report.count(kind="all_gather")

    counts = hp.run_local(counted, world)
    assert len(set(counts)) == 1
    return counts[0]


@pytest.mark.parametrize("grad", [True, False])
def test_uses_of_one_tensor_share_its_gather(grad):
    def program():
        x = place(torch.ones(4, 4), grad=grad) * 2
        w = torch.ones(4, 4)
        return F.linear(w, x), F.linear(w + 1, x), F.linear(w + 2, x)

    assert count(program) == count(lambda: F.linear(torch.ones(4, 4), place(torch.ones(4, 4)) * 2))


def test_a_write_between_two_uses_is_seen():
    def program():
        x = place(torch.ones(4, 4), grad=False)
        first = x.cumprod(0).full_tensor()
        x.add_(1)
        second = x.cumprod(0).full_tensor()
        x[:, 1:3].mul_(2)
        return [float(t.sum()) for t in (first, second, x.cumprod(0).full_tensor())]

    x = torch.ones(4, 4)
    want = [float(x.cumprod(0).sum())]
    x.add_(1)
    want.append(float(x.cumprod(0).sum()))
    x[:, 1:3].mul_(2)
    want.append(float(x.cumprod(0).sum()))
    assert hp.run_local(program, 2) == [want, want]


def test_moves_are_kept_for_a_while_only():
    def program(between):
        x = place(torch.ones(4, 4), grad=False)
        others = [place(torch.ones(4, 4), grad=False) for _ in range(between)]
        x.cumprod(0)
        for other in others:
            other.cumprod(0)
        x.cumprod(0)

    assert count(lambda: program(7)) == 8
    assert count(lambda: program(8)) == 10


def test_an_inference_tensor_moves():
    def program():
        with torch.inference_mode():
            x = place(torch.arange(8.0).view(4, 2), grad=False)
            before = (x @ x.t()).full_tensor()
            x.mul_(2)
            return float(before.sum()), float((x @ x.t()).full_tensor().sum())

    x = torch.arange(8.0).view(4, 2)
    want = float((x @ x.t()).sum()), float((4 * x @ x.t()).sum())
    assert hp.run_local(program, 2) == [want, want]
