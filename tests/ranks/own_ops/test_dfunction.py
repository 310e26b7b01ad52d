"""DFunction: forms, mixed inputs, mistakes."""

import pytest
import torch
from own_ops_support import GRID, MyAdd, drawn, equal, f64, put
from ranks_support import on_ranks, refused

import hyper_parallel as hp
from hyper_parallel import DFunction, UsageError
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.core.shard.ops.parallel_ops_register import (
    get_distributed_op,
)

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


@on_ranks(4)
def test_apply_inside_backward_is_refused():
    class NestedBackward(MyAdd):
        @staticmethod
        def backward(ctx, grad):
            return MyAdd.apply(grad, grad), grad

    x = put(drawn(4, 4), GRID("dp", "tp"))
    out = NestedBackward.apply(x, x).sum()
    text = refused(UsageError, "HP-F021", out.backward)
    assert "backward of NestedBackward" in text


@pytest.mark.parametrize("where", ["infer_layout", "get_expand_impl", "preprocess", "backward"])
def test_an_error_in_any_stage_on_one_rank_is_named(where):
    def lost(stage):
        if stage == where and hp.rank() == 2:
            raise KeyError("lost")

    class Stages(DistributedOp):
        def preprocess(self, args, kwargs):
            lost("preprocess")
            return (args[0].to_local(),), {}, [args[0].layout]

        def infer_layout(self, cache_values):
            lost("infer_layout")
            return (cache_values[0],), None

        def get_expand_impl(self, func, infer_result, cache_values):
            lost("get_expand_impl")

    class Function(DFunction):
        _op_name = "Stages"

        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            lost("backward")
            return 2 * hp.all_reduce(grad, "tp")

    def step():
        Function.apply(put(drawn(4, 4), GRID("dp", "tp"))).sum().backward()

    Stages("Stages")
    try:
        with pytest.raises(KeyError) as caught:
            hp.run_local(step, 4)
    finally:
        assert hp.unregister_distributed_op("Stages")
    assert "on rank 2" in "".join(caught.value.__notes__)
