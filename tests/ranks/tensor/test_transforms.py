"""torch.func and forward-mode gradients over DTensors: right, or refused; never a silent zero."""

import pytest
import torch
from own_ops_support import LINE, drawn, equal, put
from ranks_support import on_ranks, refused
from torch.autograd import forward_ad

from hyper_parallel import Layout, UnsupportedError

ONE = Layout((1,), ("tp",))
LAYOUTS = [("tp", "None"), ("None", "tp"), ("None", "None")]


def loss(x, w):
    return (x @ w).sin().sum()


@on_ranks(2)
def test_a_gradient_by_arguments_equals_one_device():
    x, w = drawn(5, 3), drawn(3, 4, seed=1)
    want = torch.func.grad(loss, argnums=(0, 1))(x, w)
    for layout in LAYOUTS:
        dx, dw = put(x, LINE(*layout), grad=False), put(w, LINE("None", "tp"), grad=False)
        for argnum in (0, 1):
            equal(torch.func.grad(loss, argnums=argnum)(dx, dw), want[argnum])


@on_ranks(2)
def test_what_builds_on_backward_works():
    x, w = drawn(5, 3), drawn(3, 4, seed=1)
    functional = torch.autograd.functional
    calls = [
        lambda x, w: functional.jvp(loss, (x, w), (x, w))[1],
        lambda x, w: functional.vjp(lambda x, w: x @ w, (x, w), x @ w)[1][1],
        lambda x, w: functional.jacobian(lambda x: (x @ w).sum(1), x),
        lambda x, w: functional.hessian(lambda x: loss(x, w), x),
    ]
    for layout in LAYOUTS:
        dx, dw = put(x, LINE(*layout), grad=False), put(w, LINE("None", "tp"), grad=False)
        for call in calls:
            equal(call(dx, dw), call(x, w))


@pytest.mark.parametrize("kind", ["grad", "vjp", "jvp", "vmap", "jacrev"])
def test_dtensors_that_the_function_closes_over_are_refused(kind):
    @on_ranks(1)
    def step():
        dx, dw = (
            put(drawn(5, 3), ONE("tp", "None"), False),
            put(drawn(3, 4), ONE("tp", "None"), False),
        )
        calls = {
            "grad": lambda: torch.func.grad(lambda x: loss(x, dw))(dx),
            "vjp": lambda: torch.func.vjp(lambda x: loss(x, dw), dx),
            "jvp": lambda: torch.func.jvp(lambda x: loss(x, dw), (dx,), (dx,)),
            "vmap": lambda: torch.func.vmap(lambda x: x @ dw)(dx),
            "jacrev": lambda: torch.func.jacrev(lambda x: x @ dw)(dx),
        }
        text = refused(UnsupportedError, "HP-D017", calls[kind])
        assert "torch.autograd.functional" in text and "are arguments" in text

    step()


@on_ranks(1)
def test_forward_mode_is_refused():
    x = put(drawn(5, 3), ONE("tp", "None"), grad=False)
    with forward_ad.dual_level():
        text = refused(UnsupportedError, "HP-D018", forward_ad.make_dual, x, x)
    assert "f64[5, 3]" in text
