"""One line makes an op of the program's own a distributed one."""

import pytest
import torch
import torch.nn.functional as F
from own_ops_support import ScaledProduct
from ranks_support import on_ranks, refused

import hyper_parallel as hp
from hyper_parallel import DTensor, Layout, Partial, UsageError

f64 = torch.float64
GRID = Layout((2, 2), ("dp", "tp"))


@torch.library.custom_op("hp_tests::swiglu", mutates_args=())
def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(gate) * up


@swiglu.register_fake
def _(gate, up):
    return torch.empty_like(gate)


def _setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad):
    gate, up = ctx.saved_tensors
    s = torch.sigmoid(gate)
    return grad * up * (s + gate * s * (1 - s)), grad * F.silu(gate)


swiglu.register_autograd(_backward, setup_context=_setup)

RULE = "... f, ... f -> ... f"


@pytest.fixture
def rule():
    hp.register_rule("hp_tests::swiglu", RULE)
    yield
    hp.unregister_rule("hp_tests::swiglu")


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=f64, generator=torch.Generator().manual_seed(seed))


def put(value, layout):
    return hp.distribute_tensor(value, layout, src_data_rank=None).requires_grad_()


def test_one_line_is_enough(rule):
    gate, up = drawn(6, 5).requires_grad_(), drawn(6, 5, seed=1).requires_grad_()
    want = swiglu(gate, up)
    want.square().sum().backward()

    def step():
        with hp.policy("strict"):
            x, y = put(drawn(6, 5), GRID("dp", "tp")), put(drawn(6, 5, seed=1), GRID("None", "tp"))
            out = swiglu(x, y)
            assert out.layout == GRID("dp", "tp")
            torch.testing.assert_close(out.full_tensor(), want.detach())
            out.square().sum().backward()
            torch.testing.assert_close(x.grad.full_tensor(), gate.grad)
            torch.testing.assert_close(y.grad.full_tensor(), up.grad)
            pending = DTensor.from_local(
                drawn(6, 5) / 2, GRID("dp", "tp").device_mesh, [Partial(), Partial()]
            )
            assert not swiglu(pending, y).layout.has_partial

    hp.run_local(step, 4)


def test_it_is_verified_on_request(rule):
    report = hp.verify("hp_tests::swiglu", (drawn(5, 3), drawn(5, 3)), meshes=[(2,), (2, 2)])
    assert not report.wrong, report.wrong
    assert report.total("forced") > 0 and report.total("backward") > 0


def test_a_wrong_rule_is_found():
    hp.register_rule("hp_tests::swiglu", "a f, b f -> a f")
    try:
        report = hp.verify("hp_tests::swiglu", (drawn(4, 4), drawn(4, 4)), meshes=[(2,)])
    except UsageError:
        return
    finally:
        hp.unregister_rule("hp_tests::swiglu")
    assert report.wrong


@on_ranks(2)
def test_without_a_rule_strict_says_what_to_do():
    line = Layout((2,), ("tp",))
    x = put(drawn(4, 4), line("tp", "None"))
    with hp.policy("strict"):
        text = refused(hp.UnsupportedError, "HP-D010", swiglu, x, x)
    assert 'register_rule("hp_tests::swiglu"' in text


def test_a_rule_of_the_user_takes_the_place_of_a_built_in_one():
    def layout_of_exp():
        line = Layout((2,), ("tp",))
        return str(torch.exp(put(drawn(4, 4), line("tp", "None"))).layout)

    assert hp.run_local(layout_of_exp, 2)[0] == "tp=2: S(0)"
    hp.register_rule("aten::exp", "a! b! -> =")
    try:
        assert hp.run_local(layout_of_exp, 2)[0] == "tp=2: R"
    finally:
        assert hp.unregister_rule("aten::exp")
    assert hp.run_local(layout_of_exp, 2)[0] == "tp=2: S(0)"
    assert not hp.unregister_rule("aten::exp")


class Product(ScaledProduct):
    _op_name = "Product"


def test_one_line_is_enough_for_a_dfunction():
    hp.register_rule("Product", "*m k, *k n -> m n")
    x, w = drawn(6, 5).requires_grad_(), drawn(5, 4, seed=1).requires_grad_()
    want = Product.apply(torch.tanh(x), w, 2.0)
    want.square().sum().backward()

    def step():
        for one, other, out_layout in (
            (("dp", "None"), ("None", "tp"), GRID("dp", "tp")),
            (("dp", "tp"), ("tp", "None"), GRID("dp", "None").with_partial("tp")),
            (("dp", "tp"), ("None", "None"), None),
        ):
            dx, dw = put(drawn(6, 5), GRID(*one)), put(drawn(5, 4, seed=1), GRID(*other))
            out = Product.apply(torch.tanh(dx), dw, 2.0)
            assert out_layout is None or out.layout == out_layout
            torch.testing.assert_close(out.full_tensor(), want.detach())
            out.square().sum().backward()
            torch.testing.assert_close(dx.grad.full_tensor(), x.grad)
            torch.testing.assert_close(dw.grad.full_tensor(), w.grad)

    try:
        hp.run_local(step, 4)

        class Wrong(Product):
            @staticmethod
            def forward(ctx, x, w, scale):
                return x[:1]

        def wrong():
            x, w = put(drawn(6, 5), GRID("dp", "None")), put(drawn(5, 4), GRID("None", "tp"))
            refused(UsageError, "HP-F041", Wrong.apply, x, w, 1.0)

        hp.run_local(wrong, 4)
    finally:
        assert hp.unregister_rule("Product")
    with pytest.raises(UsageError):
        hp.register_rule("Product", "*m k *k n")
    assert not hp.unregister_rule("Product")


def test_rules_may_be_registered_while_ranks_run():
    def step():
        x = put(drawn(4, 4), Layout((4,), ("tp",))("tp", "None"))
        for _ in range(20):
            hp.register_rule("hp_tests::swiglu", RULE)
            assert str(swiglu(x, x).layout) == "tp=4: S(0)"
            torch.testing.assert_close(torch.exp(x).sum().full_tensor(), drawn(4, 4).exp().sum())

    try:
        hp.run_local(step, 4)
    finally:
        hp.unregister_rule("hp_tests::swiglu")


def test_mistakes():
    text = refused(UsageError, "HP-S044", hp.register_rule, "hp_tests::swigl", RULE)
    assert "torch.library" in text
    assert "aten::add.Tensor" in refused(UsageError, "HP-S044", hp.register_rule, "aten::add", RULE)
    with pytest.raises(UsageError) as caught:
        hp.register_rule("hp_tests::swiglu", "a b ->")
    assert caught.value.code.startswith("HP-")
