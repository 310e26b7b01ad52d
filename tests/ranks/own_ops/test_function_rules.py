"""Rules of functions that are no ops of torch: attributes, lists, word forms, inference."""

import pytest
import torch
from own_ops_support import GRID, LINE, MyAdd, drawn, equal, put
from ranks_support import on_ranks, refused

import hyper_parallel as hp
from hyper_parallel import DFunction, UnsupportedError, UsageError


def function(name, run, back):
    """Make a DFunction of ``run(*args)`` and of its gradient by ``back(args, grad)``."""

    class Function(DFunction):
        _op_name = name

        @staticmethod
        def forward(ctx, x, dim=None, size=None):
            ctx.given = (x, dim, size)
            return run(x, dim, size)

        @staticmethod
        def backward(ctx, grad):
            return back(grad, *ctx.given), None, None

    return Function


@pytest.fixture
def rules():
    """Register rules, and take them away afterwards."""
    made = []

    def register(name, rule):
        hp.register_rule(name, rule)
        made.append(name)

    yield register
    for name in made:
        assert hp.unregister_rule(name)


def compare(call, shapes, layouts):
    """One step on ranks equals that on one device: value and gradients."""
    plain = [drawn(*shape, seed=i).requires_grad_() for i, shape in enumerate(shapes)]
    want = call(*plain)
    want.square().sum().backward()

    def step():
        made = [
            put(drawn(*shape, seed=i), layout)
            for i, (shape, layout) in enumerate(zip(shapes, layouts, strict=True))
        ]
        out = call(*made)
        equal(out, want.detach())
        out.square().sum().backward()
        for mine, theirs in zip(made, plain, strict=True):
            equal(mine.grad, theirs.grad)
        return str(out.layout)

    return hp.run_local(step, 4)[0]


def test_attributes_go_by_the_names_of_forward(rules):
    flip = function("Flip", lambda x, dim, _: x.flip(dim), lambda g, x, dim, _: g.flip(dim))
    rules("Flip", "... d!@dim -> =")
    for dim, layout in ((0, "dp=2 tp=2: R S(1)"), (1, "dp=2 tp=2: S(0) R"), (-1, None)):
        found = compare(lambda x, d=dim: flip.apply(x, d), [(5, 3)], [GRID("dp", "tp")])
        assert layout in (None, found)


def test_word_forms_of_builders(rules):
    total = function(
        "Total",
        lambda x, dim, _: x.sum(dim),
        lambda g, x, dim, _: g.unsqueeze(dim).expand(x.shape),
    )
    rules("Total", "reduce sum")
    assert compare(lambda x: total.apply(x, 1), [(5, 3)], [GRID("dp", "None")]) == (
        "dp=2 tp=2: S(0) R"
    )
    for layout in (GRID("dp", "tp"), GRID("tp", "dp"), GRID("None", ("tp", "dp"))):
        for dim in (0, 1):
            compare(lambda x, d=dim: total.apply(x, d), [(5, 3)], [layout])
    rules("Square", "pointwise")
    square = function("Square", lambda x, *_: x * x, lambda g, x, *_: 2 * x * g)
    assert compare(lambda x: square.apply(x), [(5, 3)], [GRID("dp", "tp")]).endswith("S(0) S(1)")


def test_arguments_that_are_local_are_replaced(rules):
    rules("Reshape", "view size")

    class Reshape(DFunction):
        _op_name = "Reshape"

        @staticmethod
        def forward(ctx, x, size):
            ctx.shape = x.shape
            return x.reshape(size)

        @staticmethod
        def backward(ctx, grad):
            return grad.reshape(ctx.shape), None

    found = compare(lambda x: Reshape.apply(x, [4, 2, 3]), [(4, 6)], [GRID("dp", "tp")])
    assert found.startswith("dp=2 tp=2: S(0)")


