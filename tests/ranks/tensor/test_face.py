"""DTensors as Python values: in and out, gradients of intermediates, copies, pickles, text."""

import copy
import io
import pickle
import warnings

import pytest
import torch
from ranks_support import on_ranks, refused
from torch import nn

import hyper_parallel as hp
from hyper_parallel import DTensor, Layout, Partial, Replicate, Shard, UsageError

f64 = torch.float64


def line(size=2):
    return hp.init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))


def grid():
    return hp.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


def value(*shape, seed=0):
    return torch.randn(shape, dtype=f64, generator=torch.Generator().manual_seed(seed))


# ---- In and out ----------------------------------------------------------------------------


@on_ranks(2)
def test_distribute_cuts_and_full_tensor_joins():
    x = value(5, 3)
    d = hp.distribute_tensor(x, line(), [Shard(0)])
    assert type(d) is DTensor and d.shape == (5, 3)
    assert d.local_shape == ((3, 3) if hp.rank() == 0 else (2, 3))
    assert d.placements == (Shard(0),) and d.device_mesh == line()
    assert str(d.layout) == "tp=2: S(0)"
    assert torch.equal(d.full_tensor(), x)
    assert torch.equal(d.to_local(), x.chunk(2)[hp.rank()])


@on_ranks(2)
def test_the_source_rank_wins():
    mine = torch.full((4,), float(hp.rank()))
    assert hp.distribute_tensor(mine, line(), [Replicate()]).tolist() == [0.0] * 4
    chosen = hp.distribute_tensor(mine, line(), [Shard(0)], src_data_rank=1)
    assert chosen.tolist() == [1.0] * 4
    trusted = hp.distribute_tensor(mine, line(), [Shard(0)], src_data_rank=None)
    assert trusted.tolist() == [0.0, 0.0, 1.0, 1.0]


@on_ranks(4)
def test_layouts_names_and_placements_are_taken_alike():
    layout = Layout((2, 2), ("dp", "tp"))
    x = value(4, 6)
    for arguments in (
        (layout("dp", "tp"),),
        (None, layout("dp", "tp")),
        (layout, ("dp", "tp")),
        (grid(), [Shard(0), Shard(-1)]),
        (grid(), layout(Shard(0), Shard(1))),
    ):
        d = hp.distribute_tensor(x, *arguments)
        assert d.layout == layout("dp", "tp")
        assert torch.equal(d.full_tensor(), x)
    assert hp.distribute_tensor(x, grid()).layout == layout("None", "None")


@on_ranks(4)
def test_axis_order_within_a_dim_is_kept():
    layout = Layout((2, 2), ("dp", "tp"))
    d = hp.distribute_tensor(torch.arange(8.0), layout(("tp", "dp")))
    dp, tp = grid().get_coordinate()
    assert d.to_local().tolist() == torch.arange(8.0).chunk(4)[2 * tp + dp].tolist()
    assert d.redistribute(layout(("dp", "tp"))).tolist() == list(range(8))


@on_ranks(2)
def test_from_local_finds_the_global_shape():
    part = torch.full((3 - hp.rank(), 2), float(hp.rank()))
    d = DTensor.from_local(part, line(), [Shard(0)])
    assert d.shape == (5, 2)
    assert d[3:].tolist() == [[1.0, 1.0]] * 2
    given = DTensor.from_local(part, line(), [Shard(0)], shape=(5, 2), stride=(2, 1))
    assert torch.equal(given.full_tensor(), d.full_tensor())
    assert DTensor(part, line(), [Shard(0)]).shape == (5, 2)


@on_ranks(2)
def test_partial_values_are_summed():
    d = DTensor.from_local(torch.full((2,), hp.rank() + 1.0), line(), [Partial()])
    assert d.full_tensor().tolist() == [3.0, 3.0]
    assert d.reduce_partial().placements == (Replicate(),)
    assert d.reduce_partial().to_local().tolist() == [3.0, 3.0]
    largest = DTensor.from_local(torch.tensor([hp.rank() + 1.0]), line(), [Partial("max")])
    assert largest.full_tensor().tolist() == [2.0]


