"""Meshes, placements and layouts as Python values; no ranks."""

import copy
import pickle
import time

import pytest
import torch

import hyper_parallel as hp
from hyper_parallel import DeviceMesh, Layout, Partial, Replicate, Shard, UsageError
from hyper_parallel.layouts.layout_specs import is_layout_spec, resolve_layout

LAYOUT = Layout((2, 4), ("dp", "mp"))


def refused(code, call, *args, **kwargs):
    with pytest.raises(UsageError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code
    assert str(caught.value).startswith(f"[{code}] ")
    return str(caught.value)


# ---- Placements ----------------------------------------------------------------------------


def test_placements_are_values():
    assert Shard(1) == Shard(1) != Shard(0)
    assert len({Shard(1), Shard(1), Replicate(), Partial(), Partial("sum"), Partial("max")}) == 4
    assert [str(p) for p in (Shard(0), Replicate(), Partial("avg"))] == ["S(0)", "R", "P(avg)"]
    for p in (Shard(-1), Replicate(), Partial("max")):
        assert eval(repr(p)) == p
        assert pickle.loads(pickle.dumps(p)) == p
        assert copy.deepcopy(p) == p


def test_isinstance_tells_kinds_of_placements_apart():
    assert isinstance(Shard(0), Shard) and isinstance(Shard(0), hp.Placement)
    assert not isinstance(Replicate(), Shard)
    assert isinstance(Replicate(), Replicate) and isinstance(Partial(), Partial)
    assert not isinstance(0, Shard)


def test_an_unknown_reduction_lists_the_kinds():
    assert "max" in refused("HP-L001", Partial, "median")


# ---- Meshes --------------------------------------------------------------------------------


def test_axes_without_names_are_numbered():
    mesh = hp.init_device_mesh("cpu", (2, 3))
    assert mesh.mesh_dim_names == ("dim_0", "dim_1")
    assert mesh.shape == (2, 3) and mesh.ndim == 2 and mesh.size() == 6
    assert mesh.size(1) == mesh.size("dim_1") == mesh.size(-1) == 3
    assert torch.equal(mesh.mesh, torch.arange(6).reshape(2, 3))


def test_equal_meshes_are_equal():
    made = hp.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    given = DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))
    moved = hp.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"), rank_list=(0, 2, 1, 3))
    assert made == given and hash(made) == hash(given)
    assert made != moved and moved.rank_list == (0, 2, 1, 3)
    assert pickle.loads(pickle.dumps(moved)) == moved
    assert eval(repr(moved)) == moved


def test_a_mesh_flattens_to_one_axis():
    mesh = hp.init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    assert mesh.flatten().mesh_dim_names == ("pp_dp_tp",)
    assert mesh.flatten("all").shape == (8,)


def test_the_calling_rank_has_a_place():
    mesh = hp.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert mesh.get_coordinate() == [0, 0] and mesh.get_local_rank("tp") == 0
    assert mesh["tp"].rank_list == (0, 1) and mesh["dp"].rank_list == (0, 2)
    assert mesh["tp", "dp"].rank_list == (0, 2, 1, 3)
    assert hp.init_device_mesh("cpu", (2,), rank_list=(4, 5)).get_coordinate() is None


def test_bad_meshes_are_refused():
    refused("HP-M004", hp.init_device_mesh, "cpu", (2, 2), mesh_dim_names=("dp", "dp"))
    refused("HP-M002", hp.init_device_mesh, "cpu", (2, 2), mesh_dim_names=("dp",))
    refused("HP-M006", hp.init_device_mesh, "cpu", (2, 2), rank_list=(0, 1))
    refused("HP-M007", hp.init_device_mesh, "cpu", (2,), rank_list=(1, 1))
    refused("HP-M031", DeviceMesh, "cpu", [[0, 1], [2]])
    mesh = hp.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert "dp, tp" in refused("HP-M010", lambda: mesh["pp"])
    assert "dp, tp" in refused("HP-M034", lambda: mesh[0])
    refused("HP-M010", mesh.size, 2)
    assert "dp, tp" in refused("HP-M035", mesh.get_local_rank)


# ---- Layouts -------------------------------------------------------------------------------


def test_names_give_one_entry_a_tensor_dim():
    assert str(LAYOUT("dp", "None")) == "dp=2 mp=4: S(0) R"
    assert str(LAYOUT("None", "mp")) == "dp=2 mp=4: R S(1)"
    assert str(LAYOUT(None, "mp")) == str(LAYOUT("None", "mp"))
    assert str(LAYOUT(("dp", "mp"), "None")) == "dp=2 mp=4: S(0) S(0)"
    assert str(LAYOUT()) == "dp=2 mp=4: R R"
    assert str(LAYOUT) == "dp=2 mp=4" and not LAYOUT.configured
    assert LAYOUT("dp").configured and LAYOUT().configured


def test_the_order_of_axes_on_one_dim_counts():
    forward, backward = LAYOUT(("dp", "mp")), LAYOUT(("mp", "dp"))
    assert forward != backward
    assert Layout.parse(str(backward)) == backward
    assert forward.tensor_map == ((1, 0),) and backward.tensor_map == ((0, 1),)


def test_placements_give_one_entry_an_axis():
    assert LAYOUT(Shard(0), Replicate()) == LAYOUT("dp", "None")
    assert LAYOUT([Shard(0), Replicate()]) == LAYOUT((Shard(0), Replicate())) == LAYOUT("dp")
    assert LAYOUT(Replicate(), Partial()).partial == (None, "sum")
    assert LAYOUT(Shard(0), Replicate()).placements == (Shard(0), Replicate())


