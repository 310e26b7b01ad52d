"""Collectives of local code: values, true transposes, mistakes."""

import pytest
import torch
from ranks_support import on_ranks, refused

import hyper_parallel as hp
from hyper_parallel import Layout, UnsupportedError, UsageError

f64 = torch.float64
GRID = Layout((2, 2), ("dp", "tp"))
LINE = Layout((3,), ("tp",))


def mine(*shape, seed=0, dtype=f64):
    """Make this rank's tensor."""
    generator = torch.Generator().manual_seed(100 * seed + hp.rank())
    return torch.randn(shape, dtype=dtype, generator=generator)


def theirs(r, *shape, seed=0):
    return torch.randn(shape, dtype=f64, generator=torch.Generator().manual_seed(100 * seed + r))


def total(value, layout):
    """Sum a number over all ranks."""
    with torch.no_grad():
        names = layout.alias_name
        return hp.all_reduce(value.detach(), names, mesh=layout).item()


def check_transpose(move, shape, layout=LINE):
    """<y, A x> over all ranks equals <A' y, x>, and A'' is A."""
    x = mine(*shape).requires_grad_()
    out = move(x)
    y = mine(*out.shape, seed=7).requires_grad_()
    (back,) = torch.autograd.grad(out, x, y, create_graph=True)
    left, right = total((out * y).sum(), layout), total((back * x).sum(), layout)
    assert abs(left - right) < 1e-10 * max(1.0, abs(left))
    (again,) = torch.autograd.grad(back, y, x.detach())
    torch.testing.assert_close(again, out.detach())


SEND = ((2, 0, 1), (0, 0, 3), (1, 1, 1))


@on_ranks(3)
def test_values():
    r, mesh = hp.rank(), LINE.device_mesh
    rows = [theirs(i, 2, 3) for i in range(3)]
    x = rows[r]
    torch.testing.assert_close(hp.all_reduce(x, "tp", mesh=mesh), sum(rows))
    torch.testing.assert_close(hp.all_reduce(x, "tp", "avg", mesh=mesh), sum(rows) / 3)
    stacked = torch.stack(rows)
    torch.testing.assert_close(hp.all_reduce(x, "tp", "max", mesh=mesh), stacked.amax(0))
    torch.testing.assert_close(hp.all_reduce(x, "tp", "prod", mesh=mesh), stacked.prod(0))
    torch.testing.assert_close(hp.all_gather(x, "tp", mesh=mesh), torch.cat(rows))
    torch.testing.assert_close(hp.all_gather(x, "tp", 1, mesh=mesh), torch.cat(rows, 1))
    part = hp.reduce_scatter(x, "tp", 1, mesh=mesh)
    torch.testing.assert_close(part, sum(rows)[:, r : r + 1])
    torch.testing.assert_close(hp.broadcast(x, "tp", 2, mesh=mesh), rows[2])
    ring = hp.permute(x, "tp", [(0, 1), (1, 2)], mesh=mesh)
    torch.testing.assert_close(ring, rows[r - 1] if r else torch.zeros(2, 3, dtype=f64))
    assert hp.axis_rank("tp", mesh=mesh) == r and hp.axis_size("tp", mesh=mesh) == 3


@on_ranks(3)
def test_uneven_sizes():
    r, mesh = hp.rank(), LINE.device_mesh
    sizes = [2, 0, 3]
    whole = torch.cat([theirs(i, sizes[i], 2) for i in range(3)])
    out = hp.all_gather(mine(sizes[r], 2), "tp", sizes=sizes, mesh=mesh)
    torch.testing.assert_close(out, whole)
    x = [theirs(i, 5, 2) for i in range(3)]
    part = hp.reduce_scatter(x[r], "tp", sizes=sizes, mesh=mesh)
    torch.testing.assert_close(part, sum(x).split(sizes)[r])
    sent = [theirs(i, 3, 2).split(SEND[i]) for i in range(3)]
    want = torch.cat([sent[i][r] for i in range(3)])
    torch.testing.assert_close(hp.all_to_all(mine(3, 2), "tp", SEND[r], mesh=mesh), want)
    receive = torch.tensor([SEND[i][r] for i in range(3)])
    out = hp.all_to_all(mine(3, 2), "tp", torch.tensor(SEND[r]), receive, mesh=mesh)
    torch.testing.assert_close(out, want)


