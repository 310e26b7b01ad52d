"""Derivatives of any order across the border of plain tensors and DTensors equal one device."""

import pytest
import torch
from ranks_support import refused

import hyper_parallel as hp
from hyper_parallel import DTensor, Partial, Replicate, Shard, distribute_tensor

f64 = torch.float64
MESHES = {"line": (3,), "grid": (2, 2)}
PLACEMENTS = {
    "line": ((Shard(0),), (Shard(1),), (Replicate(),)),
    "grid": ((Shard(1), Shard(0)), (Replicate(), Shard(1)), (Shard(0), Replicate())),
}


def drawn(*shape, seed):
    return torch.randn(shape, dtype=f64, generator=torch.Generator().manual_seed(seed))


X, W, V = 0.4 * drawn(4, 5, seed=1), 0.4 * drawn(5, 3, seed=2), drawn(4, 5, seed=3)


def whole(t):
    return t.full_tensor() if isinstance(t, DTensor) else t


def same(one, other, what):
    torch.testing.assert_close(
        whole(one).detach(), other.detach(), rtol=1e-11, atol=1e-9, msg=lambda m: f"{what}: {m}"
    )


def replicated(y):
    return [Replicate()] * y.device_mesh.ndim


def as_is(y):
    return y


# How a result leaves the world of DTensors (and comes back), and the same for one device.
EXITS = {
    "none": (as_is, as_is),
    "full_tensor": (lambda y: y.full_tensor(), as_is),
    "full_tensor, gradient in R": (
        lambda y: y.full_tensor(grad_placements=replicated(y)),
        as_is,
    ),
    "to_local of R": (lambda y: y.redistribute(placements=replicated(y)).to_local(), as_is),
    "to_local, gradient in R": (
        lambda y: y.redistribute(placements=replicated(y)).to_local(grad_placements=replicated(y)),
        as_is,
    ),
    "out and in": (
        lambda y: DTensor.from_local(
            y.full_tensor().sin(), y.device_mesh, replicated(y), run_check=False
        ),
        torch.sin,
    ),
    "out and cut": (
        lambda y: distribute_tensor(
            y.full_tensor().sin(), y.device_mesh, [Shard(0), *replicated(y)[1:]]
        ),
        torch.sin,
    ),
}


def derivatives(leave, x, w):
    """Values of four orders: the loss, and what gradients of gradients of penalties give."""
    y = leave(x @ w)
    first = (y.sin() * y).sum()
    gx, gw = torch.autograd.grad(first, (x, w), create_graph=True)
    second = gx.square().sum() + (gw * gw * gw).sum()
    hx, hw = torch.autograd.grad(second, (x, w), create_graph=True)
    third = (hx * gx).sum() + hw.sin().sum()
    return [first, gx, gw, second, hx, hw, third, *torch.autograd.grad(third, (x, w))]


@pytest.mark.parametrize("plain", [False, True], ids=["both split", "plain x"])
@pytest.mark.parametrize("name", list(EXITS))
@pytest.mark.parametrize("form", list(MESHES))
def test_three_orders(form, name, plain):
    leave, alone = EXITS[name]
    want = derivatives(alone, X.clone().requires_grad_(), W.clone().requires_grad_())

    def step():
        sizes = MESHES[form]
        mesh = hp.init_device_mesh("cpu", sizes, mesh_dim_names=("a", "b")[: len(sizes)])
        for px in PLACEMENTS[form]:
            for pw in PLACEMENTS[form]:
                x = X.clone() if plain else distribute_tensor(X, mesh, px)
                w = distribute_tensor(W, mesh, pw)
                got = derivatives(leave, x.requires_grad_(), w.requires_grad_())
                for i, (one, other) in enumerate(zip(got, want, strict=True)):
                    same(one, other, f"value {i} of {name}, {px}, {pw}")

    hp.run_local(step, 3 if form == "line" else 4)


