"""Bad input: each gives a clear error of the right class, nothing hangs, nothing is lost."""

import time

import pytest
import torch
from ranks_support import functional, group_name, on_ranks, refused
from torch import nn

import hyper_parallel as hp
from hyper_parallel import (
    CommError,
    DTensor,
    Layout,
    Partial,
    Replicate,
    Shard,
    UnsupportedError,
    UsageError,
)

LINE = Layout((2,), ("tp",))
GRID = Layout((2, 2), ("dp", "tp"))


def put(shape, layout, dtype=torch.float32):
    return hp.distribute_tensor(torch.ones(shape, dtype=dtype), layout, src_data_rank=None)


# ---- Layouts and meshes --------------------------------------------------------------------


@on_ranks(2)
def test_an_unknown_axis_lists_the_axes():
    x = torch.ones(4, 4)
    assert "axes  tp" in refused(
        UsageError, "HP-M010", hp.distribute_tensor, x, LINE, ("pp", "None")
    )
    assert "tp" in refused(UsageError, "HP-M010", lambda: LINE("pp"))
    assert "tp" in refused(UsageError, "HP-M010", lambda: LINE.device_mesh["pp"])


@on_ranks(2)
def test_an_alias_used_twice():
    refused(UsageError, "HP-L002", LINE, "tp", "tp")
    refused(UsageError, "HP-L002", hp.distribute_tensor, torch.ones(4, 4), LINE, ("tp", "tp"))


@on_ranks(2)
def test_a_shard_dim_out_of_range_shows_the_layout():
    x, d = torch.ones(4, 4), put((4, 4), LINE("tp", "None"))
    mesh = LINE.device_mesh
    for dim in (2, -3):
        refused(UsageError, "HP-L005", hp.distribute_tensor, x, mesh, [Shard(dim)])
        refused(UsageError, "HP-L005", DTensor.from_local, x, mesh, [Shard(dim)])
        refused(UsageError, "HP-L005", d.redistribute, placements=[Shard(dim)])
    assert d.tolist() == [[1.0] * 4] * 4


@on_ranks(2)
def test_a_wrong_number_of_placements():
    x = torch.ones(4, 4)
    for placements in ([Shard(0), Shard(1)], ("tp", "None", "None")):
        with pytest.raises(UsageError) as caught:
            hp.distribute_tensor(x, LINE.device_mesh, placements)
        assert caught.value.code in ("HP-L003", "HP-L021")


@on_ranks(2)
def test_a_mesh_larger_than_the_world():
    mesh = hp.init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
    text = refused(UsageError, "HP-M020", hp.distribute_tensor, torch.ones(4), mesh, [Shard(0)])
    assert "tp=4" in text and "2" in text
    refused(UsageError, "HP-M020", DTensor.from_local, torch.ones(4), mesh, [Shard(0)])
    model = nn.Linear(4, 4)
    plan = {"parameter": {"weight": Layout((4,), ("tp",))("tp", "None")}}
    refused(UsageError, "HP-M020", hp.shard_module, model, plan)
    assert type(model.weight) is nn.Parameter


@on_ranks(4)
def test_a_rank_outside_the_mesh():
    mesh = hp.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    if hp.rank() >= 2:
        refused(UsageError, "HP-M011", hp.distribute_tensor, torch.ones(4), mesh, [Shard(0)])
        refused(UsageError, "HP-M032", hp.zeros, 4, device_mesh=mesh)
        assert mesh.get_coordinate() is None
    else:
        assert hp.distribute_tensor(torch.ones(4), mesh, [Shard(0)]).tolist() == [1.0] * 4
        given = (torch.ones(4), mesh, [Shard(0)])
        refused(UsageError, "HP-M015", hp.distribute_tensor, *given, src_data_rank=2)


@on_ranks(2)
def test_dtensors_of_different_meshes_in_one_op():
    one, other = put((4,), LINE("tp")), put((4,), Layout((2,), ("dp",))("dp"))
    with pytest.raises(UsageError) as caught:
        one + other
    assert "tp=2" in str(caught.value) and "dp=2" in str(caught.value)
    assert (one + one).tolist() == [2.0] * 4


