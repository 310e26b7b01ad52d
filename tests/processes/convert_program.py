"""Run by test_torchrun.py on four processes: torch's DTensors to ours and back, with gradients."""

import sys

import torch
import torch.distributed as dist
from torch.distributed import tensor as theirs
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.placement_types import _StridedShard

import hyper_parallel as hp
from hyper_parallel.tensor import from_torch, to_torch

S, R = theirs.Shard, theirs.Replicate
CASES = [
    ((8, 4), [_StridedShard(0, split_factor=2), S(0)], "dp=2 tp=2: S(0, 1) S(0, 0)"),
    ((7, 4), [_StridedShard(0, split_factor=2), S(0)], "dp=2 tp=2: S(0, 1) S(0, 0)"),
    ((5, 3), [S(0), S(0)], "dp=2 tp=2: S(0) S(0)"),
    ((5, 3), [S(1), S(0)], "dp=2 tp=2: S(1) S(0)"),
    ((3, 3), [S(0), S(0)], "dp=2 tp=2: S(0) S(0)"),
    ((5, 3), [R(), S(0)], "dp=2 tp=2: R S(0)"),
]


def made(mesh, whole, placements):
    """One of torch's, made of the whole value; strided cuts by hand, as torch defines them."""
    if not any(type(p) is _StridedShard for p in placements):
        copies = theirs.DTensor.from_local(whole, mesh, [R(), R()], run_check=False)
        return copies.redistribute(placements=placements)
    pieces = [*whole.chunk(4), whole[:0], whole[:0]]
    dp, tp = mesh.get_coordinate()
    parts = [*torch.cat([pieces[dp], pieces[dp + 2]]).chunk(2), whole[:0]]
    sizes = dict(shape=whole.shape, stride=whole.stride())
    return theirs.DTensor.from_local(parts[tp].clone(), mesh, placements, run_check=False, **sizes)


def check(mesh, shape, placements, layout):
    whole = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = made(mesh, whole, placements).detach().requires_grad_()
    ours = from_torch(x)
    good = str(ours.layout) == layout and torch.equal(ours.detach().full_tensor(), whole)
    good &= ours.requires_grad and ours.is_leaf
    inside = from_torch(x * 2)  # stays in the graph
    (inside * inside).sum().backward()
    good &= torch.allclose(x.grad.full_tensor(), 8 * whole, rtol=0, atol=1e-12)
    if "0, 1" in layout and shape[0] % 4:
        try:
            to_torch(ours, mesh)
            return False
        except hp.UnsupportedError as error:
            return good and error.code == "HP-D024"
    back = to_torch(ours, mesh)
    return good and back.placements == tuple(placements) and torch.equal(back.full_tensor(), whole)


def main() -> None:
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    found = [check(mesh, *case) for case in CASES]
    sys.stdout.write(f"RESULT {(dist.get_rank(), *found)}\n")
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
