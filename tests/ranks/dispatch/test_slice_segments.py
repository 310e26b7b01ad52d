"""Parts of whole segments of a dim that is cut segment by segment: q, k and v of a fused weight."""

import pytest
import torch
from handlers_support import MESHES, compare, tensor

import hyper_parallel as hp
from hyper_parallel import Layout, distribute_tensor, run_local

# 7, 4 and 5 rows: none but 4 divides by 2, and over 4 ranks some hold one row or none.
SIZES = (7, 4, 5)
CUT = "S(0; segments=7|4|5)"
LAYOUTS = {(2,): f"tp=2: {CUT}", (4,): f"tp=4: {CUT}", (2, 2): f"dp=2 tp=2: S(1) {CUT}"}
PARTS = [(0, 7), (7, 11), (11, 16), (-5, None), (0, 11), (7, None)]


@pytest.mark.parametrize("mesh", MESHES, ids=lambda m: "x".join(map(str, m[0])))
@pytest.mark.parametrize(("start", "end"), PARTS)
def test_parts_equal_one_device(start, end, mesh):
    compare(lambda x: x[start:end] * 2, [tensor(16, 6)], [LAYOUTS[mesh[0]]], mesh)


@pytest.mark.parametrize("mesh", MESHES, ids=lambda m: "x".join(map(str, m[0])))
def test_nothing_moves(mesh):
    x = tensor(16, 6)

    def on_rank():
        laid = distribute_tensor(x, Layout.parse(LAYOUTS[mesh[0]]))
        with hp.policy("strict"), hp.comm_report() as report:
            parts = laid[:7], laid[7:11], laid[11:]
        assert not report.rows
        return [str(p.layout) for p in parts]

    plain = LAYOUTS[mesh[0]].replace("; segments=7|4|5", "")
    assert run_local(on_rank, torch.Size(mesh[0]).numel())[0] == [plain] * 3


def test_parts_are_views():
    x = tensor(16, 6)
    want = x.clone()
    want[7:11] += 1

    def on_rank():
        laid = distribute_tensor(x.clone(), Layout.parse(LAYOUTS[(2,)]))
        laid[7:11] += 1
        return laid.full_tensor()

    for got in run_local(on_rank, 2):
        assert torch.equal(got, want)


@pytest.mark.parametrize(("start", "end"), [(0, 6), (8, 11), (3, 16)])
def test_other_parts_equal_one_device(start, end):
    compare(lambda x: x[start:end] * 2, [tensor(16, 6)], [LAYOUTS[(2,)]], MESHES[0], strict=False)