# ---- Plans ---------------------------------------------------------------------------------


@on_ranks(2)
def test_a_plan_key_that_matches_nothing():
    model = nn.Sequential(nn.Linear(4, 4))
    plan = {"parameter": {"0.wieght": LINE("tp", "None")}}
    assert "near  0.weight" in refused(UsageError, "HP-P001", hp.shard_module, model, plan)


@on_ranks(2)
def test_a_dict_that_names_an_unknown_argument():
    model = nn.Linear(4, 4)
    plan = {"forward": {"input": {"inputs": LINE("tp", "None")}}}
    assert "input" in refused(UsageError, "HP-P007", hp.shard_module, model, plan)


# ---- Values --------------------------------------------------------------------------------


@on_ranks(2)
def test_a_part_that_does_not_fit():
    part = torch.ones(3 + hp.rank())
    text = refused(UsageError, "HP-D022", DTensor.from_local, part, LINE, ("tp",))
    assert "global" in text or "expected" in text
    refused(UsageError, "HP-D022", DTensor.from_local, part, LINE, ("tp",), shape=(20,))
    refused(UsageError, "HP-D021", DTensor.from_local, put((4,), LINE("tp")), LINE, ("tp",))
    refused(UsageError, "HP-D040", put((4,), LINE("tp")).redistribute)


@on_ranks(2)
def test_checking_finds_plain_tensors_that_differ():
    d = put((2, 3), LINE("None", "None"))
    with hp.checking():
        assert (d + torch.ones(3)).shape == (2, 3)
        shape = (3,) if hp.rank() == 0 else (2, 3)
        with pytest.raises(UsageError) as caught:
            d + torch.ones(shape)
        assert "aten::add" in str(caught.value) and "[2, 3]" in str(caught.value)
        with pytest.raises(UsageError):
            d + torch.full((3,), float(hp.rank()))
    assert (d + torch.ones(3)).shape == (2, 3)


@on_ranks(2)
def test_in_place_that_would_need_another_layout():
    x, y = put((4, 4), LINE("tp", "None")), put((4, 4), LINE("None", "tp"))
    before = x.full_tensor()
    p = DTensor.from_local(torch.ones(4, 4), LINE, [Partial()])
    with pytest.raises(UnsupportedError) as caught:
        p.relu_()
    assert caught.value.code == "HP-S030" and "aten::relu_" in str(caught.value)
    assert p.full_tensor().tolist() == [[2.0] * 4] * 4
    x.add_(y)  # the other operand moves instead
    assert torch.equal(x.full_tensor(), before + 1) and x.placements == (Shard(0),)


@on_ranks(2)
def test_a_write_through_a_copied_view():
    x = put((4, 4), LINE("tp", "None"))
    view = x[1:3]
    if not torch.equal(x.full_tensor(), torch.ones(4, 4)):
        raise AssertionError("changed")
    with pytest.raises(UsageError) as caught:
        view.add_(1)
    assert caught.value.code == "HP-D011"
    assert torch.equal(x.full_tensor(), torch.ones(4, 4))
    view.clone().add_(1)


@on_ranks(2)
def test_the_average_of_pending_integers():
    p = DTensor.from_local(torch.tensor([hp.rank() + 1]), LINE, [Partial("avg")])
    with pytest.raises((UsageError, UnsupportedError)) as caught:
        p.full_tensor()
    assert "avg" in str(caught.value) and caught.value.code


@on_ranks(2)
def test_an_op_without_a_rule_in_strict():
    x = put((4, 4), LINE("tp", "None"))
    with hp.policy("strict"):
        text = refused(UnsupportedError, "HP-D010", torch.linalg.eigvals, x)
    assert "linalg_eigvals" in text and "f32[4, 4] on tp=2: S(0)" in text


@on_ranks(2)
def test_sparse_tensors_are_refused_by_name():
    x = put((4, 4), LINE("tp", "None"), torch.float64)
    sparse = torch.eye(4, dtype=torch.float64).to_sparse_csr()
    for fn in (
        lambda: torch.sparse.sampled_addmm(sparse, x, x),
        lambda: torch.sparse.mm(sparse.detach().requires_grad_(), x, "mean"),
        lambda: x.to_sparse(1),
    ):
        text = refused(UnsupportedError, "HP-D025", fn)
        assert "Sparse" in text and "to_dense()" in text and "aten::" in text
    assert "full_tensor()" in refused(UnsupportedError, "HP-D015", x.to_sparse)