@on_ranks(4)
def test_run_check_makes_copies_equal():
    part = torch.full((2,), float(hp.rank()))
    d = DTensor.from_local(part, grid(), [Replicate(), Shard(0)], run_check=True)
    assert d.tolist() == [0.0, 0.0, 1.0, 1.0]
    assert part.tolist() == [float(hp.rank())] * 2


@on_ranks(4)
def test_redistribute_keeps_the_value():
    x = value(5, 7)
    for source in ([Shard(0), Shard(1)], [Replicate(), Shard(0)], [Shard(1), Shard(1)]):
        d = hp.distribute_tensor(x, grid(), source)
        for target in ([Shard(1), Replicate()], [Shard(0), Shard(0)], [Replicate(), Replicate()]):
            moved = d.redistribute(placements=target)
            assert moved.placements == tuple(target)
            assert torch.equal(moved.full_tensor(), x)
        assert d.redistribute(placements=source) is d
    layout = Layout((2, 2), ("dp", "tp"))
    assert d.redistribute(layout("tp", "dp")).layout == layout("tp", "dp")
    assert d.redistribute(layout=("tp", "dp")).layout == layout("tp", "dp")
    assert d.redistribute(grid(), [Shard(0), Shard(1)]).layout == layout("dp", "tp")


@on_ranks(2)
def test_torch_meshes_and_placements_are_taken():
    from torch.distributed import tensor as peer
    from torch.distributed.device_mesh import DeviceMesh

    theirs = DeviceMesh("cpu", [0, 1], mesh_dim_names=("tp",), _init_backend=False, _rank=0)
    assert hp.distribute_tensor(value(4), theirs, [peer.Shard(0)]).device_mesh == line()
    d = hp.distribute_tensor(value(4), line(), [peer.Shard(0)])
    assert d.redistribute(placements=[peer.Replicate()]).placements == (Replicate(),)


@on_ranks(2)
def test_torch_meshes_and_placements_are_taken_by_every_way_in():
    from torch import nn
    from torch.distributed import tensor as peer
    from torch.distributed.device_mesh import DeviceMesh

    from hyper_parallel.tensor.experimental import local_map
    from hyper_parallel.tensor.parallel import ColwiseParallel, distribute_module

    theirs = DeviceMesh("cpu", [0, 1], mesh_dim_names=("tp",), _init_backend=False, _rank=hp.rank())
    cut, whole = [peer.Shard(0)], [peer.Replicate()]
    x = hp.distribute_tensor(value(4, 4), theirs, cut)
    assert Layout.from_device_mesh(theirs)(peer.Shard(0)).placements == (Shard(0),)
    assert DTensor.from_local(x.to_local(), theirs, cut).placements == (Shard(0),)
    assert x.redistribute(theirs, whole).placements == (Replicate(),)
    assert hp.zeros(4, device_mesh=theirs, placements=cut).placements == (Shard(0),)
    double = hp.custom_shard(lambda x: 2 * x, theirs, (cut,), (cut,))
    assert double(x).device_mesh == line()
    assert hp.custom_shard(lambda x: x, theirs, (peer.Shard(0),))(x).placements == (Shard(0),)
    assert local_map(lambda x: x, cut, (cut,), device_mesh=theirs)(x).placements == (Shard(0),)
    total = hp.all_reduce(torch.ones(2), "tp", mesh=theirs)
    assert total.tolist() == [2.0, 2.0]
    plan = {"parameter": {"weight": cut}, "forward": {"output": whole}}
    linear = hp.shard_module(nn.Linear(4, 4), plan, theirs)
    assert linear.weight.placements == (Shard(0),)
    plan = hp.ShardingPlan(plan={"weight": cut}, output_plan={"output": tuple(whole)})
    assert hp.shard_module(nn.Linear(4, 4), theirs, plan).weight.device_mesh == line()
    style = ColwiseParallel(input_layouts=peer.Replicate(), output_layouts=peer.Shard(-1))
    assert hp.parallelize_module(nn.Linear(4, 4), theirs, style).weight.placements == (Shard(0),)
    assert distribute_module(nn.Linear(4, 4), theirs).weight.placements == (Replicate(),)