@on_ranks(3)
def test_transposes():
    r, mesh = hp.rank(), LINE.device_mesh
    check_transpose(lambda x: hp.all_reduce(x, "tp", mesh=mesh), (2, 3))
    check_transpose(lambda x: hp.all_reduce(x, "tp", "avg", mesh=mesh), (2, 3))
    for dim in (0, 1, -1):
        check_transpose(lambda x, dim=dim: hp.all_gather(x, "tp", dim, mesh=mesh), (2, 3))
        check_transpose(lambda x, dim=dim: hp.reduce_scatter(x, "tp", dim, mesh=mesh), (3, 6))
    check_transpose(lambda x: hp.reduce_scatter(x, "tp", 0, "avg", mesh=mesh), (3, 2))
    sizes = [2, 0, 3]
    check_transpose(lambda x: hp.all_gather(x, "tp", sizes=sizes, mesh=mesh), (sizes[r], 2))
    check_transpose(lambda x: hp.reduce_scatter(x, "tp", sizes=sizes, mesh=mesh), (5, 2))
    check_transpose(lambda x: hp.all_to_all(x, "tp", mesh=mesh), (6, 2))
    check_transpose(lambda x: hp.all_to_all(x, "tp", SEND[r], mesh=mesh), (3, 2))
    check_transpose(lambda x: hp.broadcast(x, "tp", 1, mesh=mesh), (2, 2))
    check_transpose(lambda x: hp.permute(x, "tp", [(0, 2), (2, 1)], mesh=mesh), (2, 2))


@on_ranks(4)
def test_several_axes_are_one_group():
    mesh = GRID.device_mesh
    out = hp.all_gather(mine(1), ("dp", "tp"), mesh=mesh)
    torch.testing.assert_close(out, torch.cat([theirs(r, 1) for r in range(4)]))
    out = hp.all_gather(mine(1), ("tp", "dp"), mesh=mesh)
    torch.testing.assert_close(out, torch.cat([theirs(r, 1) for r in (0, 2, 1, 3)]))
    assert hp.axis_rank("dp", mesh=mesh) == hp.rank() // 2
    check_transpose(lambda x: hp.all_reduce(x, ("dp", "tp"), mesh=mesh), (2,), GRID)


@on_ranks(3)
def test_asynchronous_calls():
    mesh = LINE.device_mesh
    x = mine(3).requires_grad_()
    one = hp.all_reduce(x, "tp", mesh=mesh, async_op=True)
    two = hp.all_gather(x, "tp", mesh=mesh, async_op=True)
    out = one.wait().sum() + 2 * two.wait().sum()
    assert one.wait() is one.wait()
    out.backward()
    torch.testing.assert_close(x.grad, torch.full((3,), 9.0, dtype=f64))