def test_torch_placements_are_taken():
    from torch.distributed import tensor as peer

    assert LAYOUT(peer.Shard(0), peer.Partial("max")) == LAYOUT(Shard(0), Partial("max"))


def test_a_layout_shows_the_seeds_attributes():
    layout = LAYOUT(("dp", "mp"), "None")
    assert layout.mesh_shape == (2, 4) and layout.alias_name == ("dp", "mp")
    assert layout.rank_list == tuple(range(8))
    assert layout.alias_tensor_map == (("dp", "mp"), "None")
    assert layout.tensor_map == ((1, 0), -1)
    assert LAYOUT("mp", "None", "dp").tensor_map == (0, -1, 1)
    assert LAYOUT("dp").replicas == 4
    assert layout.to_dict()["tensor_map"] == ((1, 0), -1)


def test_dims_that_count_from_the_end_wait_for_a_tensor():
    layout = LAYOUT(Shard(-1), Replicate())
    assert layout.placements == (Shard(-1), Replicate())
    assert str(layout.resolve(3)) == "S(2) R" and str(layout.resolve(1)) == "S(0) R"
    refused("HP-L025", lambda: layout.tensor_map)


def test_layouts_are_values():
    for layout in (
        LAYOUT,
        LAYOUT("dp", "None"),
        LAYOUT(("mp", "dp")),
        LAYOUT(Shard(-1), Partial("max")),
        Layout((2,), ("a",), (3, 1))("a"),
        LAYOUT("dp").with_partial("mp"),
    ):
        assert eval(repr(layout)) == layout
        assert pickle.loads(pickle.dumps(layout)) == layout
        assert hash(pickle.loads(pickle.dumps(layout))) == hash(layout)
        assert copy.deepcopy(layout) is layout
    assert LAYOUT("dp", "None") is LAYOUT("dp", "None")


def test_an_axis_of_one_rank_keeps_its_name_in_the_map():
    layout = Layout((1, 2), ("dp", "tp"))("dp", "tp")
    assert layout.alias_tensor_map == ("dp", "tp")
    assert str(layout) == "dp=1 tp=2: R S(1)"


def test_parts_of_a_dim_may_be_cut_each_on_its_own():
    layout = LAYOUT("mp", "None").with_segments(0, 8, 4, 4)
    assert str(layout) == "dp=2 mp=4: R S(0; segments=8|4|4)"
    assert Layout.parse(str(layout)) == layout == eval(repr(layout)) != LAYOUT("mp", "None")
    assert layout.resolve(2).local_shape([16, 3], [0, 1]) == [4, 3]
    refused("HP-L030", LAYOUT("mp", "None").with_segments, 1, 2, 2)


def test_bad_layouts_are_refused():
    assert "dp, mp" in refused("HP-M010", LAYOUT, "pp")
    assert '"dp" is used twice' in refused("HP-L002", LAYOUT, "dp", "dp")
    assert "dp=2 mp=4" in refused("HP-L003", LAYOUT, Shard(0))
    refused("HP-L029", LAYOUT, 3)
    refused("HP-L022", LAYOUT, Shard(0), "dp")
    refused("HP-L024", LAYOUT("dp").with_partial, "dp")
    assert "dp=2 mp=4" in refused("HP-L005", LAYOUT(Shard(2), Replicate()).resolve, 2)
    refused("HP-L005", LAYOUT(Shard(-3), Replicate()).resolve, 2)
    assert "2 entries, the tensor 3 dims" in refused("HP-L021", LAYOUT("dp", "mp").resolve, 3)
    assert "call it" in refused("HP-L020", LAYOUT.resolve, 2)
    refused("HP-M004", Layout, (2, 2), ("dp", "dp"))
    refused("HP-M003", Layout, (2,), ("None",))
    refused("HP-T001", Layout.parse, "dp=2: Q(0)")


def test_a_description_of_one_layout_is_told_from_a_list_of_them():
    one = [LAYOUT("dp"), Shard(0), (Shard(0), Replicate()), ("dp", "None"), (("dp", "mp"), "None")]
    many = [
        (),
        [LAYOUT("dp")],
        (None, None),
        (("dp", "None"),),
        ((Shard(0),), None),
        "dp",
        None,
        {},
    ]
    assert all(map(is_layout_spec, one))
    assert not any(map(is_layout_spec, many))


def test_descriptions_resolve_against_a_mesh():
    mesh = LAYOUT.device_mesh._core
    want = LAYOUT("dp", "None").resolve(2)
    for spec in (LAYOUT("dp", "None"), (Shard(0), Replicate()), [Shard(-2), Replicate()]):
        assert resolve_layout(spec, mesh, 2) == want
    assert resolve_layout(("dp", None), mesh, 2) == want
    other = Layout((8,), ("dp",))("dp")
    refused("HP-L026", resolve_layout, other, mesh, 1)
    refused("HP-L027", resolve_layout, ("dp", "None"), None, 2)
    refused("HP-L028", resolve_layout, 3, mesh, 2)


def test_making_a_layout_takes_microseconds():
    start = time.perf_counter()
    for _ in range(10000):
        LAYOUT("dp", "None")
    assert (time.perf_counter() - start) / 10000 < 50e-6  # about 0.3 us on an idle machine


def test_plans_are_shown():
    text = hp.plan(LAYOUT("dp").resolve(1), LAYOUT().resolve(0), "f32[8]")
    assert "all-gather" in text or "all_gather" in text
