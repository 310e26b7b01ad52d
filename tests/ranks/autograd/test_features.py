"""Features of torch.autograd over DTensors, each beside one device."""

import warnings

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint as ck
from autograd_support import equal_to_one_device, wave
from ranks_support import on_ranks

import hyper_parallel as hp

grad = torch.autograd.grad
functional = torch.autograd.functional
LAYOUTS = [
    (2, "a=2: R", "a=2: S(1)"),
    (3, "a=3: S(0)", "a=3: R"),
    (4, "a=2 b=2: S(0) R", "a=2 b=2: R S(1)"),
]
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def inner(x, w):
    return (x @ w).sin()


def scalar(x, w):
    return inner(x, w).sum()


def on_layouts(function):
    for world, left, right in LAYOUTS:
        on_ranks(world)(
            lambda l=left, r=right: equal_to_one_device(function, ((4, 3), l), ((3, 4), r))
        )()


@case
def create_graph(x, w):
    a, b = grad(inner(x, w).pow(2).sum(), [x, w], create_graph=True)
    (a.square().sum() + b.sin().sum()).backward()
    return [x.grad, w.grad, a, b]


@case
def create_graph_for_an_inner_tensor(x, w):
    h = x @ w
    (a,) = grad(h.sin().sum(), [h], create_graph=True)
    return [a, grad(a.square().sum(), [x])]


@case
def plain_grad_outputs(x, w):
    return grad(inner(x, w), [x, w], grad_outputs=wave(4, 4))


@case
def grad_outputs(x, w):
    y = inner(x, w)
    return grad(y, [x, w], grad_outputs=torch.ones_like(y) * 2)


@case
def several_outputs(x, w):
    y = inner(x, w)
    z = (y * 2).sum()
    three = torch.tensor(3.0, dtype=torch.float64)
    return [
        grad([y, z], [x, w], grad_outputs=[wave(4, 4), three], retain_graph=True),
        grad([z, z * 2], [x, w], grad_outputs=[None, three]),
    ]


@case
def allow_unused(x, w):
    h, k = w * 2, x * 3
    return grad((k * x).sum(), [x, h, k, w], allow_unused=True)


@case
def materialize_grads(x, w):
    h = w * 2
    return grad((x * x).sum(), [x, w, h], allow_unused=True, materialize_grads=True)


@case
def retain_graph(x, w):
    y = scalar(x, w)
    y.backward(retain_graph=True)
    y.backward()
    return [x.grad, w.grad]


@case
def backward_inputs(x, w):
    h = x @ w
    h.sin().sum().backward(inputs=[h, w])
    return [h.grad, w.grad, x.grad]


@case
def plain_backward(x, w):
    inner(x, w).backward(wave(4, 4))
    return [x.grad, w.grad]


@case
def saved_tensors_hooks(x, w):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (t * 1,), lambda held: held[0]):
        y = inner(x, w).pow(2).sum()
    with torch.autograd.graph.save_on_cpu():
        z = inner(x, w).pow(2).sum()
    with torch.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
        u = inner(x, w).pow(2).sum()
    (y + z * 2 + u * 3).backward()
    return [x.grad, w.grad]


@case
def checkpoint_kinds(x, w):
    out = []
    for reentrant in (True, False):
        for keep in (True, False):
            h = ck.checkpoint(inner, x, w, use_reentrant=reentrant, preserve_rng_state=keep)
            (h * h).sum().backward()
            out += [h, x.grad.clone(), w.grad.clone()]
    return out


@case
def checkpoint_options(x, w):
    steps = [lambda a: a.sin(), lambda a: a @ w, lambda a: a * 2, lambda a: a.cos()]
    once = ck.checkpoint_sequential(steps, 2, x, use_reentrant=False).sum()
    again = ck.checkpoint(
        lambda a: ck.checkpoint(lambda b: inner(b, w), a, use_reentrant=False) * 2,
        x,
        use_reentrant=False,
    ).sum()
    with ck.set_checkpoint_early_stop(False):
        late = ck.checkpoint(inner, x, w, use_reentrant=False).sum()
    (once + again * 2 + late * 3).backward()
    return [x.grad, w.grad]


@case
def checkpoint_second_derivatives(x, w):
    h = ck.checkpoint(inner, x, w, use_reentrant=False)
    (a,) = grad(h.square().sum(), [x], create_graph=True)
    a.square().sum().backward()
    return [x.grad, w.grad]


@case
def functional_call(x, w):
    module = torch.nn.Linear(3, 4, bias=False)
    torch.func.functional_call(module, {"weight": w.t()}, (x,)).square().sum().backward()
    return [x.grad, w.grad]


@case
def retain_grad(x, w):
    h = x @ w
    h.retain_grad()
    a, b = h.chunk(2, 1)
    a.retain_grad()
    (a * b).sum().backward()
    return [h.grad, a.grad, x.grad]