@on_ranks(3)
def test_every_collective_is_asynchronous_on_request():
    """All are under way before the first is waited for; values and transposes are the same."""
    r, mesh = hp.rank(), LINE.device_mesh
    sizes = [2, 0, 3]

    def moves(x, wide, **options):
        options |= dict(mesh=mesh)
        return [
            hp.all_reduce(x, "tp", **options),
            hp.all_reduce(x, "tp", "avg", **options),
            hp.all_gather(x, "tp", 1, **options),
            hp.all_gather(wide[: sizes[r]], "tp", sizes=sizes, **options),
            hp.reduce_scatter(wide, "tp", sizes=sizes, **options),
            hp.all_to_all(x, "tp", SEND[r], **options),
            hp.all_to_all(x, "tp", torch.tensor(SEND[r]), [s[r] for s in SEND], **options),
            hp.broadcast(x, "tp", 2, **options),
            hp.permute(x, "tp", [(0, 2), (2, 1)], **options),
        ]

    def gradients(found, inputs):
        starts = [mine(*out.shape, seed=20 + i) for i, out in enumerate(found)]
        return torch.autograd.grad(found, inputs, starts)

    inputs = mine(3, 2).requires_grad_(), mine(5, 2, seed=1).requires_grad_()
    at_once = moves(*inputs)
    pending = moves(*inputs, async_op=True)
    assert all(not isinstance(each, torch.Tensor) for each in pending)
    later = [each.wait() for each in pending]
    for one, other in zip(at_once, later, strict=True):
        assert torch.equal(one, other)
    for one, other in zip(gradients(at_once, inputs), gradients(later, inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_a_data_dependent_exchange_equals_one_device():
    """Rows go to the rank that their value names, are scaled there, and come home."""
    rows = torch.cat([theirs(r, 2 + r, 3) for r in range(3)])
    weights = torch.arange(1.0, 4.0, dtype=f64)
    owner = (rows[:, 0] > 0).long() + (rows[:, 1] > 0).long()
    x, w = rows.clone().requires_grad_(), weights.clone().requires_grad_()
    (x * w[owner].unsqueeze(1)).square().sum().backward()

    def step():
        r, mesh = hp.rank(), LINE.device_mesh
        begin = sum(2 + i for i in range(r))
        part = rows[begin : begin + 2 + r].clone().requires_grad_()
        own = owner[begin : begin + 2 + r]
        mine_of = weights[r : r + 1].clone().requires_grad_()
        order = own.argsort(stable=True)
        counts = torch.bincount(own, minlength=3)
        came = hp.all_to_all(counts, "tp", mesh=mesh)
        arrived = hp.all_to_all(part[order], "tp", counts, mesh=mesh) * mine_of
        home = hp.all_to_all(arrived, "tp", came, counts, mesh=mesh)
        home.square().sum().backward()
        torch.testing.assert_close(part.grad, x.grad[begin : begin + 2 + r], rtol=0, atol=1e-12)
        torch.testing.assert_close(mine_of.grad, w.grad[r : r + 1], rtol=0, atol=1e-12)
        return len(set(counts.tolist()))

    assert max(hp.run_local(step, 3)) > 1  # uneven


@on_ranks(3)
def test_types_that_backends_lack():
    mesh, r = LINE.device_mesh, hp.rank()
    z = torch.complex(mine(2, 3), mine(2, 3, seed=1)).requires_grad_()
    out = hp.all_gather(z, "tp", 1, mesh=mesh)
    assert out.shape == (2, 9) and torch.equal(out[:, 3 * r : 3 * r + 3].detach(), z.detach())
    out.abs().square().sum().backward()
    torch.testing.assert_close(z.grad, 6 * z.detach())
    flags = torch.tensor([r == 0, r == 1, True])
    assert hp.all_reduce(flags, "tp", "max", mesh=mesh).tolist() == [True, True, True]
    assert hp.all_reduce(flags, "tp", "min", mesh=mesh).tolist() == [False, False, True]
    refused(UsageError, "HP-C020", hp.all_reduce, flags, "tp", mesh=mesh)
    assert hp.permute(z.detach(), "tp", [(0, 1)], mesh=mesh).shape == (2, 3)


def test_one_rank():
    mesh = Layout((1,), ("tp",)).device_mesh
    x = torch.randn(2, 2, requires_grad=True)
    for move in (
        hp.all_reduce(x, "tp", mesh=mesh),
        hp.all_gather(x, "tp", mesh=mesh),
        hp.reduce_scatter(x, "tp", mesh=mesh),
        hp.all_to_all(x, "tp", mesh=mesh),
        hp.all_to_all(x, "tp", [2], mesh=mesh),
        hp.broadcast(x, "tp", mesh=mesh),
        hp.permute(x, "tp", [(0, 0)], mesh=mesh),
    ):
        assert torch.equal(move, x) and move is not x
        (back,) = torch.autograd.grad(move.sum(), x)
        assert torch.equal(back, torch.ones(2, 2))


@on_ranks(3)
def test_they_stand_in_the_report():
    mesh = LINE.device_mesh
    with hp.comm_report() as report:
        x = mine(3, 2).requires_grad_()
        hp.all_to_all(
            x, "tp", SEND[hp.rank()], [s[hp.rank()] for s in SEND], mesh=mesh
        ).sum().backward()
    assert [(row.kind, row.phase, row.axes) for row in report.rows] == [
        ("all_to_all", "forward", ("tp",)),
        ("all_to_all", "backward", ("tp",)),
    ]


@on_ranks(3)
def test_mistakes():
    mesh, x = LINE.device_mesh, mine(4, 2)
    assert "mesh=" in refused(UsageError, "HP-C024", hp.all_reduce, x, "tp")
    refused(UsageError, "HP-M010", hp.all_reduce, x, "dp", mesh=mesh)
    assert "sum, avg" in refused(UsageError, "HP-C020", hp.all_reduce, x, "tp", "mean", mesh=mesh)
    refused(UsageError, "HP-C020", hp.reduce_scatter, x, "tp", 0, "max", mesh=mesh)
    refused(
        UnsupportedError, "HP-C021", hp.all_reduce, mine(2).requires_grad_(), "tp", "max", mesh=mesh
    )
    assert "4 rows" in refused(UsageError, "HP-C022", hp.reduce_scatter, x, "tp", mesh=mesh)
    refused(UsageError, "HP-C022", hp.reduce_scatter, x, "tp", sizes=[1, 1, 1], mesh=mesh)
    refused(UsageError, "HP-C022", hp.all_gather, x, "tp", 2, mesh=mesh)
    refused(UsageError, "HP-C022", hp.all_gather, x, "tp", sizes=[1, 1, 1], mesh=mesh)
    assert "one size a rank" in refused(
        UsageError, "HP-C022", hp.all_to_all, x, "tp", [4], mesh=mesh
    )
    refused(UsageError, "HP-C022", hp.all_to_all, x, "tp", [1, 1, 1], mesh=mesh)
    refused(UsageError, "HP-C022", hp.all_to_all, x, "tp", mesh=mesh)
    refused(UsageError, "HP-C023", hp.broadcast, x, "tp", 3, mesh=mesh)
    refused(UsageError, "HP-C023", hp.permute, x, "tp", [(0, 1), (0, 2)], mesh=mesh)
    d = hp.distribute_tensor(x, LINE("tp", "None"), src_data_rank=None)
    refused(UsageError, "HP-C025", hp.all_reduce, d, "tp", mesh=mesh)


def test_sizes_that_ranks_disagree_on():
    def step():
        wrong = [1, 1, 1] if hp.rank() else [2, 2, 2]
        hp.all_to_all(mine(3, 2), "tp", [1, 1, 1], wrong, mesh=LINE.device_mesh)

    with pytest.raises((hp.UsageError, hp.CommError)):
        hp.run_local(step, 3, timeout=5.0)
