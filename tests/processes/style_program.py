"""Run by test_torchrun.py on each process: one plan with torch's styles and with ours."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed import tensor as theirs
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import parallel as torch_parallel

sys.path.insert(0, str(Path(__file__).parent.parent / "ranks"))
sys.path.insert(0, str(Path(__file__).parent.parent / "ranks/modules"))

import test_style as t

import hyper_parallel as hp
from hyper_parallel.tensor import from_torch, parallel, to_torch


def plan(api, tensor):
    """The plan in the words of one of the two."""
    whole = dict(input_layouts=tensor.Shard(1), desired_input_layouts=tensor.Replicate())
    rows = dict(output_layouts=tensor.Shard(1))
    out = {
        "embed": api.RowwiseParallel(input_layouts=tensor.Replicate(), **rows),
        "norm": api.SequenceParallel(),
        "head": api.ColwiseParallel(
            input_layouts=tensor.Shard(1), output_layouts=tensor.Replicate()
        ),
    }
    for i in range(2):
        out |= {
            f"layers.{i}.norm1": api.SequenceParallel(),
            f"layers.{i}.norm2": api.SequenceParallel(),
            f"layers.{i}.attention": api.PrepareModuleInput(**whole),
            f"layers.{i}.attention.o": api.RowwiseParallel(**rows),
            f"layers.{i}.mlp": api.PrepareModuleInput(**whole),
            f"layers.{i}.mlp.w1": api.ColwiseParallel(),
            f"layers.{i}.mlp.w2": api.RowwiseParallel(**rows),
        }
        for name in "qkv":
            out[f"layers.{i}.attention.{name}"] = api.ColwiseParallel()
    return out


def step(api, tensor, mesh):
    model = api.parallelize_module(t.filled(t.Model()), mesh, plan(api, tensor))
    loss = t.loss_of(model, t.tokens(6))
    loss.backward()
    full = lambda x: x.full_tensor() if hasattr(x, "full_tensor") else x  # noqa: E731
    return full(loss.detach()), {n: full(p.grad) for n, p in model.named_parameters()}


def far(one, other):
    loss, grads = abs((one[0] - other[0]).item()), 0.0
    for name, grad in one[1].items():
        grads = max(grads, (grad - other[1][name]).abs().max().item())
    return max(loss, grads) < 1e-12


def converted(mesh):
    """From torch's DTensor to ours and back, with gradients."""
    whole = t.drawn(5, 4)
    x = theirs.distribute_tensor(whole, mesh, [theirs.Shard(0)]).requires_grad_()
    ours = from_torch(x)
    same = torch.equal(ours.detach().full_tensor(), whole) and ours.requires_grad
    back = to_torch(ours, mesh)
    same &= torch.equal(back.full_tensor(), whole) and back.placements == x.placements
    inside = from_torch(x * 2)
    (to_torch(inside * 3, mesh) * 1).full_tensor().sum().backward()
    return same and torch.equal(x.grad.full_tensor(), torch.full((5, 4), 6.0, dtype=t.f64))


def exchanged():
    """Collectives of local code, uneven, and their gradients."""
    layout = hp.Layout((dist.get_world_size(),), ("ep",))
    x = hp.distribute_tensor(t.drawn(7, 3), layout("ep", "None")).requires_grad_()

    def turn(x):
        size, me = hp.axis_size("ep"), hp.axis_rank("ep")
        send = [0] * size
        send[(me + 1) % size] = x.shape[0]
        y = hp.all_to_all(x, "ep", send)
        send = [0] * size
        send[(me - 1) % size] = y.shape[0]
        return hp.all_to_all(2 * y, "ep", send) + 0 * hp.all_reduce(x.sum(), "ep")

    out = hp.custom_shard(turn, (layout("ep", "None"),))(x)
    out.square().sum().backward()
    good = torch.equal(out.detach().full_tensor(), 2 * t.drawn(7, 3))
    return good and torch.allclose(x.grad.full_tensor(), 8 * t.drawn(7, 3))


def main() -> None:
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    alone = t.filled(t.Model())
    loss = t.loss_of(alone, t.tokens(6))
    loss.backward()
    want = loss.detach(), {n: p.grad for n, p in alone.named_parameters()}
    torchs = step(torch_parallel, theirs, mesh)
    mine = step(parallel, hp.tensor, mesh)  # torch's mesh
    mixed = step(parallel, theirs, mesh)  # and torch's placements
    found = (
        dist.get_rank(),
        far(torchs, want),
        far(mine, want),
        far(mixed, torchs),
        converted(mesh),
        exchanged(),
    )
    sys.stdout.write(f"RESULT {found}\n")
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
