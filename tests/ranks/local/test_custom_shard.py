"""Hand-written local code inside a distributed program, against one device."""

import pytest
import torch
from ranks_support import on_ranks, refused
from torch import nn

import hyper_parallel as hp
from hyper_parallel import DTensor, Layout, Partial, Replicate, Shard, UsageError, custom_shard

f64 = torch.float64
GRID = Layout((2, 2), ("dp", "mp"))
LINE = Layout((4,), ("mp",))


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=f64, generator=torch.Generator().manual_seed(seed))


def put(value, layout, grad=True):
    return hp.distribute_tensor(value, layout, src_data_rank=None).requires_grad_(grad)


# ---- As in the sample ----------------------------------------------------------------------


def mm_allreduce(x, w):
    out = torch.matmul(x, w)
    out = hp.all_reduce(out, "mp")
    return out


class Net(nn.Module):
    def __init__(self, w, in_layouts=None, out_layouts=None):
        super().__init__()
        self.p_func = mm_plain
        if out_layouts is not None:
            self.p_func = custom_shard(mm_allreduce, out_layouts, in_layouts)
        self.w = nn.Parameter(w)

    def forward(self, x):
        return self.p_func(x, self.w)


def mm_plain(x, w):
    return torch.matmul(x, w)


def one_step(net, x):
    loss = (net(torch.tanh(x)) ** 2).sum()
    loss.backward()
    with torch.no_grad():
        net.w -= 0.1 * net.w.grad
    return loss, net.w


def test_the_sample_trains_as_one_device():
    want_loss, want = one_step(Net(drawn(8, 8)), drawn(6, 8, seed=1))
    want = want.detach()

    def step():
        layout = Layout((2, 4), ("dp", "mp"))
        x_layout, y_layout, out_layout = (
            layout("dp", "mp"),
            layout("mp", "None"),
            layout("dp", "None"),
        )
        net = Net(put(drawn(8, 8), y_layout), (x_layout, y_layout), (out_layout,))
        x = hp.distribute_tensor(drawn(6, 8, seed=1), layout("dp", "None"))
        out = net(x)
        assert type(out) is DTensor and out.layout == out_layout and out.shape == (6, 8)
        loss, w = one_step(net, x)
        return loss.full_tensor(), w.detach().full_tensor()

    for loss, w in hp.run_local(step, 8):
        torch.testing.assert_close(loss, want_loss, rtol=0, atol=1e-12)
        torch.testing.assert_close(w, want, rtol=0, atol=1e-12)


class LinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(x, weight):
        output = torch.matmul(x, weight)
        return output

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad_input = grad_output.mm(weight.t())
        grad_weight = x.t().mm(grad_output)

        return grad_input, grad_weight


def linear(x, weight):
    return LinearFunction.apply(x, weight)


class SimpleModel(nn.Module):
    """simple model"""

    def __init__(self, dist=False):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8, 8))
        self.dist = dist
        layout = Layout((1, 8), ("dp", "tp"))
        in_layouts = (layout("None", "None"), layout("None", "tp"))
        out_layouts = (layout("None", "tp"),)
        self.wrap = custom_shard(linear, out_layouts, in_layouts)

    def forward(self, x):
        if self.dist:
            x = self.wrap(x, self.weight)
        else:
            x = torch.matmul(x, self.weight)
        x = torch.relu(x)
        x = torch.sum(x)
        return x


def test_the_sample_with_its_own_backward():
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(3))
    alone = SimpleModel()
    x_alone = x.clone().requires_grad_()
    want = alone(x_alone)
    want.backward()

    def step():
        layout = Layout((1, 8), ("dp", "tp"))
        model = SimpleModel(dist=True)
        model.weight = nn.Parameter(
            hp.distribute_tensor(model.weight.detach(), layout("None", "tp"))
        )
        mine = hp.distribute_tensor(x, layout("None", "None")).requires_grad_()
        loss = model(mine)
        loss.backward()
        assert model.weight.grad.layout == model.weight.layout
        return loss.full_tensor(), model.weight.grad.full_tensor(), mine.grad.full_tensor()

    for loss, grad, grad_x in hp.run_local(step, 8):
        torch.testing.assert_close(loss, want.detach())
        torch.testing.assert_close(grad, alone.weight.grad)
        torch.testing.assert_close(grad_x, x_alone.grad)