@on_ranks(4)
def test_factories_fill_the_parts():
    mesh = grid()
    d = hp.zeros(5, 4, device_mesh=mesh, placements=[Shard(0), Shard(1)], dtype=f64)
    assert d.dtype == f64 and d.local_shape == (3 if mesh.get_local_rank("dp") == 0 else 2, 2)
    assert torch.equal(d.full_tensor(), torch.zeros(5, 4, dtype=f64))
    ones = hp.ones((3,), device_mesh=mesh, placements=[Partial(), Shard(0)], requires_grad=True)
    assert ones.requires_grad and ones.is_leaf and ones.detach().tolist() == [1.0] * 3
    assert hp.full((2, 2), 7, device_mesh=mesh).dtype == torch.int64
    assert hp.full((2, 2), True, device_mesh=mesh).tolist() == [[True] * 2] * 2
    assert hp.empty(2, 3, device_mesh=mesh).shape == (2, 3)


@on_ranks(4)
def test_random_factories_draw_what_one_device_would():
    for made, peer in ((hp.rand, torch.rand), (hp.randn, torch.randn)):
        generator = torch.Generator().manual_seed(7)
        for placements in ([Shard(0), Shard(1)], [Replicate(), Partial()], [Shard(1), Shard(1)]):
            want = peer((5, 4), generator=generator.manual_seed(7), dtype=f64)
            hp.manual_seed(7)
            got = made(5, 4, device_mesh=grid(), placements=placements, dtype=f64)
            assert torch.equal(got.full_tensor(), want)


@on_ranks(4)
def test_groups_of_a_mesh_are_process_groups():
    import torch.distributed as dist

    mesh = grid()
    group = mesh.get_group("tp")
    assert group.size() == 2 and mesh["tp"].get_local_rank() == mesh.get_local_rank("tp")
    x = torch.tensor([float(hp.rank())])
    dist.all_reduce(x, group=group)
    assert x.item() == sum(mesh["tp"].rank_list)
    one = hp.init_device_mesh("cpu", (1, 4), mesh_dim_names=("a", "b"))
    refused(UsageError, "HP-M033", one.get_group, "a")


# ---- Gradients -----------------------------------------------------------------------------


def layouts():
    return ([Replicate(), Replicate()], [Shard(0), Replicate()], [Shard(1), Shard(0)])


@on_ranks(4)
def test_leaves_get_finished_gradients():
    x, w = value(4, 6), value(6, seed=1)
    for placements in layouts():
        leaf = hp.distribute_tensor(x, grid(), placements).requires_grad_()
        (leaf * w).square().sum().backward()
        assert type(leaf.grad) is DTensor and leaf.grad.layout == leaf.layout
        torch.testing.assert_close(leaf.grad.full_tensor(), 2 * x * w * w)


@on_ranks(4)
def test_gradients_reach_plain_tensors_whole():
    x = value(4, 6)
    for placements in layouts():
        plain = x.clone().requires_grad_()
        part = hp.distribute_tensor(plain * 1, grid(), placements)
        (part * part).sum().backward()
        torch.testing.assert_close(plain.grad, 2 * x)


@on_ranks(4)
def test_to_local_takes_the_users_gradient_as_whole():
    x = value(4, 6)
    for placements in layouts():
        leaf = hp.distribute_tensor(x, grid(), placements).requires_grad_()
        leaf.to_local().square().sum().backward()
        torch.testing.assert_close(leaf.grad.full_tensor(), 2 * x)
        leaf.grad = None
        leaf.full_tensor().square().sum().backward()
        torch.testing.assert_close(leaf.grad.full_tensor(), 2 * x)


@on_ranks(2)
def test_grad_placements_say_how_the_users_gradient_comes():
    leaf = hp.distribute_tensor(value(4), line(), [Replicate()]).requires_grad_()
    leaf.to_local(grad_placements=[Partial()]).sum().backward()
    assert leaf.grad.tolist() == [2.0] * 4
    part = torch.ones(2, dtype=f64, requires_grad=True)
    whole = DTensor.from_local(part, line(), [Replicate()], grad_placements=[Partial()])
    (whole * 3).sum().backward()
    assert part.grad.tolist() == [1.5] * 2  # this rank's contribution


