"""DistributedOp and DFunction: the tests that the requirements name, and their samples."""

import pytest
import torch
from ranks_support import on_ranks, refused

import hyper_parallel as hp
from hyper_parallel import DFunction, DTensor, Layout, Partial, Shard, UsageError
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.core.shard.ops.parallel_ops_register import (
    get_distributed_op,
    register_distributed_op,
    unregister,
)

f64 = torch.float64
GRID = Layout((2, 2), ("dp", "tp"))


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=f64, generator=torch.Generator().manual_seed(seed))


def put(value, layout, grad=True):
    return hp.distribute_tensor(value, layout, src_data_rank=None).requires_grad_(grad)


def equal(mine, theirs):
    mine = mine.full_tensor() if type(mine) is DTensor else mine
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


# ---- Samples -------------------------------------------------------------------------------


class MyAddDistOp(DistributedOp):
    def __init__(self):
        super().__init__("MyAdd")

    def infer_layout(self, layouts, extra_args=None):
        return layouts[0]


MyAddDistOp()


class MyAdd(DFunction):
    _op_name = "MyAdd"

    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


class MatmulOp(DistributedOp):
    """The newer form: contracting over a cut dim gives a sum that the op itself finishes."""

    def preprocess(self, args, kwargs):
        local_args = (args[0].to_local(), args[1].to_local())
        return local_args, {}, [args[0].layout, args[1].layout]

    def infer_layout(self, cache_values):
        x, w = cache_values
        self._check_partial_inputs([x, w])
        rows, inner = x.alias_tensor_map
        if w.alias_tensor_map[0] != inner:
            raise ValueError("contracting dims are cut differently")
        mesh = Layout(x.mesh_shape, x.alias_name, x.rank_list)
        return (mesh(rows, w.alias_tensor_map[1]),), inner

    def get_expand_impl(self, func, infer_result, cache_values):
        inner = infer_result[1]
        if inner == "None":
            return None
        return lambda x, w: hp.all_reduce(func(x, w), inner)


MatmulOp("MyMatmul")


class MyMatmul(DFunction):
    _op_name = "MyMatmul"

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.t(), x.t() @ grad


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


def scaled(name):
    class Scale(DFunction):
        _op_name = name

        @staticmethod
        def forward(ctx, x, s):
            ctx.s = s
            return x * s

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.s, None

    return Scale


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


# ---- DFunction -----------------------------------------------------------------------------


class Pair(DistributedOp):
    def infer_layout(self, layouts, extra_args=None):
        return (layouts[0], layouts[0], None)


Pair("Pair")


class PairFunction(DFunction):
    """The form with setup_context; several results, one without a gradient, one no tensor."""

    _op_name = "Pair"

    @staticmethod
    def forward(x, y, factor):
        return x * y * factor, x > 0, factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, factor = inputs
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, *_):
        x, y = ctx.saved_tensors
        needs_x, needs_y, _ = ctx.needs_input_grad
        return (
            grad * y * ctx.factor if needs_x else None,
            grad * x * ctx.factor if needs_y else None,
            None,
        )


@on_ranks(4)
def test_several_results_and_mixed_inputs():
    x, y = put(drawn(4, 4), GRID("dp", "tp")), drawn(4, 4, seed=1)
    with pytest.raises(Exception) as caught:  # a plain tensor is whole: shapes do not fit
        PairFunction.apply(x, y, 2)
    assert "size of tensor" in str(caught.value)
    scale = torch.tensor(3.0, dtype=f64, requires_grad=True)
    out, mask, factor = PairFunction.apply(x, scale, 2)
    assert factor == 2 and mask.dtype == torch.bool and not mask.requires_grad
    assert mask.layout == x.layout
    equal(out, drawn(4, 4) * 6)
    out.sum().backward()
    equal(x.grad, torch.full((4, 4), 6.0, dtype=f64))
    frozen = put(drawn(4, 4), GRID("dp", "tp"), grad=False)
    assert not PairFunction.apply(frozen, y[0, 0], 2)[0].requires_grad


@on_ranks(4)
def test_mistakes_of_dfunctions():
    x = put(drawn(4, 4), GRID("dp", "tp"))

    class Nameless(MyAdd):
        _op_name = None

    class Unknown(MyAdd):
        _op_name = "MyAd"

    class Nested(MyAdd):
        @staticmethod
        def forward(ctx, x, y):
            return MyAdd.apply(x, y)

    assert '_op_name = "Nameless"' in refused(UsageError, "HP-F022", Nameless.apply, x, x)
    text = refused(UsageError, "HP-F020", Unknown.apply, x, x)
    assert "near" in text and "MyAdd" in text
    assert "of Nested" in refused(UsageError, "HP-F021", Nested.apply, x, x)
    refused(UsageError, "HP-F021", Nested.apply, drawn(2), drawn(2))
    refused(UsageError, "HP-F020", get_distributed_op, "Nothing")


def test_an_error_inside_one_rank_is_named():
    class Breaks(MyAdd):
        @staticmethod
        def forward(ctx, x, y):
            if hp.rank() == 3:
                raise KeyError("lost")
            return x + y

    def step():
        x = put(drawn(4, 4), GRID("dp", "tp"))
        return Breaks.apply(x, x)

    with pytest.raises(KeyError) as caught:
        hp.run_local(step, 4)
    assert "rank 3" in "".join(caught.value.__notes__)


# ---- The registry and the cache ------------------------------------------------------------