# ---- Forms ---------------------------------------------------------------------------------


@on_ranks(4)
def test_all_forms_of_the_call():
    x, w = drawn(6, 8), drawn(8, 4, seed=1)
    dx, dw = put(x, GRID("dp", "mp")), put(w, GRID("mp", "None"))
    want = x @ w

    @custom_shard(
        out_layouts=(GRID("dp", "None"),),
        in_layouts=(GRID("dp", "mp"), GRID("mp", "None")),
        redistribute_inputs=True,
    )
    def decorated(x, y):
        """Multiply."""
        out = torch.matmul(x, y)
        out = hp.all_reduce(out, "mp")
        return out

    assert decorated.__name__ == "decorated" and decorated.__doc__ == "Multiply."
    mesh = GRID.device_mesh
    s, r = Shard, Replicate()
    forms = [
        decorated,
        custom_shard(mm_allreduce, GRID("dp", "None")),
        custom_shard(mm_allreduce, (GRID("dp", "None"),), None, False),
        custom_shard(mm_allreduce, mesh, (s(0), r), ((s(0), s(1)), (r, s(0)))),
        custom_shard(mm_allreduce, mesh, ((s(0), r),)),
        custom_shard(mm_allreduce, GRID, out_placements=("dp", "None")),
        custom_shard(device_mesh=mesh, out_placements=(s(0), r))(mm_allreduce),
    ]
    for form in forms:
        out = form(dx, dw)
        assert out.layout == GRID("dp", "None")
        torch.testing.assert_close(out.full_tensor(), want)
        torch.testing.assert_close(
            form(dx, y=dw).full_tensor() if form is decorated else want, want
        )


@on_ranks(4)
def test_inputs_are_moved_unless_the_caller_says_not_to():
    x = put(drawn(8, 8), GRID("None", "None"))
    seen = []

    def look(x):
        seen.append(tuple(x.shape))
        return x

    custom_shard(look, GRID("dp", "mp"), (GRID("dp", "mp"),))(x)
    assert seen.pop() == (4, 4)
    custom_shard(look, GRID("None", "None"), (GRID("dp", "mp"),), False)(x)
    assert seen.pop() == (8, 8)


@on_ranks(4)
def test_without_dtensors_it_is_a_plain_call():
    function = custom_shard(lambda x, n: (x * n, n), (GRID("dp", "None"), None))
    out, n = function(drawn(3, 3), 2)
    assert type(out) is torch.Tensor and n == 2


@on_ranks(4)
def test_nested_inputs_and_outputs():
    a, b = put(drawn(4, 4), GRID("dp", "None")), put(drawn(4, 4, seed=1), GRID("None", "mp"))

    def mixed(pair, scale, *, extra, name):
        assert type(pair[0]) is torch.Tensor and pair[0].shape == (2, 4)
        return {"sum": pair[0] * scale, "rest": (pair[1], name, extra["b"])}

    function = custom_shard(
        mixed,
        out_layouts={
            "sum": GRID("dp", "None"),
            "rest": (GRID("None", "mp"), None, GRID("None", "mp")),
        },
        in_layouts={
            "pair": [GRID("dp", "None"), GRID("None", "mp")],
            "extra": {"b": GRID("None", "mp")},
        },
    )
    out = function([a, b], 3, extra={"b": b}, name="n")
    torch.testing.assert_close(out["sum"].full_tensor(), a.full_tensor() * 3)
    assert out["rest"][1] == "n" and out["rest"][2].layout == GRID("None", "mp")


