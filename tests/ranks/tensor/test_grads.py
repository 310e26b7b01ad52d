"""Values and gradients of a step, pending sums, settings, and reports of collectives."""

import torch
from ranks_support import on_ranks, refused
from torch import nn

import hyper_parallel as hp
from hyper_parallel import (
    DTensor,
    Layout,
    Partial,
    Replicate,
    Shard,
    UnsupportedError,
    UsageError,
    parallelize_value_and_grad,
)

f64 = torch.float64
LAYOUT = Layout((2, 2), ("dp", "tp"))


def value(*shape, seed=0):
    return torch.randn(shape, dtype=f64, generator=torch.Generator().manual_seed(seed))


def put(tensor, *entries):
    return hp.distribute_tensor(tensor, LAYOUT(*entries), src_data_rank=None)


def problem():
    """A weight and an input in some layouts, and the same on one device."""
    w, x = value(6, 5), value(4, 6, seed=1)
    for split_w, split_x in (
        (("None", "tp"), ("dp", "None")),
        (("tp", "None"), ("dp", "tp")),
        (("None", "None"), (("dp", "tp"), "None")),
    ):
        yield put(w, *split_w).requires_grad_(), put(x, *split_x), w.clone().requires_grad_(), x


# ---- parallelize_value_and_grad ------------------------------------------------------------


@on_ranks(4)
def test_one_output():
    for w, x, plain, whole in problem():
        step = parallelize_value_and_grad(lambda x, w: (x @ w).square().sum(), [w])
        loss, grads = step(x, w)
        want = (whole @ plain).square().sum()
        want.backward()
        torch.testing.assert_close(loss.detach().full_tensor(), want.detach())
        assert type(grads[0]) is DTensor and grads[0].layout == w.layout
        torch.testing.assert_close(grads[0].full_tensor(), plain.grad)
        assert w.grad is None


@on_ranks(4)
def test_an_output_that_is_no_scalar_counts_by_its_sum():
    for w, x, plain, whole in problem():
        _, (grad,) = parallelize_value_and_grad(lambda x, w: x @ w, [w])(x, w)
        (whole @ plain).sum().backward()
        torch.testing.assert_close(grad.full_tensor(), plain.grad)


@on_ranks(4)
def test_several_outputs():
    def outputs(x, w):
        y = x @ w
        return y.square().sum(), y, y.sum()

    weights_of = {None: (1, 0, 0), (0.5, 0.0, 2.0): (0.5, 0, 2), (1, 1, 1): (1, 1, 1)}
    for w, x, plain, whole in problem():
        for sens, weights in weights_of.items():
            values, (grad,) = parallelize_value_and_grad(outputs, [w], sens)(x, w)
            assert len(values) == 3
            plain.grad = None
            wanted = outputs(whole, plain)
            sum(
                weight * each.sum() for weight, each in zip(weights, wanted, strict=True)
            ).backward()
            torch.testing.assert_close(grad.full_tensor(), plain.grad)


@on_ranks(4)
def test_replicated_losses_are_divided_by_their_copies():
    w = put(torch.ones((), dtype=f64)).requires_grad_()
    _, (grad,) = parallelize_value_and_grad(lambda: w * 3, [w])()
    assert grad.full_tensor().item() == 3.0


@on_ranks(4)
def test_modules_and_plain_weights():
    torch.manual_seed(0)
    module = nn.Linear(6, 5, dtype=f64)
    with torch.no_grad():
        module.weight.copy_(value(5, 6))
        module.bias.zero_()
    plan = {
        "parameter": {"weight": LAYOUT("tp", "None")},
        "forward": {"input": LAYOUT("dp", "None")},
    }
    hp.shard_module(module, plan)
    extra = torch.ones(5, dtype=f64, requires_grad=True)
    weights = [*module.parameters(), extra]

    def loss(x):
        return (module(x) * extra).square().sum()

    _, grads = parallelize_value_and_grad(loss, weights)(value(4, 6, seed=1))
    y = value(4, 6, seed=1) @ value(5, 6).T
    torch.testing.assert_close(grads[0].full_tensor(), 2 * y.T @ value(4, 6, seed=1))
    torch.testing.assert_close(grads[1].full_tensor(), 2 * y.sum(0))
    assert type(grads[2]) is torch.Tensor
    torch.testing.assert_close(grads[2], 2 * y.square().sum(0))
    direct = parallelize_value_and_grad(module, module.parameters())
    assert [g.layout for g in direct(value(4, 6))[1]] == [p.layout for p in module.parameters()]