def test_gradient_penalty_and_backward():
    x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((x @ w).sin().sum(), x, create_graph=True)
    gradient.square().sum().backward()

    def step():
        mesh = hp.init_device_mesh("cpu", (hp.world_size(),), mesh_dim_names=("tp",))
        split = distribute_tensor(W, mesh, [Shard(0)]).requires_grad_()
        plain = X.clone().requires_grad_()
        y = (plain @ split).full_tensor()
        (g,) = torch.autograd.grad(y.sin().sum(), plain, create_graph=True)
        g.square().sum().backward()
        same(plain.grad, x.grad, "x")
        same(split.grad, w.grad, "w")

    for world in (2, 3, 4):
        hp.run_local(step, world)


def test_hessian_vector_products():
    def loss(x):
        return (x @ W).sin().square().sum()

    want = torch.autograd.functional.hvp(loss, X, V)[1]
    jacobian = torch.autograd.functional.vhp(loss, X, V)[1]

    def step():
        mesh = hp.init_device_mesh("cpu", (hp.world_size(),), mesh_dim_names=("tp",))
        w = distribute_tensor(W, mesh, [Shard(1)])

        def across(x):
            return (x @ w).full_tensor().sin().square().sum()

        same(torch.autograd.functional.hvp(across, X, V)[1], want, "hvp")
        same(torch.autograd.functional.vhp(across, X, V)[1], jacobian, "vhp")

    for world in (2, 3):
        hp.run_local(step, world)


def test_pending_sums_that_plain_code_gives():
    """from_local in P(sum): each rank's part has the whole gradient, to any order."""
    parts = [drawn(3, seed=20 + r) for r in range(3)]
    x = sum(parts).requires_grad_()
    (g,) = torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.square().sum(), x)

    def step():
        mesh = hp.init_device_mesh("cpu", (3,), mesh_dim_names=("tp",))
        mine = parts[hp.rank()].clone().requires_grad_()
        d = DTensor.from_local(mine, mesh, [Partial()], run_check=False)
        (one,) = torch.autograd.grad((d.sin() * d).sum(), mine, create_graph=True)
        same(one, g, "first")
        (two,) = torch.autograd.grad(one.square().sum(), mine)
        same(two, h, "second")

    hp.run_local(step, 3)


def test_the_first_order_costs_one_all_reduce():
    """P -> R -> local: the sum forward, nothing backward."""

    def step():
        mesh = hp.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        x = distribute_tensor(X, mesh, [Replicate()]).redistribute(placements=[Shard(1)])
        w = distribute_tensor(W, mesh, [Shard(0)])
        w.requires_grad_()
        with hp.comm_report() as report:
            (x @ w).full_tensor().sum().backward()
        return [(row.kind, row.phase) for row in report.rows]

    assert hp.run_local(step, 2)[0] == [("all_reduce", "forward")]


def test_averages():
    """Gradients of P(avg) are those of its value."""
    x0, w0 = torch.arange(1.0, 4).double(), torch.tensor([2.0, 3, 4]).double()
    w = w0.clone().requires_grad_()
    y = w * x0
    y.retain_grad()
    y.square().sum().backward()

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    def step():
        mesh = hp.init_device_mesh("cpu", (2,), mesh_dim_names=("a",))
        part = x0 + (1 if hp.rank() else -1)
        average = lambda: DTensor.from_local(part, mesh, [Partial("avg")], run_check=False)  # noqa: E731
        leaf = average().requires_grad_()
        (leaf * leaf).sum().backward()
        same(leaf.grad, 2 * x0, "leaf")
        v = distribute_tensor(w0, mesh, [Replicate()]).requires_grad_()
        z = v * average()
        z.retain_grad()
        z.square().sum().backward()
        same(z.grad, y.grad, "retained")
        same(v.grad, w.grad, "behind")
        v.grad = None
        Same.apply(v * average()).square().sum().backward()
        same(v.grad, w.grad, "through a function")
        v.grad = None
        (v * average()).full_tensor().square().sum().backward()
        same(v.grad, w.grad, "full_tensor")

    hp.run_local(step, 2)


def test_maxima_have_no_gradient():
    def step():
        mesh = hp.init_device_mesh("cpu", (2,), mesh_dim_names=("a",))
        x = torch.ones(2).requires_grad_()
        refused(hp.UnsupportedError, "HP-G001", DTensor.from_local, x * 1, mesh, [Partial("max")])

    hp.run_local(step, 2)