def test_two_classes_for_one_op():
    class Other(DistributedOp):
        pass

    refused(UsageError, "HP-F033", Other, "MyAdd")
    refused(UsageError, "HP-F032", register_distributed_op, "Broken", MyAddDistOp)
    refused(UsageError, "HP-F035", lambda: DistributedOp("Broken", "Shape"))
    MyAddDistOp()  # the same class again is no mistake
    assert not unregister("Broken")


def test_the_second_call_infers_nothing():
    calls = []

    class Counting(DistributedOp):
        def infer_layout(self, layouts, extra_args=None):
            calls.append(extra_args[0])
            return layouts[0]

        def get_expand_impl(self, func, output_layout, layouts, extra_args):
            calls.append("impl")

    Counting("Counting")

    def step():
        function = scaled("Counting")
        x = put(drawn(4, 4), GRID("dp", "tp"))
        hp.layout_cache_clear()
        for value in (2.0, 2.0, 3.0, 2.0):
            equal(function.apply(x, value), drawn(4, 4) * value)
        function.apply(x, 2)  # another type is another entry
        info = hp.layout_cache_info()
        assert (info["hits"], info["misses"]) == (2, 3) and info["entries"] == {"Counting": 3}
        function.apply(x.detach(), 2.0)
        assert hp.layout_cache_info()["hits"] == 3

    hp.run_local(step, 4)
    assert calls.count(2) == 8 and calls.count(3.0) == 4 and calls.count("impl") == 12
    unregister("Counting")


# ---- Ops of torch --------------------------------------------------------------------------


class RollOp(DistributedOp):
    """torch has this op, and here it refuses to roll a cut dim."""

    def preprocess(self, args, kwargs):
        x, shifts, dims = args
        return (x.to_local(), shifts, dims), kwargs, [x.layout, list(shifts), list(dims)]

    def infer_layout(self, cache_values):
        layout, _, dims = cache_values
        if any(layout.alias_tensor_map[d] != "None" for d in dims):
            raise ValueError("a cut dim is rolled")
        return (layout,), None


def test_a_registered_op_of_torch_takes_the_place_of_the_rule():
    RollOp("roll")

    def step():
        x = put(drawn(4, 6), GRID("dp", "None"))
        out = torch.roll(x, 2, 1)
        equal(out, drawn(4, 6).roll(2, 1))
        out.square().sum().backward()
        equal(x.grad, 2 * drawn(4, 6))
        with pytest.raises(ValueError, match="a cut dim is rolled"):
            torch.roll(x, 1, 0)

    try:
        hp.run_local(step, 4)
    finally:
        assert unregister("roll")

    def after():
        x = put(drawn(4, 6), GRID("dp", "None"))
        equal(torch.roll(x, 1, 0), drawn(4, 6).roll(1, 0))

    hp.run_local(after, 4)


class OldReshape(DistributedOp):
    def infer_layout(self, layouts, extra_args=None):
        shape, given = extra_args
        assert tuple(given) == (4, 6)
        return layouts[0], [shape[0] // 2, *shape[1:]]


class OldJoin(DistributedOp):
    def infer_layout(self, layouts, extra_args=None):
        assert len(layouts) == 3 and layouts[2] is None and extra_args == [1]
        return layouts[0]


class OldMul(DistributedOp):
    def infer_layout(self, layouts, extra_args=None):
        assert extra_args == [[(4, 6), (1, 6)]]
        return layouts[0]


class OldSlice(DistributedOp):
    def infer_layout(self, layouts, extra_args=None):
        begin, end, shape = extra_args
        assert tuple(shape) == (4, 6)
        return layouts[0], begin, [end[0] // 2, end[1]]


@on_ranks(2)
def test_the_suffix_kinds_of_the_older_form():
    line = Layout((2,), ("dp",))
    x = put(drawn(4, 6), line("dp", "None"))

    def function(name, run):
        class Function(DFunction):
            _op_name = name

            @staticmethod
            def forward(ctx, *args):
                return run(*args)

        return Function.apply

    with torch.no_grad():
        OldReshape("OldReshape", "Reshape")
        out = function("OldReshape", torch.reshape)(x, [4, 2, 3])
        equal(out, drawn(4, 6).reshape(4, 2, 3))
        OldJoin("OldJoin", "WithTupleExpand")
        equal(function("OldJoin", torch.cat)([x, x], 1), torch.cat([drawn(4, 6)] * 2, 1))
        OldMul("OldMul", "WithShape")
        row = put(drawn(1, 6, seed=1), line("None", "None"))
        equal(function("OldMul", torch.mul)(x, row), drawn(4, 6) * drawn(1, 6, seed=1))
        OldSlice("OldSlice", "Slice")
        cut = function("OldSlice", lambda t, b, e: t[b[0] : e[0], b[1] : e[1]])
        equal(cut(x, [0, 1], [4, 3]), drawn(4, 6)[:, 1:3])


def test_what_distributed_ops_may_not_return():
    class Wrong(DistributedOp):
        def infer_layout(self, layouts, extra_args=None):
            return extra_args[0]

    class Two(DistributedOp):
        def infer_layout(self, layouts, extra_args=None):
            return layouts[0], layouts[0]

    Wrong("Wrong")
    Two("Two")

    def step():
        x = put(drawn(4, 4), GRID("dp", "tp"))
        assert "not a layout" in refused(UsageError, "HP-F036", scaled("Wrong").apply, x, 3)
        assert "1 results" in refused(UsageError, "HP-F034", scaled("Two").apply, x, 3)

    hp.run_local(step, 4)
    unregister("Wrong")
    unregister("Two")