@on_ranks(4)
def test_grad_of_leaves_is_left_as_it_was():
    w, other = put(value(4), "tp").requires_grad_(), put(value(4), "dp").requires_grad_()
    (w * 2).sum().backward()
    before = w.grad
    _, (grad,) = parallelize_value_and_grad(lambda: (w * other * 5).sum(), [w])()
    assert w.grad is before and w.grad.tolist() == [2.0] * 4 and other.grad is None
    torch.testing.assert_close(grad.full_tensor(), 5 * value(4))
    with torch.no_grad():
        parallelize_value_and_grad(lambda: (w * 2).sum(), [w])()


@on_ranks(4)
def test_a_weight_without_influence_gets_zeros():
    w, unused = put(value(4), "tp").requires_grad_(), put(value(4), "dp").requires_grad_()
    _, grads = parallelize_value_and_grad(lambda: w.sum(), [w, unused])()
    assert grads[1].tolist() == [0.0] * 4 and grads[1].layout == unused.layout


@on_ranks(2)
def test_misuse_is_refused():
    w = torch.ones(2, requires_grad=True)
    make = parallelize_value_and_grad
    refused(UsageError, "HP-G012", make(lambda: w.sum(), [w], [1.0]))
    refused(UsageError, "HP-G012", make(lambda: (w.sum(),), [w], [1.0]))
    refused(UsageError, "HP-G013", make(lambda: (w.sum(), w), [w], [1.0]))
    refused(UsageError, "HP-G011", make, lambda: w.sum(), [w], 1.0)
    refused(UsageError, "HP-G011", make, lambda: w.sum(), [w], ["1"])
    refused(UsageError, "HP-G010", make, lambda: w.sum(), [w.detach()])
    refused(UsageError, "HP-G010", make, lambda: w.sum(), [w * 2])
    refused(UsageError, "HP-G010", make, lambda: w.sum(), ["w"])
    refused(UsageError, "HP-G014", make(lambda: w.detach().sum(), [w]))
    refused(UsageError, "HP-G014", make(lambda: (w.sum(), 3), [w], [1.0, 1.0]))
    assert make(lambda: (w.sum(), 3), [w])()[0][1] == 3


# ---- Pending sums --------------------------------------------------------------------------


@on_ranks(4)
def test_gradients_stay_pending_inside_no_grad_sync():
    x = value(4, 6, seed=1)
    w = put(value(6), "None").requires_grad_()
    with hp.no_grad_sync():
        (put(x, ("dp", "tp"), "None") @ w).square().sum().backward()
        assert w.grad.layout.has_partial
        (put(x, ("dp", "tp"), "None") @ w).square().sum().backward()
        assert w.grad.layout.has_partial
    (put(x, ("dp", "tp"), "None") @ w).square().sum().backward()
    plain = value(6).requires_grad_()
    (3 * (x @ plain).square().sum()).backward()
    assert w.grad.layout == w.layout
    torch.testing.assert_close(w.grad.full_tensor(), plain.grad)


@on_ranks(4)
def test_pending_gradients_add_to_finished_ones():
    w = put(value(6), "None").requires_grad_()
    (w * 2).sum().backward()
    with hp.no_grad_sync():
        (w * 3).sum().backward()
        torch.testing.assert_close(w.grad.full_tensor(), torch.full((6,), 5.0, dtype=f64))
    (w * 4).sum().backward()
    assert w.grad.layout == w.layout and w.grad.tolist() == [9.0] * 6


@on_ranks(4)
def test_all_pending_sums_are_one_collective():
    weights = [put(value(6, seed=i), "None").requires_grad_() for i in range(5)]
    x = put(value(4, 6), ("dp", "tp"), "None")
    terms = [(x @ w).square().sum() for w in weights]
    with hp.comm_report() as report:
        sum(terms[1:], terms[0]).backward()
    assert len(report.rows) == 5 and report.count(kind="all_reduce") == 1, report
    assert all(row.phase == "backward" and row.joined for row in report.rows)
    assert report.rows[0].reason == "gradient of a replicated leaf"


# ---- Settings ------------------------------------------------------------------------------


@on_ranks(2)
def test_policy_holds_in_a_block_or_from_now_on():
    from hyper_parallel import _torch

    assert _torch.policy() == "auto"
    with hp.policy("strict"):
        assert _torch.policy() == "strict"
    assert _torch.policy() == "auto"
    hp.policy("strict")
    assert _torch.policy() == "strict"
    hp.policy("auto")
    assert "auto, strict" in refused(UsageError, "HP-D032", hp.policy, "lenient")