@on_ranks(4)
def test_op_ut_08_without_in_layouts_each_dtensor_keeps_its_own():
    for layout in (GRID("dp", "mp"), GRID("mp", "None"), GRID("None", "None")):
        x = put(drawn(6, 8), layout)
        out = custom_shard(lambda x: 2 * x, (layout,))(x)
        assert out.layout == layout
        torch.testing.assert_close(out.full_tensor(), 2 * drawn(6, 8))
        out.sum().backward()
        torch.testing.assert_close(x.grad.full_tensor(), torch.full((6, 8), 2.0, dtype=f64))


@on_ranks(4)
def test_uneven_parts():
    x = put(drawn(7, 5), GRID("dp", "mp"))
    out = custom_shard(lambda x: x * x, (GRID("dp", "mp"),))(x)
    assert out.shape == (7, 5)
    torch.testing.assert_close(out.full_tensor(), drawn(7, 5) ** 2)
    both = put(drawn(5), GRID(("dp", "mp")))
    assert custom_shard(lambda x: x + 1, GRID(("dp", "mp")))(both).shape == (5,)


@on_ranks(4)
def test_results_may_be_partial_and_written_to():
    x = put(drawn(6, 8), LINE("None", "mp"))
    w = put(drawn(8, 3, seed=1), LINE("mp", "None"))
    out = custom_shard(torch.mm, LINE.device_mesh, [Partial()])(x, w)
    torch.testing.assert_close(out.full_tensor(), drawn(6, 8) @ drawn(8, 3, seed=1))
    same = custom_shard(lambda x: x * 1, LINE("None", "mp"))(x)
    same.mul_(3)
    same.sum().backward()
    torch.testing.assert_close(x.grad.full_tensor(), torch.full((6, 8), 3.0, dtype=f64))


@on_ranks(4)
def test_a_plain_tensor_counts_as_the_same_on_every_rank():
    x = put(drawn(8, 4), LINE("mp", "None"))
    scale = torch.tensor(2.0, dtype=f64, requires_grad=True)
    out = custom_shard(lambda x, s: x * s, LINE("mp", "None"), (LINE("mp", "None"), None))(x, scale)
    out.sum().backward()
    torch.testing.assert_close(scale.grad, drawn(8, 4).sum())


# ---- Gradients -----------------------------------------------------------------------------


@on_ranks(4)
def test_the_adjoint_of_replicated_values():
    x = put(drawn(4, 4), LINE("None", "None"))
    rows = custom_shard(
        lambda x: x[hp.axis_rank("mp") : hp.axis_rank("mp") + 1] * (hp.axis_rank("mp") + 1.0),
        LINE("mp", "None"),
    )(x)
    rows.sum().backward()
    want = torch.arange(1.0, 5.0, dtype=f64).unsqueeze(1).expand(4, 4)
    torch.testing.assert_close(x.grad.full_tensor(), want)


@on_ranks(4)
def test_second_derivatives():
    x = put(drawn(4, 4), LINE("mp", "None"))
    out = custom_shard(lambda x: hp.all_reduce((x**3).sum(), "mp"), LINE())(x)
    (first,) = torch.autograd.grad(out, x, create_graph=True)
    (first**2).sum().backward()
    y = drawn(4, 4).requires_grad_()
    (want,) = torch.autograd.grad((y**3).sum(), y, create_graph=True)
    (want**2).sum().backward()
    torch.testing.assert_close(x.grad.full_tensor(), y.grad)