@case
def a_pass_inside_a_hook(x, w):
    def hook(gradient):
        with torch.enable_grad():
            q = w.detach().clone().requires_grad_()
            (q * q).sum().backward()
        return gradient * q.grad.sum()

    h = x @ w
    h.register_hook(hook)
    h.sin().sum().backward()
    return [x.grad, w.grad]


@case
def python_functions(x, w):
    class Setup(torch.autograd.Function):
        @staticmethod
        def forward(x, w):
            return x @ w, x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, first, second):
            x, w = ctx.saved_tensors
            return first @ w.t() + second * 2, x.t() @ first

    class Sparing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            mask = (x > 0).double()
            ctx.mark_non_differentiable(mask)
            ctx.save_for_backward(mask)
            return x * 2, x * 3, mask

        @staticmethod
        def backward(ctx, first, second, _):
            assert first is None
            return second * ctx.saved_tensors[0] * 3

    a, b = Setup.apply(x, w)
    _, c, mask = Sparing.apply(x)
    (a.sin().sum() + (b * b).sum() + (c.sin() * mask).sum()).backward()
    return [x.grad, w.grad, mask.requires_grad]


@case
def functional_products(x, w):
    x, w = x.detach(), w.detach()
    return [
        functional.vjp(inner, (x, w), v=torch.ones_like(x @ w)),
        functional.vjp(inner, (x, w), v=wave(4, 4), create_graph=True, strict=True),
        functional.jvp(inner, (x, w), (x, w)),
        functional.jvp(inner, (x, w), (wave(4, 3), wave(3, 4))),
        functional.vhp(scalar, (x, w), (x, w)),
        functional.hvp(scalar, (x, w), (wave(4, 3), wave(3, 4))),
    ]


@case
def functional_matrices(x, w):
    x, w = x.detach(), w.detach()
    return [
        functional.jacobian(lambda x, w: (x @ w).sum(1), (x, w)),
        functional.jacobian(lambda x: x.sin().sum(1), x, create_graph=True),
        functional.hessian(scalar, (x, w)),
    ]


@pytest.mark.parametrize("name", list(CASES))
def test_equal_to_one_device(name):
    on_layouts(CASES[name])


def test_anomaly_mode():
    def case(x, w):
        inner(x, w).pow(2).sum().backward()
        return [x.grad, w.grad]

    # Outside of the ranks: torch has one switch for all threads.
    with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(True):
        warnings.simplefilter("ignore")
        on_layouts(case)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("mode", ["exact", "by_index"])
def test_a_checkpoint_draws_the_same_numbers_again(mode, reentrant):
    def step(x, w, checkpointed):
        def block(a, b):
            return F.dropout((a @ b).sin(), 0.5)

        torch.manual_seed(3)
        if checkpointed:
            h = ck.checkpoint(block, x, w, use_reentrant=reentrant)
            h = ck.checkpoint(F.dropout, h, 0.3, use_reentrant=reentrant)
        else:
            h = F.dropout(block(x, w), 0.3)
        return [h, *grad(h.square().sum(), [x, w])] if not reentrant else backward(h, x, w)

    def backward(h, x, w):
        x.grad = w.grad = None
        h.square().sum().backward()
        return [h, x.grad, w.grad]

    def program(left, right):
        def put(value, text):
            layout = hp.Layout.parse(text)
            return hp.distribute_tensor(value, layout, src_data_rank=None).requires_grad_()

        x, w = put(wave(4, 3), left), put(wave(3, 4), right)
        with hp.random_mode(mode):
            for a, b in zip(step(x, w, True), step(x, w, False), strict=True):
                torch.testing.assert_close(a.full_tensor(), b.full_tensor(), rtol=0, atol=0)
            if mode == "exact":
                equal_to_one_device(lambda x, w: step(x, w, True), ((4, 3), left), ((3, 4), right))

    for world, left, right in LAYOUTS[:2]:
        on_ranks(world)(lambda l=left, r=right: program(l, r))()


@on_ranks(2)
def test_a_gradient_that_is_divided_by_the_number_of_copies_is_warned_of():
    layout = hp.Layout.parse("a=2: S(0)")
    x = hp.distribute_tensor(wave(4), layout, src_data_rank=None).requires_grad_()
    loss = x.sum().redistribute([hp.Replicate()])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        loss.backward(torch.tensor(0.25), retain_graph=True)
        (loss * 2).backward()
        x.sum().redistribute([hp.Replicate()]).backward(torch.tensor(1.0))
        if hp.rank() == 0:
            assert not [each for each in seen if "copies" in str(each.message)]
    with pytest.warns(UserWarning, match=r"backward\(1 / 2\) of a DTensor of which 2 ranks"):
        loss.backward(torch.tensor(0.5))
