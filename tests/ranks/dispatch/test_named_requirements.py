"""OP-UT-01 to 07, REG-02 and REG-03, as the requirements name them."""

import pytest
import torch
from own_ops_support import GRID, MyAdd, MyMatmul, drawn, equal, f64, put, scaled
from ranks_support import on_ranks

import hyper_parallel as hp
from hyper_parallel import DFunction, DTensor, Partial, Shard
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.core.shard.ops.parallel_ops_register import (
    get_distributed_op,
    register_distributed_op,
)

# ---- Tests that the requirements name ------------------------------------------------------


@pytest.mark.parametrize("op", ["matmul", "add", "sum", "mean", "max"])
def test_op_ut_01_basic_ops_equal_one_device(op):
    functions = {
        "matmul": lambda x, y: torch.matmul(x, y.t()),
        "add": torch.add,
        "sum": lambda x, y: torch.sum(x * y, dim=1),
        "mean": lambda x, y: torch.mean(x * y, dim=0),
        "max": lambda x, y: torch.max(x * y, dim=1).values,
    }
    function = functions[op]
    x, y = drawn(6, 5).requires_grad_(), drawn(6, 5, seed=1).requires_grad_()
    want = function(x, y)
    want.square().sum().backward()

    def step():
        for one, other in ((("dp", "tp"), ("dp", "tp")), (("dp", "None"), ("None", "tp"))):
            dx, dy = put(drawn(6, 5), GRID(*one)), put(drawn(6, 5, seed=1), GRID(*other))
            out = function(dx, dy)
            equal(out, want.detach())
            out.square().sum().backward()
            equal(dx.grad, x.grad)
            equal(dy.grad, y.grad)

    hp.run_local(step, 4)


@on_ranks(4)
def test_op_ut_02_broadcasting_over_placements():
    x, y = put(drawn(6, 1), GRID("dp", "None")), put(drawn(1, 4, seed=1), GRID("None", "tp"))
    out = x + y
    assert out.layout == GRID("dp", "tp") and out.shape == (6, 4)
    equal(out, drawn(6, 1) + drawn(1, 4, seed=1))
    line = put(drawn(4, seed=2), GRID("tp"))
    out = x * line
    assert out.layout == GRID("dp", "tp")
    equal(out, drawn(6, 1) * drawn(4, seed=2))


@on_ranks(4)
def test_op_ut_03_placements_that_cannot_be_are_value_errors():
    x = put(drawn(4, 4), GRID("dp", "None"))
    pending = DTensor.from_local(drawn(4, 4), GRID, [Partial(), Partial()])
    with pytest.raises(ValueError) as caught:
        MyMatmul.apply(x, pending)
    assert "MyMatmul: input 1 has a pending reduction" in str(caught.value)
    assert "reduce_partial()" in str(caught.value)
    with pytest.raises(ValueError, match="contracting dims"):
        MyMatmul.apply(put(drawn(4, 4), GRID("dp", "tp")), put(drawn(4, 4), GRID("None", "tp")))
    with pytest.raises(ValueError, match="out of range"):
        hp.distribute_tensor(drawn(4, 4), GRID.device_mesh, [Shard(2), Shard(0)])


class OldScale(DistributedOp):
    def infer_layout(self, layouts, extra_args=None):
        assert layouts[1:] == [None] and extra_args == [3.0]
        return layouts[0]

    def get_expand_impl(self, func, output_layout, layouts, extra_args):
        return lambda x, s: func(x, 2 * s)


class NewScale(DistributedOp):
    def preprocess(self, args, kwargs):
        return (args[0].to_local(), args[1]), {}, [args[0].layout, args[1]]

    def infer_layout(self, cache_values):
        return (cache_values[0],), None

    def get_expand_impl(self, func, infer_result, cache_values):
        return lambda x, s: func(x, 2 * s)


OldScale("OldScale")
NewScale("NewScale")


@on_ranks(4)
def test_op_ut_04_the_older_and_the_newer_form_agree():
    results = []
    for name in ("OldScale", "NewScale"):
        x = put(drawn(5, 4), GRID("dp", "tp"))
        out = scaled(name).apply(x, 3.0)
        out.square().sum().backward()
        results.append((out.layout, out.full_tensor(), x.grad.full_tensor()))
    assert results[0][0] == results[1][0]
    equal(results[0][1], results[1][1])
    equal(results[0][2], results[1][2])
    equal(results[0][1], drawn(5, 4) * 6)


def test_op_ut_05_a_dfunction_on_plain_tensors():
    x, y = drawn(3, 2).requires_grad_(), drawn(3, 2, seed=1).requires_grad_()
    out = MyAdd.apply(x, y)
    assert type(out) is torch.Tensor
    equal(out, drawn(3, 2) + drawn(3, 2, seed=1))
    out.sum().backward()
    equal(x.grad, torch.ones(3, 2, dtype=f64))