# ---- Reports -------------------------------------------------------------------------------


@on_ranks(4)
def test_a_report_counts_by_phase_kind_and_axes():
    x = put(value(4, 6), "dp", "tp").requires_grad_()
    with hp.comm_report() as report:
        y = x.redistribute(LAYOUT("dp", "None"))
        y.square().sum().reduce_partial()
    assert report.count() == 2
    gather = report.select(kind="all_gather")[0]
    assert gather.axes == ("tp",) and gather.phase == "forward" and gather.ranks == 2
    assert gather.tensor == "f64[4, 6]" and gather.bytes == 2 * 3 * 8
    assert report.count(kind="all_reduce") == report.count(axes=("dp",), kind="all_reduce") == 1
    assert report.bytes(kind="all_gather", axes="tp") == 48
    assert report.count(phase="backward") == 0
    lines = report.table().splitlines()
    assert lines[0].split() == ["phase", "collective", "axes", "count", "bytes", "a", "rank"]
    assert lines[1].split()[:4] == ["forward", "all_gather", "tp", "1"]
    assert lines[-1].startswith("total")
    with hp.comm_report() as report:
        y.square().sum().backward()
    assert report.count(kind="reduce_scatter", phase="backward", axes="tp") == 1


@on_ranks(4)
def test_a_report_is_written_as_a_page():
    import tempfile
    from pathlib import Path

    x = put(value(4, 6), "dp", "tp")
    report = hp.comm_report(lambda: x.full_tensor())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        report.to_html(path, title="a < b")
        page = path.read_text()
    assert "<h1>a &lt; b</h1>" in page and "all_gather" in page and "f64[4, 6]" in page


@on_ranks(4)
def test_explain_says_why():
    x, w = put(value(4, 6), "dp", "None"), put(value(6, 5), "tp", "None")
    with hp.explain() as why:
        y = x @ w
        y.reduce_partial()
        (y * y).sum()
    text = str(why)
    assert "over tp" in text and "bytes" in text
    ops = {row.op for row in why.rows}
    assert "" in ops, "reduce_partial is asked for by the program"
    assert any(row.op.startswith("aten::mul") and row.reason for row in why.rows), text
    assert str(hp.explain(lambda: x * 2)) == "no collective was issued"
    # A distributed algorithm is shown beside the gather that it spares: 3/4 of 4 * 6 numbers, here
    # of half the rows.
    text = str(hp.explain(lambda: put(value(4, 6), "dp", "tp").cumsum(1)))
    assert "aten::cumsum: cumsum, where a gather moves 48 bytes" in text, text


@on_ranks(2)
def test_reports_nest():
    line = Layout((2,), ("tp",))
    x = hp.distribute_tensor(value(4), line("tp"))
    with hp.comm_report() as outer:
        with hp.comm_report() as inner:
            x.full_tensor()
        x.full_tensor()
    assert (outer.count(), inner.count()) == (2, 1)
    refused(UsageError, "HP-R020", lambda: _twice(outer))


def _twice(report):
    with report, report:
        pass


@on_ranks(2)
def test_values_in_partial_layouts_keep_their_gradient():
    line = Layout((2,), ("tp",))
    part = torch.full((3,), hp.rank() + 1.0, dtype=f64, requires_grad=True)
    p = DTensor.from_local(part, line, [Partial()])
    (p.redistribute(placements=[Replicate()]) * 2).sum().backward()
    assert part.grad.tolist() == [2.0] * 3
    s = DTensor.from_local(part, line, [Shard(0)])
    (s * torch.arange(6, dtype=f64)).sum().backward()
    assert part.grad.tolist() == [2.0 + i + 3 * hp.rank() for i in range(3)]


@on_ranks(2)
def test_strict_refuses_what_auto_runs_whole():
    line = Layout((2,), ("tp",))
    x = hp.distribute_tensor(value(4, 4), line("tp", "None"))
    with hp.policy("strict"):
        refused(UnsupportedError, "HP-D010", torch.linalg.eigvals, x)


@on_ranks(2)
def test_settings_of_gradients_belong_to_a_rank():
    from hyper_parallel import _torch

    if hp.rank() == 0:
        with hp.no_grad_sync():
            hp.distribute_tensor(value(2), Layout((2,), ("tp",))("tp")).full_tensor()
    else:
        hp.distribute_tensor(value(2), Layout((2,), ("tp",))("tp")).full_tensor()
        assert _torch.set_grad_sync(True)
