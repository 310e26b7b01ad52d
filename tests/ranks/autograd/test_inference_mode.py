"""``inference_mode`` works as ``no_grad`` does, and its tensors are torch's inference tensors."""

import copy

import pytest
import torch
import torch.nn.functional as F
from autograd_support import flat, wave
from ranks_support import on_ranks

import hyper_parallel as hp

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def error_of(call):
    try:
        call()
    except RuntimeError as error:
        return type(error).__name__ + ": " + str(error).splitlines()[0]
    return "no error"


# x [4, 3] and w [3, 4] are inference tensors, y [4, 3] is none, z [4, 3] requires grad.
@case
def ops_that_move(x, w, y, z):
    with torch.inference_mode():
        a = x @ w
        b = a.t().reshape(2, 8).clone() + 1
        joined = torch.cat([x, y])
        return [b, joined, F.softmax(a, 0), x.cumsum(0), a.sort(0)[0], (y * x).std(0), a.sum()]


@case
def moved_twice(x, w, y, z):
    with torch.inference_mode():
        first = (x @ w, x.t() @ x, x.sum(0) + w[:, 0])
        x.mul_(2)
        return [first, x @ w, x.t() @ x]


@case
def writes(x, w, y, z):
    with torch.inference_mode():
        x.add_(1)
        v = x[:, 1:3]
        v.mul_(2)
        x[0] = 5
        y.add_(x)
        x.t().sub_(1)
        x.div_(x.sum(1, keepdim=True).abs() + 1)
        c = torch.zeros_like(x)
        c[:, 1:2] = x[:, 0:1]
        torch._foreach_mul_([x, w], 2.0)
        return [x, y, v, c, w]


@case
def layers(x, w, y, z):
    with torch.inference_mode():
        norm = torch.nn.BatchNorm1d(3).double()
        first = norm(x)
        norm.eval()
        q = x.unsqueeze(0)
        return [first, norm(x), F.scaled_dot_product_attention(q, q, q), copy.deepcopy(x)]


@case
def numbers(x, w, y, z):
    with torch.inference_mode():
        torch.manual_seed(1)
        drawn = [F.dropout(x, 0.5), torch.randn_like(x), torch.bernoulli(x.sigmoid())]
        return [drawn, x.sum().item(), float(x[0, 1])]


@case
def used_outside(x, w, y, z):
    c = x.clone().requires_grad_()
    (c * c + z + x).sum().backward()
    return [x.t(), x[1:], x * 2, x @ w, F.softmax(x, 0), c.grad, z.grad]


@case
def refused_outside(x, w, y, z):
    return [error_of(lambda: x.add_(1)), error_of(lambda: z * x), error_of(x.requires_grad_)]


@case
def kinds(x, w, y, z):
    with torch.inference_mode():
        made = [x + y, y.t(), y * 1, x @ w, y.detach()]
        with torch.inference_mode(False):
            made.append(y * 2)
    return [each.is_inference() for each in [x, *made, y, x.t(), x * 2, x.detach()]]


@case
def views_are_written_outside(x, w, y, z):
    with torch.inference_mode():
        v = y.t()
    v.add_(1)
    return [y, v]


@case
def with_other_modes(x, w, y, z):
    with torch.inference_mode():
        with torch.inference_mode(False):
            (z * z).sum().backward()
        with torch.enable_grad():
            wants = (z * 2).requires_grad
    with torch.inference_mode():
        torch.optim.Adam([z], lr=0.1).step()
    (z * z).sum().backward()
    return [z, z.grad, wants]


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize(
    ("world", "rows", "columns"),
    [(2, "a=2: S(0)", "a=2: S(1)"), (3, "a=3: S(0)", "a=3: R"), (2, "a=2: R", "a=2: S(0)")],
)
def test_equal_to_one_device(name, world, rows, columns):
    def run(place):
        with torch.inference_mode():
            x, w = place(wave(4, 3), rows), place(wave(3, 4, start=1), columns)
        y, z = place(wave(4, 3, start=2), rows), place(wave(4, 3, start=3), rows)
        return flat(CASES[name](x, w, y, z.requires_grad_()))

    def cut(value, text):
        return hp.distribute_tensor(value, hp.Layout.parse(text), src_data_rank=None)

    want = run(lambda value, text: value.clone())

    @on_ranks(world)
    def step():
        got = run(cut)
        assert len(got) == len(want)
        for mine, theirs in zip(got, want, strict=True):
            if isinstance(theirs, float):
                assert abs(mine - theirs) <= 1e-11, f"{got}\n{want}"
            else:
                assert mine == theirs, f"{got}\n{want}"

    step()