@on_ranks(2)
def test_resize_in_place_keeps_the_order_of_memory():
    want = torch.arange(12.0).view(3, 4)
    for layout in (LINE("tp", "None"), LINE("None", "tp"), LINE("None", "None")):
        for sizes in ((4, 3), (2, 3), (3, 4), (6,)):
            x = hp.distribute_tensor(want.clone(), layout, src_data_rank=None)
            assert x.resize_(sizes) is x
            assert torch.equal(x.full_tensor(), want.clone().resize_(sizes))
        grown = hp.distribute_tensor(want.clone(), layout, src_data_rank=None).resize_(5, 4)
        assert torch.equal(grown.full_tensor()[:3], want) and not grown.full_tensor()[3:].any()
    with pytest.raises(RuntimeError, match="require grad"):
        put((4, 4), LINE("tp", "None")).requires_grad_().resize_(2, 2)


@on_ranks(2)
def test_a_split_at_places_in_a_tensor():
    x = torch.arange(20.0).view(5, 4)
    for layout in (LINE("tp", "None"), LINE("None", "tp"), LINE("None", "None")):
        for where in (torch.tensor([1, 4]), torch.tensor(2)):
            for dim in (0, 1):
                d = hp.distribute_tensor(x, layout, src_data_rank=None)
                w = hp.distribute_tensor(where, LINE(*["tp"] * where.dim()), src_data_rank=None)
                with hp.policy("strict"):
                    got = torch.tensor_split(d, w, dim)
                for a, b in zip(got, torch.tensor_split(x, where, dim), strict=True):
                    assert torch.equal(a.full_tensor(), b)


@on_ranks(2)
def test_a_plain_tensor_cannot_become_the_data_of_a_dtensor():
    x = put((4,), LINE("tp"))
    with pytest.raises((UsageError, RuntimeError)):
        x.data = torch.zeros(4)
    assert x.tolist() == [1.0] * 4


@on_ranks(2)
def test_functions_of_dtensors_refuse_plain_tensors():
    from hyper_parallel import _torch

    for function in (_torch.layout, _torch.to_local, _torch.full_tensor, _torch.reduce_partial):
        refused(UsageError, "HP-D020", function, torch.ones(2))


# ---- Ranks ---------------------------------------------------------------------------------


def test_one_rank_that_raises_stops_the_others():
    def step():
        x = put((4,), GRID(("dp", "tp")))
        if hp.rank() == 2:
            raise KeyError("lost on the way")
        return x.full_tensor()

    start = time.monotonic()
    with pytest.raises(KeyError, match="lost on the way") as caught:
        hp.run_local(step, 4)
    assert "rank 2" in "".join(caught.value.__notes__)
    assert time.monotonic() - start < 20


def test_a_rank_that_makes_fewer_collectives_is_named():
    def step():
        x = put((4,), LINE("tp"))
        x.full_tensor()
        if hp.rank() == 0:
            x.full_tensor()

    with pytest.raises(CommError) as caught:
        hp.run_local(step, 2, timeout=2.0)
    text = str(caught.value)
    assert caught.value.code and "all" in text and "rank 1" in text


def test_ranks_that_disagree_are_named():
    def step():
        call = functional.all_reduce if hp.rank() == 0 else functional.all_gather_into_tensor
        what = "sum" if hp.rank() == 0 else 2
        functional.wait_tensor(call(torch.ones(4), what, group_name()))

    with pytest.raises(CommError) as caught:
        hp.run_local(step, 2, timeout=5.0)
    assert caught.value.code


def test_replicated_values_survive_an_error_elsewhere():
    def step():
        return put((4,), LINE("None")).tolist()

    with pytest.raises(ZeroDivisionError):
        hp.run_local(lambda: 1 // 0, 2)
    assert hp.run_local(step, 2) == [[1.0] * 4] * 2
    assert Replicate() == Replicate()
