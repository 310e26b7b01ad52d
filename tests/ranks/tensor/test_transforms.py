"""torch.func and forward-mode gradients over DTensors: right, or refused; never a silent zero."""

import pytest
import torch
import torch.nn.functional as F
from own_ops_support import LINE, drawn, equal, put
from ranks_support import on_ranks, refused
from torch.autograd import forward_ad
from torch.utils._pytree import tree_leaves

import hyper_parallel as hp
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


def in_terms(value, world):
    """Make a pending sum whose terms differ from rank to rank."""
    share = (hp.rank() + 1) * 2 / (world * (world + 1))
    return hp.DTensor.from_local(value * share, hp.Layout.parse(f"a={world}: P(sum)"))


@pytest.mark.parametrize("world", [2, 3])
def test_what_a_transform_saved_may_be_used_after_it(world):
    functions = [
        lambda q: q / (q * q + 1),
        lambda q: q.exp() * q,
        lambda q: q @ q.mT,
        lambda q: (q * q).mean(),
        lambda q: F.layer_norm(q, (3,)).softmax(0),
        lambda q: (q * 2).index_fill(0, torch.tensor([0]), 3.0) * q,
        lambda q: torch.cat(q.split([1, 2], 1)[::-1], 1).sin() * q,
    ]
    x = drawn(4, 3)

    @on_ranks(world)
    def step():
        texts = [f"a={world}: R", f"a={world}: S(0)", f"a={world}: S(0; segments=1|3)"]
        inputs = [
            hp.distribute_tensor(x, hp.Layout.parse(text), src_data_rank=None) for text in texts
        ]
        inputs.append(in_terms(x, world))
        for function in functions:
            want_out, want = torch.func.vjp(function, x)
            cotangent = torch.cos(want_out)
            for dx in inputs:
                out, vjp = torch.func.vjp(function, dx)
                equal(out, want_out)
                for each in (cotangent, torch.cos(out), cotangent * 2):
                    (mine,) = vjp(each)
                    assert type(mine) is hp.DTensor
                    plain = each.full_tensor() if type(each) is hp.DTensor else each
                    equal(mine, want(plain)[0])

    step()


@on_ranks(2)
def test_transforms_that_take_arguments_equal_one_device():
    x, w = drawn(4, 3), drawn(3, 4, seed=1)
    func = torch.func
    calls = [
        lambda x, w: func.grad_and_value(loss)(x, w),
        lambda x, w: func.vjp(lambda x, w: ((x @ w).sin(), x * 2), x, w, has_aux=True)[2],
        lambda x, w: func.vjp(lambda x, w: (x @ w).sin(), x, w)[1](torch.cos(x @ w)),
        lambda x, w: func.grad(
            lambda x: func.grad(lambda y: (y.sin() * y).sum())(x).square().sum()
        )(x),
        lambda x, w: func.grad(lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2, 0])))(x),
        lambda x, w: func.grad(lambda p, x: func.functional_call(module, p, (x,)).square().sum())(
            {"weight": w.t()}, x
        )["weight"],
    ]
    module = torch.nn.Linear(3, 4, bias=False)
    for layout in LAYOUTS:
        dx, dw = put(x, LINE(*layout), grad=False), put(w, LINE("None", "tp"), grad=False)
        for call in calls:
            got, want = tree_leaves(call(dx, dw)), tree_leaves(call(x, w))
            for mine, theirs in zip(got, want, strict=True):
                equal(mine, theirs)


@pytest.mark.parametrize("kind", ["jvp", "vmap", "jacrev", "jacfwd", "hessian", "functionalize"])
def test_other_transforms_are_refused_at_once(kind):
    @on_ranks(1)  # torch's levels of forward mode are those of all threads
    def step():
        x = put(drawn(4, 3), ONE("tp", "None"), grad=False)
        func = torch.func
        calls = {
            "jvp": lambda: func.jvp(torch.sin, (x,), (x,)),
            "vmap": lambda: func.vmap(torch.sin)(x),
            "jacrev": lambda: func.jacrev(lambda x: x.sin().sum(1))(x),
            "jacfwd": lambda: func.jacfwd(lambda x: x.sin().sum(1))(x),
            "hessian": lambda: func.hessian(lambda x: x.sin().sum())(x),
            "functionalize": lambda: func.functionalize(torch.sin)(x),
        }
        refused(UnsupportedError, "HP-D017", calls[kind])

    step()


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