@on_ranks(4)
def test_hooks_of_intermediates_see_dtensors():
    x = value(4, 6)
    for placements in layouts():
        leaf = hp.distribute_tensor(x, grid(), placements).requires_grad_()
        inside = leaf * 3
        seen = []
        handle = inside.register_hook(lambda g, seen=seen: seen.append(g))
        doubled = inside.register_hook(lambda g: g * 2)
        inside.square().sum().backward()
        assert type(seen[0]) is DTensor and seen[0].layout._layout == inside.layout._layout.dual()
        torch.testing.assert_close(seen[0].full_tensor(), 6 * x)
        torch.testing.assert_close(leaf.grad.full_tensor(), 36 * x)
        handle.remove()
        doubled.remove()
        leaf.grad = None
        (leaf * 3).square().sum().backward()
        torch.testing.assert_close(leaf.grad.full_tensor(), 18 * x)


@on_ranks(2)
def test_a_hook_may_return_a_whole_plain_gradient():
    leaf = hp.distribute_tensor(value(4), line(), [Shard(0)]).requires_grad_()
    inside = leaf * 1
    inside.register_hook(lambda g: torch.arange(4, dtype=f64))
    inside.sum().backward()
    assert leaf.grad.tolist() == [0, 1, 2, 3]


@on_ranks(2)
def test_leaf_hooks_see_dtensors():
    leaf = hp.distribute_tensor(value(4), line(), [Replicate()]).requires_grad_()
    seen = []
    leaf.register_hook(seen.append)
    (leaf * 2).sum().backward()
    assert type(seen[0]) is DTensor and seen[0].full_tensor().tolist() == [2.0] * 4
    assert leaf.grad.tolist() == [2.0] * 4


@on_ranks(4)
def test_retained_gradients_are_dtensors():
    x = value(4, 6)
    for placements in layouts():
        leaf = hp.distribute_tensor(x, grid(), placements).requires_grad_()
        inside = leaf * 3
        assert not inside.retains_grad
        inside.retain_grad()
        assert inside.retains_grad and inside.grad is None
        inside.square().sum().backward()
        assert type(inside.grad) is DTensor
        torch.testing.assert_close(inside.grad.full_tensor(), 6 * x)
        inside.grad = None
        assert inside.grad is None


@on_ranks(4)
def test_autograd_grad_takes_intermediates_and_leaves():
    x = value(4, 6)
    for placements in layouts():
        leaf = hp.distribute_tensor(x, grid(), placements).requires_grad_()
        inside = leaf * 3
        loss = inside.square().sum()
        for unused in (False, True):
            got, own = torch.autograd.grad(
                loss, [inside, leaf], allow_unused=unused, retain_graph=True
            )
            assert type(got) is DTensor and type(own) is DTensor
            torch.testing.assert_close(got.full_tensor(), 6 * x)
            torch.testing.assert_close(own.full_tensor(), 18 * x)
        assert leaf.grad is None


@on_ranks(2)
def test_gradients_of_gradients():
    x = value(4)
    for placements in ([Replicate()], [Shard(0)]):
        leaf = hp.distribute_tensor(x, line(), placements).requires_grad_()
        inside = leaf * 2
        (slope,) = torch.autograd.grad((inside**3).sum(), inside, create_graph=True)
        torch.testing.assert_close(slope.full_tensor(), 12 * x**2)
        (slope * slope).sum().backward()
        torch.testing.assert_close(leaf.grad.full_tensor(), 576 * x**3)


@on_ranks(2)
def test_backward_with_inputs_inside_the_graph():
    leaf = hp.distribute_tensor(value(4), line(), [Shard(0)]).requires_grad_()
    inside = leaf * 2
    inside.sum().backward(inputs=[inside])
    assert inside.grad.tolist() == [1.0] * 4 and leaf.grad is None


@on_ranks(2)
def test_outputs_of_python_functions_are_in_the_graph():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert type(g) is DTensor
            return g * 2

    x = value(4)
    leaf = hp.distribute_tensor(x, line(), [Shard(0)]).requires_grad_()
    out = Double.apply(leaf * 1)
    assert type(out) is DTensor
    out.square().sum().backward()
    torch.testing.assert_close(leaf.grad.full_tensor(), 8 * x)


# ---- As Python values ----------------------------------------------------------------------


