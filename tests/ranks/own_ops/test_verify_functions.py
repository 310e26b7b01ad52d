"""verify on DFunctions and on ops that a DistributedOp answers."""

import pytest
import torch
from own_ops_support import MyAdd, MyMatmul, ScaledProduct, drawn
from ranks_support import refused

import hyper_parallel as hp
from hyper_parallel import DFunction, UsageError
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp

MESHES = [(2,), (3,), (2, 2)]


class Weighted(ScaledProduct):
    _op_name = "Weighted"


@pytest.fixture
def rule():
    hp.register_rule("Weighted", "*m k, *k n -> m n")
    yield
    hp.unregister_rule("Weighted")


INPUTS = (drawn(5, 3), drawn(3, 4), 2.0)


@pytest.mark.parametrize("op", [Weighted, "Weighted"])
def test_a_true_rule_of_a_function(rule, op):
    report = hp.verify(op, INPUTS, meshes=MESHES)
    assert not report.wrong, report.wrong[0]
    # R, two cuts and P(sum) of each input along an axis; on the grid a sample of all pairs
    assert report.total("dispatched") == report.total("backward") == 16 + 16 + 64
    assert report.total("refused") == 0 and report.ops["Weighted"].error < 1e-12


def test_a_wrong_rule_of_a_function():
    hp.register_rule("Weighted", "m k, *k n -> m n")  # x is linear too, but that is no mistake
    try:
        assert not hp.verify(Weighted, INPUTS, meshes=[(2,)]).wrong
    finally:
        hp.unregister_rule("Weighted")
    hp.register_rule("Weighted", "m k, q n -> m n")
    try:
        report = hp.verify(Weighted, INPUTS, meshes=[(2,)])
    finally:
        hp.unregister_rule("Weighted")
    assert report.wrong and "Weighted" in str(report.wrong[0])


def test_a_gradient_that_depends_on_the_cut_is_found(rule):
    class WrongBackward(Weighted):
        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            return grad @ w.t() * ctx.scale, x.t() @ grad * ctx.scale * grad.shape[0], None

    report = hp.verify(WrongBackward, INPUTS, meshes=[(2,)])
    assert {finding.kind for finding in report.wrong} == {"gradient"}
    text = refused(UsageError, "HP-V003", hp.verify, "Weighted", INPUTS)
    assert "2 functions" in text and "WrongBackward" in text


def test_functions_with_a_distributed_op():
    for function, inputs in ((MyAdd, (drawn(5, 3), drawn(5, 3))), (MyMatmul, INPUTS[:2])):
        report = hp.verify(function, inputs, meshes=[(2,)])
        wrong = {finding.line for finding in report.wrong}
        assert report.total("dispatched") > 0
        # The samples check less than they should: MyAdd takes inputs of different layouts, and
        # that is found.
        assert bool(wrong) == (function is MyAdd)


class Checked(DistributedOp):
    def infer_layout(self, layouts, extra_args=None):
        self._check_partial_inputs(layouts)
        if layouts[0] != layouts[1]:
            raise ValueError("inputs lie in different ways")
        return layouts[0]


def test_ops_of_torch_with_a_distributed_op():
    Checked("mul")
    try:
        report = hp.verify("aten::mul.Tensor", (drawn(5, 3), drawn(5, 3)), meshes=MESHES)
        assert not report.wrong and report.total("refused") > report.total("dispatched") > 5
        Checked("mul_")
        report = hp.verify("mul_", (drawn(5, 3), drawn(5, 3)), meshes=[(2,)])
        assert not report.wrong and report.total("dispatched") == 3
    finally:
        hp.unregister_distributed_op("mul")
        hp.unregister_distributed_op("mul_")


def test_mistakes():
    assert "example_inputs" in refused(UsageError, "HP-V003", hp.verify, MyAdd)
    refused(UsageError, "HP-V003", hp.verify, 3, INPUTS)

    class Nameless(DFunction):
        pass

    refused(UsageError, "HP-F022", hp.verify, Nameless, INPUTS)
    Checked("NoFunction")
    text = refused(UsageError, "HP-V003", hp.verify, "NoFunction", INPUTS)
    assert 'no DFunction has the _op_name "NoFunction"' in text
    hp.unregister_distributed_op("NoFunction")


def test_two_functions_of_one_name_run_their_own_code():
    class Doubled(DistributedOp):
        def get_expand_impl(self, func, *rest):
            return lambda x: 2 * func(x)

    class One(DFunction):
        _op_name = "Doubled"

        @staticmethod
        def forward(ctx, x):
            return x + 1

    class Two(One):
        @staticmethod
        def forward(ctx, x):
            return x + 2

    Doubled("Doubled")
    layout = hp.Layout((2,), ("tp",))("tp")

    def step():
        x = hp.distribute_tensor(torch.zeros(4), layout)
        return One.apply(x).tolist(), Two.apply(x).tolist(), One.apply(x).tolist()

    try:
        assert hp.run_local(step, 2)[0] == ([2.0] * 4, [4.0] * 4, [2.0] * 4)
    finally:
        hp.unregister_distributed_op("Doubled")