def test_lists_of_tensors_are_operands(rules):
    rules("Join", "cat")

    class Join(DFunction):
        _op_name = "Join"

        @staticmethod
        def forward(ctx, tensors, dim):
            return torch.cat(tensors, dim)

    class Two(DFunction):
        _op_name = "Two"

        @staticmethod
        def forward(ctx, x, w, bias):
            ctx.save_for_backward(x, w)
            ctx.bias = bias is not None
            return x @ w if bias is None else x @ w + bias

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            return grad @ w.t(), x.t() @ grad, grad.sum(0) if ctx.bias else None

    def step():
        x, y = (
            put(drawn(5, 3), GRID("dp", "tp"), grad=False),
            put(drawn(5, 3), GRID("None", "dp"), grad=False),
        )
        out = Join.apply([x, y], 1)
        equal(out, torch.cat([drawn(5, 3)] * 2, 1))

    hp.run_local(step, 4)
    rules("Two", "*m k, *k n, ?+n -> m n")
    cut = [GRID("dp", "tp"), GRID("tp", "None")]
    compare(lambda x, w: Two.apply(x, w, None), [(5, 3), (3, 4)], cut)
    free = [GRID("dp", "None"), GRID("None", "tp"), GRID("None")]
    compare(lambda x, w, b: Two.apply(x, w, b), [(5, 3), (3, 4), (4,)], free)


def test_what_a_function_cannot_do_is_refused(rules):
    rules("Soft", "... d~softmax@dim -> =")
    soft = function("Soft", lambda x, dim, _: x.softmax(dim), lambda g, *_: g)

    def step():
        with torch.no_grad():
            x = put(drawn(4, 4), LINE("tp", "None"))
            equal(soft.apply(x, 1), drawn(4, 4).softmax(1))
            text = refused(UnsupportedError, "HP-F040", soft.apply, put(x, LINE("None", "tp")), 1)
            assert "handler softmax" in text and "mark that letter with !" in text
            refused(UsageError, "HP-S004", soft.apply, x, 7)

    hp.run_local(step, 2)


def test_inference_by_the_name_of_a_function(rules):
    rules("Product2", "*m k, *k n -> m n")
    x, w = "f32[8, 16] on dp=2 tp=2: S(0) S(1)", "f32[16, 32] R R"
    assert str(hp.infer_forward("Product2", [x, w]).outputs[0].layout) == "S(0) P(sum)"
    assert str(hp.infer_backward("Product2", [x, w], ["S(0) S(1)"]).inputs[1].layout) == "R S(1)"
    assert str(hp.infer_grad("Product2", [x, w], ["S(0) R"]).grads[1].layout) == "P(sum) S(0)"
    assert any(
        line.text.startswith("S(1) S(0) -> P(sum)") for line in hp.strategies("Product2", [x, w])
    )
    text = refused(UsageError, "HP-S040", hp.infer_forward, "Product3", [x, w])
    assert "Product2" in text


def test_two_rules_for_one_op(rules):
    rules("aten::sinc", "a ... -> a ...")
    hp.register_rule("aten::sinc", "a ... -> a ...")  # the same again is no mistake
    text = refused(UsageError, "HP-S045", hp.register_rule, "aten::sinc", "... -> ...")
    assert "registered  a ... -> a ..." in text and "unregister_rule" in text
    rules("Flip2", "a b -> a b")
    refused(UsageError, "HP-S045", hp.register_rule, "Flip2", "a! b -> a! b")
    text = refused(UsageError, "HP-F033", hp.register_rule, "MyAdd", "a b, a b -> a b")
    assert "MyAdd" in text and MyAdd._op_name == "MyAdd"


def test_a_rule_and_a_distributed_op_for_one_op(rules):
    rules("aten::sinc", "a ... -> a ...")
    text = refused(UsageError, "HP-F033", hp.DistributedOp, "sinc")
    assert "aten::sinc has a rule already" in text
    with pytest.raises(UsageError, match="no distributed op"):
        hp.get_distributed_op("sinc")
    hp.DistributedOp("expm1")
    try:
        text = refused(UsageError, "HP-F033", hp.register_rule, "aten::expm1", "a -> a")
        assert "has a distributed op already" in text
    finally:
        assert hp.unregister_distributed_op("expm1")


def test_words_of_builders_are_checked():
    text = refused(UsageError, "HP-S046", hp.register_rule, "Unread", "view")
    assert "view shape; view size" in text
    refused(UsageError, "HP-S046", hp.register_rule, "aten::sinc", "reduce nothing")


@on_ranks(2)
def test_a_rule_that_cannot_be_read_leaves_nothing():
    if hp.rank() == 0:
        with pytest.raises(UsageError):
            hp.register_rule("Unread", "a b ->")
        refused(UsageError, "HP-F020", hp.get_distributed_op, "Unread")