@on_ranks(2)
def test_repr_shows_this_ranks_part_and_does_not_communicate():
    d = hp.distribute_tensor(torch.arange(4.0), line(), [Shard(0)])
    if hp.rank() == 0:  # the other rank does not take part
        assert repr(d) == "DTensor(f32[4] on tp=2: S(0), local=tensor([0., 1.]))"
        assert "requires_grad=True" in repr(d.detach().requires_grad_())
        assert "grad_fn=<" in repr(d.detach().requires_grad_() * 2)


@on_ranks(2)
def test_values_come_out_whole():
    d = hp.distribute_tensor(torch.arange(4.0), line(), [Shard(0)])
    assert d.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert d.numpy().sum() == 6
    assert d.requires_grad_().tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        d.numpy()
    assert d.numpy(force=True).shape == (4,)
    assert len(d) == 4 and d.sum().item() == 6.0 and bool(d.sum() > 5)
    assert f"{d.sum():.1f}" == "6.0"
    assert [float(each) for each in d.detach()] == [0.0, 1.0, 2.0, 3.0]


@on_ranks(2)
def test_parameters_are_dtensors():
    d = hp.distribute_tensor(value(4, 4), line(), [Shard(0)])
    p = nn.Parameter(d)
    assert isinstance(p, nn.Parameter) and isinstance(p, DTensor)
    assert p.is_leaf and p.requires_grad and p.layout == d.layout
    module = nn.Linear(4, 4, bias=False, dtype=f64)
    module.weight = p
    assert dict(module.named_parameters())["weight"] is p
    assert type(module.state_dict()["weight"]) is DTensor
    assert type(p.data) is DTensor and not p.data.requires_grad


@on_ranks(2)
def test_data_is_replaced_in_place():
    p = nn.Parameter(hp.distribute_tensor(value(4), line(), [Shard(0)]))
    p.data = hp.distribute_tensor(torch.ones(4, dtype=f64), line(), [Replicate()])
    assert p.placements == (Replicate(),) and p.tolist() == [1.0] * 4 and p.requires_grad
    p.data = p.data.to(torch.float32)
    assert p.dtype == torch.float32
    with pytest.raises((UsageError, RuntimeError)):
        p.data = torch.ones(4)


@on_ranks(2)
def test_deep_copies_are_apart():
    p = nn.Parameter(hp.distribute_tensor(value(4), line(), [Shard(0)]))
    (p * 2).sum().backward()
    twin = copy.deepcopy(p)
    assert isinstance(twin, nn.Parameter) and type(twin) is DTensor and twin.layout == p.layout
    assert twin.grad.tolist() == [2.0] * 4 and twin.grad is not p.grad
    with torch.no_grad():
        twin.zero_()
    assert twin.tolist() == [0.0] * 4 and torch.equal(p.detach().full_tensor(), value(4))
    pair = copy.deepcopy([p, p])
    assert pair[0] is pair[1]
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(p * 2)


@on_ranks(2)
def test_pickles_come_back_on_an_equal_mesh():
    p = nn.Parameter(hp.distribute_tensor(value(5, 2), line(), [Shard(0)]))
    for back in (pickle.loads(pickle.dumps(p)), *_saved(p)):
        assert isinstance(back, nn.Parameter) and type(back) is DTensor
        assert back.layout == p.layout and back.requires_grad
        assert torch.equal(back.detach().full_tensor(), value(5, 2))


def _saved(tensor):
    for weights_only in (True, False):
        file = io.BytesIO()
        torch.save({"p": tensor}, file)
        file.seek(0)
        yield torch.load(file, weights_only=weights_only)["p"]


@on_ranks(2)
def test_a_pickle_holds_this_part_alone():
    d = hp.distribute_tensor(torch.zeros(1000), line(), [Shard(0)])
    assert len(pickle.dumps(d)) < 1000 / 2 * 4 + 1500


@on_ranks(2)
def test_grad_of_an_intermediate_does_not_warn():
    leaf = hp.distribute_tensor(value(4), line(), [Shard(0)]).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (leaf * 2).grad is None


def test_one_rank_needs_no_launcher():
    mesh = hp.init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
    leaf = hp.distribute_tensor(value(4, 4), mesh, [Shard(0)]).requires_grad_()
    (leaf @ leaf).sum().backward()
    plain = value(4, 4).requires_grad_()
    (plain @ plain).sum().backward()
    torch.testing.assert_close(leaf.grad.full_tensor(), plain.grad)
