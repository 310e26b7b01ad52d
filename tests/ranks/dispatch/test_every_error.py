"""Errors that no other test names: each by a call that a program might make."""

import os

import pytest
import torch
from own_ops_support import GRID, LINE, MyAdd, drawn, put, scaled
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
    _core,
)
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.tensor import from_torch, init_device_mesh, to_torch
from hyper_parallel.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def test_meshes_and_layouts():
    refused(UsageError, "HP-M001", init_device_mesh, "cpu", ())
    refused(UsageError, "HP-M005", init_device_mesh, "cpu", (2, 0))
    text = refused(UsageError, "HP-M030", hp.distribute_tensor, drawn(2), 3, [Shard(0)])
    assert "not int" in text and "init_device_mesh" in text
    mesh = _core.Mesh.get([2, 2, 2], ["a", "b", "c"], [])
    refused(UsageError, "HP-M012", mesh.flatten, [], "")
    assert "a, c" in refused(UsageError, "HP-M013", mesh.flatten, ["a", "c"], "")
    twice = [(0, [0], 1, []), (0, [1], 1, [])]
    refused(UsageError, "HP-L004", _core.Layout_.of_splits, mesh, twice)
    wide = _core.Mesh.get([1] * 33, [f"a{i}" for i in range(33)], [])
    target = _core.Layout_.replicated(wide)
    source = _core.Layout_.get(wide, [_core.Partial("sum")] + [_core.Replicate()] * 32)
    refused(UnsupportedError, "HP-R004", _core.plan, source, target, "f32[4]")


@on_ranks(2)
def test_dtensors():
    x = put(drawn(4, 4), LINE("tp", "None"), grad=False)
    refused(UnsupportedError, "HP-D015", x.as_strided_, (3,), (1,))
    with pytest.raises(UnsupportedError) as caught:
        torch.bernoulli(x.sigmoid(), out=x)
    assert caught.value.code == "HP-D016"
    places = put(torch.zeros(4, dtype=torch.int64), LINE("tp"), grad=False)
    refused(UsageError, "HP-D013", lambda: torch.max(x, 1, out=(drawn(4), places)))
    refused(UsageError, "HP-D023", from_torch, drawn(2))
    refused(UsageError, "HP-D020", to_torch, drawn(2))
    both = put(drawn(4), LINE("tp"), grad=False).redistribute(layout=LINE("tp"))
    segments = both.redistribute(layout=LINE("tp").with_segments(0, 2, 2))
    refused(UnsupportedError, "HP-D024", to_torch, segments)
    with hp.checking():
        plain = torch.full((4, 4), float(hp.rank()), dtype=torch.float64)
        assert "rank 1" in refused(UsageError, "HP-D031", torch.add, x, plain)
    z = put(torch.complex(drawn(4), drawn(4, seed=1)), LINE("tp"), grad=False)
    pending = DTensor.from_local(z.full_tensor(), LINE, [Partial("max")])
    refused(UnsupportedError, "HP-R007", pending.full_tensor)


@on_ranks(2)
def test_strided_shards_of_torch_are_no_argument():
    from torch.distributed.tensor.placement_types import _StridedShard

    text = refused(
        UnsupportedError,
        "HP-L023",
        hp.distribute_tensor,
        drawn(4),
        LINE.device_mesh,
        [_StridedShard(0, split_factor=2)],
    )
    assert 'layout(("tp", "dp"), "None")' in text


@on_ranks(2)
def test_gradients():
    pending = DTensor.from_local(drawn(4).requires_grad_(), LINE, [Partial("sum")])
    assert pending.requires_grad
    with pytest.raises(Exception) as caught:
        DTensor.from_local(drawn(4).requires_grad_(), LINE, [Partial("max")]).sum()
    assert caught.value.code == "HP-G001" and "reduce_partial()" in str(caught.value)


@on_ranks(4)
def test_functions_on_parts():
    x = put(drawn(4, 4), GRID("dp", "tp"))
    deep = hp.custom_shard(lambda x: x.reshape([1] * 7 + [2, 2]), GRID(*["None"] * 7, "dp", "tp"))
    assert "9 dims" in refused(UsageError, "HP-F011", deep, x)
    elsewhere = put(drawn(4, 4), Layout((4,), ("all",))("all", "None"))
    text = refused(UsageError, "HP-F037", MyAdd.apply, x, elsewhere)
    assert "dp=2 tp=2" in text and "all=4" in text

    class Leaves(DistributedOp):
        def preprocess(self, args, kwargs):
            return args, kwargs, [args[0].layout]

        def infer_layout(self, cache_values):
            return (cache_values[0],), None

    class Inherits(DistributedOp):
        pass

    Leaves("Leaves")
    op = Inherits("Inherits")
    assert "to_local()" in refused(UsageError, "HP-F038", scaled("Leaves").apply, x, 2.0)
    refused(UsageError, "HP-F030", op.infer_layout, [None])
    pending = DTensor.from_local(drawn(4, 4), GRID, [Partial(), Replicate()])
    text = refused(UsageError, "HP-F031", scaled("Inherits").apply, pending, 2.0)
    assert "input 0 has a pending reduction" in text and "reduce_partial()" in text


def test_plans():
    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
    refused(UsageError, "HP-P015", hp.shard_module, 3, {"forward": {"input": LINE("tp")}})
    for plan in ({"": "colwise"}, 3):
        with pytest.raises(TypeError) as caught:
            parallelize_module(nn.Linear(2, 2), mesh, plan)
        assert caught.value.code == "HP-P041"

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = self.two = nn.Linear(2, 2)

    plan = {"one": ColwiseParallel(), "two": RowwiseParallel()}
    text = refused(UsageError, "HP-P024", parallelize_module, Twice(), mesh, plan)
    assert '"one" and "two"' in text
    cut, whole = LINE("tp", "None"), LINE("None", "None")
    plan = {"forward": {"one.output": cut, "two.output": whole}}
    refused(UsageError, "HP-P024", hp.shard_module, Twice(), plan)


def test_the_verifier():
    refused(UsageError, "HP-V001", hp.verify, "aten::nothing", (drawn(2),), rule="a -> a")
    report = hp.verify("aten::linalg_eigvals", (drawn(2, 2),), meshes=[(2,)])
    assert report.wrong[0].detail.startswith("[HP-V002] no rule for aten::linalg_eigvals")
    text = "HYPER_PARALLEL_CASES"
    before = os.environ.pop(text, None)
    os.environ[text] = "/nowhere/cases.py"
    try:
        assert "nowhere" in refused(UsageError, "HP-V004", hp.verify, "aten::exp")
    finally:
        del os.environ[text]
        if before is not None:
            os.environ[text] = before
