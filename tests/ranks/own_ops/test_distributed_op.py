"""DistributedOp: the registry, the cache, ops of torch, the older forms, mistakes."""

import pytest
import torch
from own_ops_support import GRID, MyAddDistOp, drawn, equal, put, scaled
from ranks_support import on_ranks, refused

import hyper_parallel as hp
from hyper_parallel import DFunction, DTensor, Layout, Partial, Replicate, UsageError
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.core.shard.ops.parallel_ops_register import (
    register_distributed_op,
    unregister,
)

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


def test_a_class_that_can_take_pending_sums():
    class Linear(DistributedOp):
        _allow_partial_inputs = True

    Linear("Linear")
    function = scaled("Linear")

    def step():
        x = drawn(4, 4).requires_grad_()
        part = DTensor.from_local(x * (hp.rank() + 1), GRID, [Partial(), Replicate()])
        out = function.apply(part, 3.0)
        assert out.layout == part.layout
        equal(out, 3 * part.detach().full_tensor())
        out.sum().backward()
        equal(x.grad, torch.full((4, 4), 3.0 * (hp.rank() + 1), dtype=torch.float64))

    hp.run_local(step, 4)
    assert unregister("Linear")


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