@on_ranks(4)
def test_a_collective_whose_result_one_rank_ignores():
    """Its backward runs on every rank all the same."""

    def odd(x, w):
        total = hp.all_reduce(x * w, "mp")
        if hp.axis_rank("mp") == 1:
            return torch.zeros_like(x)
        return total if hp.axis_rank("mp") else total * 2

    def check(out, x, w):
        assert out.requires_grad
        torch.testing.assert_close(x.grad.full_tensor(), 4 * drawn(3, seed=5).expand(4, 3))
        assert w.grad.layout == w.layout

    for inputs in ((), "leaves"):
        x, w = put(drawn(4, 3), LINE("mp", "None")), put(drawn(3, seed=5), LINE("None"))
        out = custom_shard(odd, LINE("mp", "None"))(x, w)
        if inputs:
            x.grad, w.grad = torch.autograd.grad(out.sum(), [x, w])
            x.grad = x.grad.redistribute(layout=x.layout)
            w.grad = w.grad.redistribute(layout=w.layout)
        else:
            out.sum().backward()
        check(out, x, w)


@on_ranks(2)
def test_a_rank_without_any_use_of_its_inputs():
    line = Layout((2,), ("mp",))
    x, w = put(drawn(4, 3), line("mp", "None")), put(drawn(3, seed=5), line("None"))

    def masked(x, w):
        return (x * w).sum(0) if hp.axis_rank("mp") else torch.zeros(3, dtype=f64)

    out = custom_shard(masked, line.device_mesh, [Partial()])(x, w)
    assert out.requires_grad
    out.sum().backward()
    torch.testing.assert_close(w.grad.full_tensor(), drawn(4, 3)[2:].sum(0))
    assert (x.grad.full_tensor()[:2] == 0).all()


class SummedBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return hp.all_reduce(gradient, "mp")


@on_ranks(4)
def test_collectives_by_name_in_a_backward_of_the_user():
    x = put(drawn(4, 4), LINE("mp", "None"))
    custom_shard(SummedBackward.apply, LINE("mp", "None"))(x).sum().backward()
    torch.testing.assert_close(x.grad.full_tensor(), torch.full((4, 4), 4.0, dtype=f64))


@pytest.mark.parametrize("reentrant", [True, False])
def test_it_may_be_computed_again_in_backward(reentrant):
    from torch.utils.checkpoint import checkpoint

    def step():
        x = put(drawn(6, 8), LINE("None", "mp"))
        w = put(drawn(8, 3, seed=1), LINE("mp", "None"))
        function = custom_shard(mm_allreduce, LINE("None", "None"))
        out = checkpoint(lambda x, w: function(torch.tanh(x), w), x, w, use_reentrant=reentrant)
        out.square().sum().backward()
        return x.grad.full_tensor(), w.grad.full_tensor()

    x, w = drawn(6, 8).requires_grad_(), drawn(8, 3, seed=1).requires_grad_()
    (torch.tanh(x) @ w).square().sum().backward()
    for grad_x, grad_w in hp.run_local(step, 4):
        torch.testing.assert_close(grad_x, x.grad)
        torch.testing.assert_close(grad_w, w.grad)


# ---- Mistakes ------------------------------------------------------------------------------


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError) as caught:
        custom_shard(nn.Linear(2, 2), (LINE("mp"),))
    assert caught.value.code == "HP-F004" and isinstance(caught.value, UsageError)
    assert "the function that its forward calls" in str(caught.value)
    with pytest.raises(TypeError):
        custom_shard(3, (LINE("mp"),))


def test_mistakes_when_wrapping():
    assert "out_layouts" in refused(UsageError, "HP-F002", custom_shard, mm_plain)
    refused(UsageError, "HP-F001", custom_shard, mm_plain, LINE("mp"), None, True, 1)
    refused(UsageError, "HP-F001", custom_shard, mm_plain, LINE("mp"), out_placements=LINE("mp"))
    refused(UsageError, "HP-F003", custom_shard, mm_plain, (LINE("mp"), GRID("mp")))
    refused(UsageError, "HP-P003", custom_shard, mm_plain, (3,))


