"""Distributed ops for ops of torch that write their arguments: in place, out=, custom ones."""

import pytest
import torch
from own_ops_support import GRID, LINE, drawn, equal, f64, put
from ranks_support import refused

import hyper_parallel as hp
from hyper_parallel import DTensor, UnsupportedError, UsageError
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp


class Same(DistributedOp):
    """All inputs lie as the first."""

    def infer_layout(self, layouts, extra_args=None):
        self._check_partial_inputs(layouts)
        if any(each is not None and each != layouts[0] for each in layouts):
            raise ValueError("inputs lie in different ways")
        return layouts[0]


class NewSame(Same):
    """The same in the newer form."""

    def preprocess(self, args, kwargs):
        local = [a.to_local() if type(a) is DTensor else a for a in args]
        return tuple(local), kwargs, [a.layout for a in args if type(a) is DTensor]

    def infer_layout(self, cache_values):
        return (super().infer_layout(cache_values),), None

    def get_expand_impl(self, func, infer_result, cache_values):
        return lambda *args: func(*args)


@torch.library.custom_op("hp_tests::scale_", mutates_args=("x",))
def scale_(x: torch.Tensor, factor: float) -> None:
    x.mul_(factor)


@torch.library.custom_op("hp_tests::swap_", mutates_args=("x", "y"))
def swap_(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)
    return x + y


@pytest.fixture
def ops():
    """Register classes for ops, and take them away afterwards."""
    made = []

    def register(kind, *names):
        for name in names:
            kind(name)
            made.append(name)

    yield register
    for name in made:
        assert hp.unregister_distributed_op(name)


@pytest.mark.parametrize("kind", [Same, NewSame])
@pytest.mark.parametrize("layout", [GRID("dp", "tp"), GRID(("tp", "dp"), "None")])
def test_in_place(ops, kind, layout):
    ops(kind, "mul_")
    x, y = drawn(5, 3).requires_grad_(), drawn(5, 3, seed=1).requires_grad_()
    base = x * 1.5
    base.mul_(y)
    base.square().sum().backward()

    def step():
        dx, dy = put(drawn(5, 3), layout), put(drawn(5, 3, seed=1), layout)
        z = dx * 1.5
        view = z[:]
        assert z.mul_(dy) is z and z.layout == layout
        equal(z, base.detach())
        equal(view, base.detach())
        z.square().sum().backward()
        equal(dx.grad, x.grad)
        equal(dy.grad, y.grad)
        other = put(drawn(5, 3), GRID("None", "None"))
        with pytest.raises(ValueError, match="different ways"):
            z.mul_(other)
        text = refused(UsageError, "HP-D003", dx.mul_, dy)
        assert "leaf" in text
        equal(dx, drawn(5, 3))

    hp.run_local(step, 4)


def test_out(ops):
    ops(Same, "mul", "max")

    def step():
        x, y = drawn(5, 3), drawn(5, 3, seed=1)
        dx, dy = put(x, LINE("tp", "None"), grad=False), put(y, LINE("tp", "None"), grad=False)
        for out in (put(torch.zeros(5, 3, dtype=f64), LINE("None", "tp"), grad=False), x.clone()):
            assert torch.mul(dx, dy, out=out) is out
            equal(out, x * y)
        wrong = put(torch.zeros(3, 5, dtype=f64), LINE("tp", "None"), grad=False)
        text = refused(UsageError, "HP-S006", lambda: torch.mul(dx, dy, out=wrong))
        assert "[3, 5]" in text and "[5, 3]" in text
        grown = put(x, LINE("tp", "None"))
        text = refused(UnsupportedError, "HP-F043", lambda: torch.mul(grown, dy, out=out))
        assert "mul: no gradient passes out=" in text

    hp.run_local(step, 2)


def test_several_out(ops):
    class AlongRows(DistributedOp):
        def infer_layout(self, layouts, extra_args=None):
            line = type(layouts[0])(layouts[0].mesh_shape, layouts[0].alias_name)
            return (line("tp"), line("tp"))

    ops(AlongRows, "max")

    def step():
        x = put(drawn(5, 3), LINE("tp", "None"), grad=False)
        values = put(torch.zeros(5, dtype=f64), LINE("None"), grad=False)
        places = put(torch.zeros(5, dtype=torch.int64), LINE("tp"), grad=False)
        found = torch.max(x, 1, out=(values, places))
        assert found[0] is values and found[1] is places and values.layout == LINE("None")
        want = drawn(5, 3).max(1)
        equal(values, want.values)
        equal(places, want.indices)

    hp.run_local(step, 2)


def test_custom_ops(ops):
    ops(Same, "hp_tests::scale_", "hp_tests::swap_")

    def step():
        for layout in (LINE("tp", "None"), LINE("None", "tp")):
            x = put(drawn(5, 3), layout, grad=False)
            assert scale_(x, 3.0) is None
            equal(x, 3 * drawn(5, 3))
            y = put(drawn(5, 3, seed=1), layout, grad=False)
            out = swap_(x, y)
            assert out.layout == layout
            equal(out, 3 * drawn(5, 3) + drawn(5, 3, seed=1))
            equal(x, drawn(5, 3, seed=1))
            equal(y, 3 * drawn(5, 3))

    hp.run_local(step, 2)


def test_a_written_argument_keeps_its_place(ops):
    class Moves(NewSame):
        def preprocess(self, args, kwargs):
            local, _, values = super().preprocess(args, kwargs)
            return local[::-1], kwargs, values

    ops(Moves, "hp_tests::scale_")

    def step():
        text = refused(UsageError, "HP-F042", scale_, put(drawn(4, 4), LINE("tp", "None")), 2.0)
        assert "argument 0 is written" in text

    hp.run_local(step, 2)