@on_ranks(4)
def test_op_ut_06_a_dfunction_on_dtensors():
    x, y = put(drawn(5, 4), GRID("dp", "tp")), put(drawn(5, 4, seed=1), GRID("dp", "tp"))
    out = MyAdd.apply(x, y)
    assert type(out) is DTensor and out.layout == x.layout and out.shape == (5, 4)
    equal(out, drawn(5, 4) + drawn(5, 4, seed=1))
    out.square().sum().backward()
    equal(x.grad, 2 * (drawn(5, 4) + drawn(5, 4, seed=1)))
    equal(y.grad, x.grad.full_tensor())


@pytest.mark.parametrize("inner", ["tp", "None"])
def test_op_ut_07_saved_tensors(inner):
    x, w = drawn(6, 4).requires_grad_(), drawn(4, 3, seed=1).requires_grad_()
    want = MyMatmul.apply(torch.tanh(x), w)
    want.square().sum().backward()

    def step():
        dx, dw = put(drawn(6, 4), GRID("dp", inner)), put(drawn(4, 3, seed=1), GRID(inner, "None"))
        out = MyMatmul.apply(torch.tanh(dx), dw)
        assert out.layout == GRID("dp", "None")
        equal(out, want.detach())
        out.square().sum().backward()
        equal(dx.grad, x.grad)
        equal(dw.grad, w.grad)

    hp.run_local(step, 4)


# OP-UT-08 is in test_custom_shard.py, REG-01 in test_op_files.py.


@on_ranks(4)
def test_reg_02_programmatic_registration_routes_dtensors():
    class MyOpDistributedOp(DistributedOp):
        def infer_layout(self, layouts, extra_args=None):
            return (layouts[0],)

    register_distributed_op("MyOp", MyOpDistributedOp("MyOp"))
    seen = []

    class MyOp(DFunction):
        _op_name = "MyOp"

        @staticmethod
        def forward(ctx, x):
            seen.append(tuple(x.shape))
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    assert type(get_distributed_op("MyOp")).__name__ == "MyOpDistributedOp"
    out = MyOp.apply(put(drawn(8, 4), GRID("dp", "tp")))
    assert seen == [(4, 2)] and type(out) is DTensor
    equal(out, 2 * drawn(8, 4))


class Swish(DFunction):
    _op_name = "Swish"

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s + x * s * (1 - s))


class SwishOp(DistributedOp):
    def infer_layout(self, layouts, extra_args=None):
        self._check_partial_inputs(layouts)
        return layouts[0]


def test_reg_03_an_op_of_the_user_trains_one_step():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up = torch.nn.Linear(4, 6, dtype=f64)
            self.down = torch.nn.Linear(6, 2, dtype=f64)
            with torch.no_grad():
                for i, p in enumerate(self.parameters()):
                    p.copy_(drawn(*p.shape, seed=i))

        def forward(self, x):
            return self.down(Swish.apply(self.up(x))).square().mean()

    def train(net):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        losses = []
        for _ in range(2):
            loss = net(drawn(5, 4, seed=9))
            loss.backward()
            optimizer.step()
            grads = [p.grad for p in net.parameters()]
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses, grads

    want, want_grads = train(Net())
    SwishOp("Swish")

    def step():
        plan = {
            "parameter": {
                "up.weight": GRID("tp", "None"),
                "up.bias": GRID("tp"),
                "down.weight": GRID("None", "tp"),
            },
            "forward": {"input": GRID("dp", "None")},
        }
        losses, grads = train(hp.shard_module(Net(), plan))
        return losses, [g.full_tensor() for g in grads]

    for losses, grads in hp.run_local(step, 4):
        assert losses == pytest.approx(want, abs=1e-12)
        for mine, theirs in zip(grads, want_grads, strict=True):
            equal(mine, theirs)


class PlainScale(DistributedOp):
    """A plain tensor handed on as it came counts as the same value on every rank."""

    def preprocess(self, args, kwargs):
        return (args[0].to_local(), args[1]), {}, [args[0].layout]

    def infer_layout(self, cache_values):
        return (cache_values[0],), None


class TimesPlain(DFunction):
    _op_name = "PlainScale"

    @staticmethod
    def forward(ctx, x, s):
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, grad):
        x, s = ctx.saved_tensors
        return grad * s, (grad * x).sum()


PlainScale("PlainScale")


@on_ranks(4)
def test_gradients_of_plain_tensors_are_whole():
    scale = torch.tensor(2.0, dtype=f64, requires_grad=True)
    TimesPlain.apply(put(drawn(5, 4), GRID("dp", "tp")), scale).sum().backward()
    equal(scale.grad, drawn(5, 4).sum())