@on_ranks(4)
def test_mistakes_at_a_call():
    x = put(drawn(4, 4), LINE("mp", "None"))
    rows, two = LINE("mp", "None"), (LINE("mp", "None"), LINE("mp", "None"))

    def refuse(code, func, outputs, inputs, *args, **kwargs):
        return refused(UsageError, code, custom_shard(func, outputs, inputs), *args, **kwargs)

    assert "2 arguments, in_layouts has 1" in refuse("HP-F005", mm_plain, rows, (rows,), x, x)
    refuse("HP-F005", mm_plain, rows, (rows, rows, rows), x, x)
    assert "is no tensor" in refuse("HP-F006", lambda x, n: x, rows, two, x, 3)
    assert "its layout is None" in refuse("HP-F007", lambda x, n: x, rows, (rows, None), x, x)
    assert "plain tensor" in refuse("HP-F008", mm_plain, rows, two, x, drawn(4, 4))
    assert "returned 2 values" in refuse("HP-F009", lambda x: (x, x), rows, None, x)
    assert "without a layout" in refuse("HP-F009", lambda x: (x, x), (rows, None), None, x)
    assert "no tensor, but has" in refuse("HP-F009", lambda x: (x, 1), two, None, x)
    assert "is a DTensor" in refuse("HP-F009", lambda y: x, rows, None, x)
    refuse("HP-L021", lambda x: x.sum(), rows, None, x)
    pending = DTensor.from_local(drawn(2), LINE, [Partial("max")]).detach()
    same = custom_shard(lambda p, x: p * x.sum(), LINE.device_mesh, [Partial("max")])
    assert "P(max)" in refused(UsageError, "HP-F012", same, pending, x)


@on_ranks(4)
def test_results_that_do_not_fit_their_layout():
    x = put(drawn(8, 4), LINE("mp", "None"))

    def cut(x):
        return x[: 1 + (hp.axis_rank("mp") == 3)]

    text = refused(UsageError, "HP-F010", custom_shard(cut, LINE("mp", "None")), x)
    assert "rank 3: [2, 4]" in text
    text = refused(
        UsageError,
        "HP-F010",
        custom_shard(lambda x: x[:, : 3 + (hp.axis_rank("mp") > 1)], LINE("mp", "None")),
        x,
    )
    assert "rank 2: [2, 4]" in text


@on_ranks(4)
def test_tensors_that_a_function_closes_over():
    x = put(drawn(8, 4), LINE("mp", "None"))
    w = drawn(4, 4, seed=1).requires_grad_()
    for closed in (w, torch.tanh(w)):
        function = custom_shard(lambda x, w=closed: x @ w, LINE("mp", "None"))
        assert "no argument" in refused(UsageError, "HP-F014", lambda f=function: f(x))
    frozen = custom_shard(lambda x: x @ w.detach(), LINE("mp", "None"))
    assert frozen(x).requires_grad
    with torch.no_grad():
        custom_shard(lambda x: x @ w, LINE("mp", "None"))(x)


@on_ranks(4)
def test_checking_finds_copies_that_differ():
    x, w = put(drawn(6, 8), GRID("dp", "mp")), put(drawn(8, 3, seed=1), GRID("mp", "None"))
    forgot = custom_shard(torch.matmul, GRID("dp", "None"))
    forgot(x, w)  # a wrong promise, and nobody looks
    with hp.checking():
        text = refused(UsageError, "HP-F015", forgot, x, w)
        assert "all_reduce()" in text
        custom_shard(mm_allreduce, GRID("dp", "None"))(x, w)
        custom_shard(torch.matmul, GRID("dp", "None").with_partial("mp"))(x, w)


def test_an_error_on_one_rank_reaches_all():
    def step():
        def fail(x):
            if hp.axis_rank("mp") == 2:
                raise KeyError("lost")
            return hp.all_reduce(x, "mp")

        custom_shard(fail, LINE("mp", "None"))(put(drawn(4, 4), LINE("mp", "None")))

    with pytest.raises(KeyError) as caught:
        hp.run_local(step, 4)
    assert "rank 2" in "".join(caught.value.__notes__)
